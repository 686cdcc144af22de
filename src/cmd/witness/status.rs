//! `capgate witness status`: what was cosigned last, and what contradicted it.

use serde::Serialize;

use super::memory;
use crate::cli::WitnessStatusArgs;
use crate::exit::{Exit, Outcome};
use crate::ui::Ui;

#[derive(Serialize)]
struct Status {
    witness_key: String,
    logs: Vec<Log>,
    evidence: Vec<Log>,
}

#[derive(Serialize)]
struct Log {
    origin: String,
    size: u64,
    root: String,
    file: String,
}

/// Exit 4 where a log signed two histories.
pub fn run(ui: &Ui, args: &WitnessStatusArgs) -> Outcome {
    let mut status =
        Status { witness_key: memory::owner(&args.state)?, logs: Vec::new(), evidence: Vec::new() };
    for (is_evidence, checkpoint, file) in memory::contents(&args.state)? {
        let list = if is_evidence { &mut status.evidence } else { &mut status.logs };
        list.push(Log {
            origin: checkpoint.origin.to_string(),
            size: checkpoint.size,
            root: checkpoint.root.to_string(),
            file: args.state.join(file).display().to_string(),
        });
    }
    let exit = if status.evidence.is_empty() { Exit::Done } else { Exit::Invalid };
    if ui.is_json() {
        ui.json(&status);
        return Ok(exit);
    }
    ui.line(format!("witness {}", status.witness_key));
    for log in &status.logs {
        ui.line(format!("cosigned {}: {} entries, root {}", log.origin, log.size, log.root));
    }
    if status.logs.is_empty() {
        ui.line("nothing was cosigned yet");
    }
    for log in &status.evidence {
        ui.warn(format!(
            "{} signed two histories: a checkpoint of {} entries is in `{}`",
            log.origin, log.size, log.file
        ));
    }
    Ok(exit)
}
