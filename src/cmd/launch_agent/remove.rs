//! `capgate launch-agent remove`: only an agent of ours, and its file alone; what it said in its logs stays.

use std::fs;

use serde::Serialize;

use super::place::Place;
use crate::cli::AgentRemoveArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;

#[derive(Serialize)]
struct Removed {
    label: String,
    file: String,
    /// `removed`, or `absent` where there was none.
    state: &'static str,
    dry_run: bool,
    bootout: String,
}

pub fn run(ui: &Ui, args: &AgentRemoveArgs) -> Outcome {
    let place = Place::new(&args.name, None)?;
    let shown = place.file.display().to_string();
    let there = place.ours()?;
    if there.is_some() && !args.dry_run {
        fs::remove_file(&place.file)
            .map_err(|e| Failure::failed(format!("`{shown}` cannot be removed: {e}")))?;
    }
    let state = if there.is_some() { "removed" } else { "absent" };
    if ui.is_json() {
        let bootout = place.bootout();
        ui.json(&Removed { label: place.label, file: shown, state, dry_run: args.dry_run, bootout });
        return Ok(Exit::Done);
    }
    match (&there, args.dry_run) {
        (None, _) => ui.line(format!("absent: {shown}")),
        (Some(_), true) => ui.line(format!("would be removed: {shown}")),
        (Some(_), false) => ui.line(format!("removed: {shown}")),
    }
    if let Some((agent, _)) = there {
        ui.hint(format!("launchd keeps it until the next login, or until:\n  {}", place.bootout()));
        ui.hint(format!("its logs stay: {}, {}", agent.out, agent.err));
    }
    Ok(Exit::Done)
}
