//! `capgate audit`: reads decision logs.

use capgate_policy::reason::Reason;
use capgate_registry::document::nearest;
use serde::Serialize;

use crate::cli::{AuditListArgs, OutcomeWord};
use crate::decision_log::{self, Line};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::table::Rows;
use crate::ui::{Ui, count};
use crate::world::file;

/// Most malformed lines that are named one by one.
const MOST_SHOWN: usize = 20;
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
    torn: bool,
}

pub fn list(ui: &Ui, args: &AuditListArgs) -> Outcome {
    if let Some(reason) = args.reason.as_deref().filter(|reason| Reason::from_code(reason).is_none()) {
        let failure = Failure::usage(format!("there is no reason `{reason}`"));
        let codes = Reason::ALL.iter().map(|reason| reason.code());
        return Err(match nearest(reason, codes) {
            Some(near) => failure.help(format!("did you mean `{near}`?")),
            None => failure.help("docs/policy.md lists them all"),
        });
    }
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
            torn: m.torn,
        }));
    }
    for MalformedLine { file, line, message, .. } in report.malformed.iter().take(MOST_SHOWN) {
        ui.warn(format!("`{file}` line {line} {message}"));
    }
    if report.malformed.len() > MOST_SHOWN {
        ui.warn(format!("{} more lines cannot be read", report.malformed.len() - MOST_SHOWN));
    }
    if ui.is_json() {
        ui.json(&report);
    } else {
        print(ui, &report.decisions);
    }
    // A torn last line is what a crash leaves; anything else was never written by capgate.
    let damaged = report.malformed.iter().any(|line| !line.torn);
    Ok(if damaged { Exit::Invalid } else { Exit::Done })
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
