//! `capgate verify`: a whole registry, byte for byte.

use capgate_registry::store::Store;
use capgate_registry::verify::{Fault, New, Report, since, verify};

use jiff::Timestamp;

use super::spool::Spool;
use crate::cli::VerifyArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::table::facts;
use crate::ui::{BAD, GOOD, Ui, count, progress, styled, visible};
use crate::world::source::Source;
use crate::world::{clock, file};

/// Largest checkpoint that is read, in bytes.
const MAX_CHECKPOINT: u64 = 16 * 1024;

pub fn run(ui: &Ui, args: &VerifyArgs) -> Outcome {
    let now = clock::now(args.now);
    let source = Source::open(&args.registry)?;
    let earlier = args.since.as_deref().map(|path| {
        file::read(path, MAX_CHECKPOINT).map_err(|e| {
            Failure::failed(format!("the checkpoint `{}` cannot be read: {e}", path.display()))
                .help("give a copy of `log/checkpoint` that was kept earlier")
        })
    });
    let earlier = earlier.transpose()?;
    // What is read more than once is fetched once.
    let spool = if earlier.is_none() && !source.has_listing() {
        Some(Spool::fetch(source.store(), &args.root, &args.registry)?)
    } else {
        None
    };
    let store: &dyn Store = spool.as_ref().map_or(source.store(), |spool| &spool.folder);
    let bar = progress::counter("entries and records verified:");
    let mut report = match &earlier {
        Some(earlier) => since(store, &args.root, earlier, now, &mut |done| bar.set_position(done)),
        None => verify(store, &args.root, now, &mut |done| bar.set_position(done)),
    };
    bar.finish_and_clear();
    if !source.has_listing() && earlier.is_none() {
        report
            .notes
            .push("a web server has no listing: files that nothing names were not looked for".to_owned());
    }
    if ui.is_json() {
        ui.json(&report);
    } else {
        print(ui, &report, now);
    }
    // Nobody is granted anything from a registry out of its time, so a script must not take it for a good one.
    let in_time = !report.is_expired(now) && !report.is_ahead(now);
    Ok(if report.faults.is_empty() && in_time { Exit::Done } else { Exit::Invalid })
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
        ("trust ends", text(report.trust_expires.map(|time| time.to_string()))),
        ("files", report.files.to_string()),
    ]));
    if let Some(size) = report.since {
        ui.line(format!(
            "since entry {size}: {}",
            count(report.new.len(), "new entry").replace("entrys", "entries")
        ));
    }
    for New { index, what, id, signers, counts } in &report.new {
        let signers = signers.join(", ");
        let void = if *counts { "" } else { "; it counts no longer" };
        ui.line(format!("{index}: {what} {id}, signed by {}{void}", visible(&signers)));
    }
    for note in &report.notes {
        ui.line(format!("{} {}", styled(BAD, "note:"), visible(note)));
    }
    for Fault { file, offset, what } in &report.faults {
        let at = offset.map_or_else(String::new, |offset| format!(" at byte {offset}"));
        ui.line(format!("{} `{}`{at}: {}", styled(BAD, "fault:"), visible(file), visible(what)));
    }
    match report.faults.len() {
        0 if report.is_ahead(now) => {
            ui.line(styled(BAD, "no fault, but no reader believes it before it was signed"));
        }
        0 if report.is_expired(now) => ui.line(styled(BAD, "no fault, but it expired")),
        0 if report.since.is_some() => {
            ui.line(styled(GOOD, "verified since then: no fault; the snapshot was not rebuilt"));
        }
        0 => ui.line(styled(GOOD, "verified: no fault")),
        faults => ui.line(styled(BAD, format!("not verified: {}", count(faults, "fault")))),
    }
}
