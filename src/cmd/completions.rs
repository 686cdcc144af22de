//! `capgate completions`: from the same types that parse the command line.

use clap::CommandFactory;
use serde_json::json;

use crate::cli::{Cli, CompletionsArgs};
use crate::exit::{Exit, Outcome};
use crate::ui::Ui;

pub fn run(ui: &Ui, args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "capgate", &mut script);
    let script = String::from_utf8_lossy(&script);
    if ui.is_json() {
        ui.json(&json!({ "shell": args.shell.to_string(), "script": script }));
    } else {
        ui.stdout(&script);
    }
    Ok(Exit::Done)
}
