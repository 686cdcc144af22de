//! `capgate doctor`: what stands between a program and tested answers, each with what mends it.

pub mod check;
mod images;
pub mod inject;
mod machine;
pub mod program;

use capgate_guest::session::State;
use capgate_guest::{facts, identity};
use jiff::Timestamp;
use serde::Serialize;

use super::run;
use crate::cli::DoctorArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use check::{Check, Level};
use program::Findings;

/// Everything that was found.
#[derive(Serialize)]
struct Report {
    checks: Vec<Check>,
    program: Option<Findings>,
}

pub fn run(ui: &Ui, args: &DoctorArgs) -> Outcome {
    let now = Timestamp::now();
    let mut checks = Vec::new();
    let prefix = run::find_prefix(args.prefix.as_deref());
    let state = match &prefix {
        Ok(prefix) => State::read(Ok(prefix), now),
        Err(why) => State::nothing(why),
    };
    match &prefix {
        Ok(prefix) => machine::look(prefix, &state, now, &mut checks),
        Err(why) => {
            checks.push(Check::failed(
                "prefix",
                why.as_str(),
                "install one with `capgate install`, or name it with `--prefix`",
            ));
        }
    }
    let found = args.program.as_ref().map(|program| run::program::find(program.as_os_str())).transpose();
    let found = found.map_err(|failure| Failure { exit: Exit::Failed, ..failure })?;
    let findings = match &found {
        Some(program) => {
            let library =
                prefix.as_ref().ok().map(|prefix| prefix.library()).filter(|library| library.exists());
            let findings = program::look(program, library.as_deref(), &mut checks)?;
            let identity = identity::of_program(&findings.program)
                .map_err(|e| Failure::failed(format!("`{}` {e}", findings.program.display())))?;
            checks.push(machine::profile(&state, &facts::of_machine(identity), now));
            Some(findings)
        }
        None => None,
    };
    let worst = checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok);
    let report = Report { checks, program: findings };
    if ui.is_json() {
        ui.json(&report)
    } else {
        print(ui, &report)
    }
    Ok(if worst == Level::Failed { Exit::Refused } else { Exit::Done })
}

fn print(ui: &Ui, report: &Report) {
    for Check { name, level, text, fix } in &report.checks {
        let word = match level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Failed => "failed",
        };
        ui.line(format!("{word:<8} {name:<18} {}", crate::ui::visible(text)));
        if let Some(fix) = fix {
            ui.line(format!("{:<8} {:<18} fix: {}", "", "", crate::ui::visible(fix)));
        }
    }
    let Some(program) = &report.program else { return };
    if !program.images.is_empty() {
        ui.line("\nimages for a profile:");
    }
    for image in &program.images {
        ui.line(format!("\n[[workload.image]]\nname = \"{}\"", crate::ui::visible(&image.name)));
        if let Some(cdhash) = &image.cdhash {
            ui.line(format!("cdhash = \"{cdhash}\""));
        }
        ui.line(format!("sha256 = \"{}\"", image.sha256));
    }
}
