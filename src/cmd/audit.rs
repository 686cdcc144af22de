//! `capgate audit`: reads decision logs.

use serde::Serialize;

use crate::cli::{AuditListArgs, OutcomeWord};
use crate::decision_log::{self, Line};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::table::Rows;
use crate::ui::{Ui, count};
use crate::world::file;

/// Largest log that is read, in bytes.
const MAX_LOG: u64 = 1 << 30;

#[derive(Serialize)]
struct Report {
    decisions: Vec<Line>,
    malformed: Vec<MalformedLine>,
}

#[derive(Serialize)]
struct MalformedLine {
    file: String,
    line: usize,
    message: String,
}

pub fn list(ui: &Ui, args: &AuditListArgs) -> Outcome {
    let mut report = Report { decisions: Vec::new(), malformed: Vec::new() };
    for path in &args.files {
        let file = path.display().to_string();
        let bytes = file::read(path, MAX_LOG)
            .map_err(|e| Failure::failed(format!("`{file}` cannot be read: {e}")))?;
        let (entries, malformed) = decision_log::read(&bytes);
        report.decisions.extend(entries.into_iter().filter(|line| is_wanted(line, args)));
        let said = malformed.into_iter();
        report.malformed.extend(said.map(|m| MalformedLine {
            file: file.clone(),
            line: m.number,
            message: m.what,
        }));
    }
    for MalformedLine { file, line, message } in &report.malformed {
        ui.warn(format!("`{file}` line {line} {message}"));
    }
    if ui.is_json() {
        ui.json(&report);
    } else {
        print(ui, &report.decisions);
    }
    Ok(Exit::Done)
}

fn is_wanted(line: &Line, args: &AuditListArgs) -> bool {
    let outcome = match args.outcome {
        None => true,
        Some(OutcomeWord::Grant) => line.outcome == "grant",
        Some(OutcomeWord::Stock) => line.outcome == "stock",
    };
    let reason = args.reason.as_ref().is_none_or(|reason| line.reason.as_ref() == Some(reason));
    let since = args.since.is_none_or(|since| since <= line.time);
    let until = args.until.is_none_or(|until| line.time < until);
    outcome && reason && since && until
}

fn print(ui: &Ui, decisions: &[Line]) {
    let mut rows =
        Rows::new(&["time", "decision", "outcome", "reason", "values", "host OS", "guest OS", "profile"]);
    for line in decisions {
        let values = match (line.apple_family_max, line.max_threadgroup_memory) {
            (Some(family), Some(memory)) => format!("{family} / {memory}"),
            _ => "-".to_owned(),
        };
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        rows.row([
            line.time.to_string(),
            line.decision.clone(),
            line.outcome.clone(),
            text(&line.reason),
            values,
            text(&line.host_os_build),
            text(&line.guest_os_build),
            text(&line.profile),
        ]);
    }
    if !rows.is_empty() {
        ui.stdout(&rows.render());
    }
    ui.hint(count(decisions.len(), "decision"));
}
