//! `capgate verify`: a whole registry, byte for byte.

use capgate_registry::verify::{Fault, Report, verify};

use jiff::Timestamp;

use super::opened;
use crate::cli::VerifyArgs;
use crate::exit::{Exit, Outcome};
use crate::ui::table::facts;
use crate::ui::{BAD, GOOD, Ui, count, progress, styled, visible};
use crate::world::clock;

pub fn run(ui: &Ui, args: &VerifyArgs) -> Outcome {
    let folder = opened::folder(&args.registry)?;
    let bar = progress::counter("entries and records verified:");
    let now = clock::now(args.now);
    let report = verify(&folder, &args.root, now, &mut |done| bar.set_position(done));
    bar.finish_and_clear();
    if ui.is_json() {
        ui.json(&report);
    } else {
        print(ui, &report, now);
    }
    // Nobody may be granted anything from a registry that expired, so a script must not take it for a good one.
    Ok(if report.faults.is_empty() && !report.is_expired(now) { Exit::Done } else { Exit::Invalid })
}

fn print(ui: &Ui, report: &Report, now: Timestamp) {
    let text = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    ui.stdout(&facts([
        ("origin", text(report.origin.clone())),
        ("trust", text(report.trust_version.map(|version| format!("version {version}")))),
        (
            "snapshot",
            text(report.version.map(|version| format!("version {version}, {} records", report.records))),
        ),
        ("log", format!("{} entries", report.entries)),
        ("issued", text(report.issued.map(|time| time.to_string()))),
        ("expires", text(report.expires.map(|time| time.to_string()))),
        ("files", report.files.to_string()),
    ]));
    for note in &report.notes {
        ui.line(format!("{} {}", styled(BAD, "note:"), visible(note)));
    }
    for Fault { file, offset, what } in &report.faults {
        let at = offset.map_or_else(String::new, |offset| format!(" at byte {offset}"));
        ui.line(format!("{} `{}`{at}: {}", styled(BAD, "fault:"), visible(file), visible(what)));
    }
    match report.faults.len() {
        0 if report.is_expired(now) => ui.line(styled(BAD, "no fault, but it expired")),
        0 => ui.line(styled(GOOD, "verified: no fault")),
        faults => ui.line(styled(BAD, format!("not verified: {}", count(faults, "fault")))),
    }
}
