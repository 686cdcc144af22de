//! `capgate launch-agent check`: what differs from what `write` writes, and what keeps the agent from working.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

use super::place::Place;
use super::task::{refuse_unless_runs, wanted};
use crate::agents::{Agent, Task, differences};
use crate::cli::AgentCheckArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::{BAD, GOOD, Ui, styled};

#[derive(Serialize)]
struct Report {
    label: String,
    file: String,
    differences: Vec<String>,
}

pub fn run(ui: &Ui, args: &AgentCheckArgs) -> Outcome {
    let (agent, place) = match wanted(&args.name, &args.task)? {
        Some((agent, place)) => (Some(agent), place),
        None => (None, Place::new(&args.name, None)?),
    };
    let shown = place.file.display().to_string();
    let Some((found, value)) = place.ours()? else {
        return Err(Failure::failed(format!("there is no agent `{shown}`"))
            .help("`capgate launch-agent write` writes one"));
    };
    // Without a program, the agent's own words say what it should be.
    let mut said = differences(&value, &agent.as_ref().unwrap_or(&found).value());
    said.extend(obstacles(&found, &place));
    if let Err(double) = place.refuse_double() {
        said.push(double.message);
    }
    if ui.is_json() {
        ui.json(&Report { label: place.label, file: shown, differences: said.clone() });
    } else {
        print(ui, &shown, &said);
    }
    Ok(if said.is_empty() { Exit::Done } else { Exit::Invalid })
}

fn print(ui: &Ui, file: &str, said: &[String]) {
    for line in said {
        ui.line(format!("{} {}", styled(BAD, "differs:"), crate::ui::visible(line)));
    }
    if said.is_empty() {
        ui.line(styled(GOOD, format!("`{file}` is as it should be")));
    } else {
        ui.hint("`capgate launch-agent write` writes it anew");
    }
}

/// What launchd, or `capgate run`, would stumble over.
fn obstacles(agent: &Agent, place: &Place) -> Vec<String> {
    let mut said = Vec::new();
    let mut need = |path: &str, what: &str| {
        said.extend(refuse_unless_runs(Path::new(path), what).err().map(|failure| failure.message));
    };
    need(&agent.capgate, "command");
    if let Task::Program(words) = &agent.task {
        need(words.first().map_or("", String::as_str), "program");
    }
    if let Ok(metadata) = fs::symlink_metadata(&place.file) {
        let own = rustix::process::getuid().as_raw();
        if metadata.mode() & 0o022 != 0 {
            said.push(format!(
                "others can write it (mode {:o}), and launchd refuses it",
                metadata.mode() & 0o7777
            ));
        }
        if metadata.uid() != own && metadata.uid() != 0 {
            said.push(format!("it belongs to user {}, and launchd refuses it", metadata.uid()));
        }
    }
    for file in [&agent.out, &agent.err] {
        let folder = Path::new(file).parent();
        if !folder.is_some_and(Path::is_dir) {
            said.push(format!("the folder of its log `{file}` does not exist"));
        }
    }
    said
}
