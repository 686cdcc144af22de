//! `capgate witness init`: an empty memory for a new key.

use serde::Serialize;

use super::memory;
use crate::cli::WitnessInitArgs;
use crate::exit::{Exit, Outcome};
use crate::ui::Ui;

#[derive(Serialize)]
struct Made {
    witness_key: String,
    state: String,
}

pub fn run(ui: &Ui, args: &WitnessInitArgs) -> Outcome {
    let witness_key = memory::create(&args.witness)?.to_string();
    let state = args.witness.state.display().to_string();
    if ui.is_json() {
        ui.json(&Made { witness_key, state });
    } else {
        ui.line(witness_key);
        ui.hint(format!("`{state}` must never be lost or set back while that key is used"));
    }
    Ok(Exit::Done)
}
