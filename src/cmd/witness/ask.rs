//! `capgate witness ask`: cosignatures for a registry of one's own.
//!
//! Witnesses are asked about what is committed, never before: a publication that loses a race would otherwise leave them with a
//! history that nobody publishes, and that they could not leave any more.

use std::path::{Path, PathBuf};

use capgate_registry::note::{NoteKey, NoteSignature};
use capgate_registry::witness::{MAX_ANSWER, Request, WitnessKey, add_cosignatures, parse_answer};
use serde::Serialize;

use super::current::Current;
use crate::cli::{AskedArgs, WitnessAskArgs};
use crate::cmd::opened;
use crate::cmd::plan::{NotDone, Plan};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::{Ui, count};
use crate::world::file;
use crate::world::http::Asker;

/// How often a witness that says what it holds is asked again from there.
const ATTEMPTS: usize = 4;

#[derive(Serialize)]
struct Report {
    size: u64,
    cosigned_by: Vec<String>,
    added: usize,
}

pub fn run(ui: &Ui, args: &WitnessAskArgs) -> Outcome {
    if args.asked.witness.is_empty() && args.lines.is_empty() {
        return Err(Failure::usage("nobody is asked").help("give `--witness URL` or `--lines FILE`"));
    }
    let mut plan = Plan::open(ui, &args.registry, args.to.to.as_deref())?;
    let report = gather(ui, &mut plan, &args.asked, &args.lines)?;
    if ui.is_json() {
        ui.json(&report);
    } else {
        let entries =
            count(usize::try_from(report.size).unwrap_or(usize::MAX), "entry").replace("entrys", "entries");
        let added = count(report.added, "new line");
        ui.line(format!("cosigned by {}: {entries}, {added}", report.cosigned_by.join(", ")));
    }
    Ok(Exit::Done)
}

/// The same behind a publication, which stands whatever the witnesses say.
pub fn after(ui: &Ui, plan: &mut Plan, asked: &AskedArgs) -> Result<(), Failure> {
    if asked.witness.is_empty() {
        return Ok(());
    }
    let report = gather(ui, plan, asked, &[]).map_err(|failure| {
        let message = format!("it is in force, but not witnessed: {}", failure.message);
        let failure = Failure { message, ..failure };
        if failure.help.is_some() { failure } else { failure.help("ask again: capgate witness ask") }
    })?;
    ui.hint(format!("cosigned by {}", report.cosigned_by.join(", ")));
    Ok(())
}

fn gather(ui: &Ui, plan: &mut Plan, asked: &AskedArgs, files: &[PathBuf]) -> Result<Report, Failure> {
    let current =
        Current::read(&plan.folder, &plan.root).map_err(|doubt| opened::doubted(&doubt, plan.path()))?;
    let (size, text) = (current.size, current.text.clone());
    let mut lines = Vec::new();
    for path in files {
        lines.extend(in_file(path, &text, &asked.witness_key)?);
    }
    let asker = Asker::default();
    let mut problems = Vec::new();
    for url in &asked.witness {
        match ask(&asker, url, &current, &asked.witness_key) {
            Ok(found) => lines.extend(found),
            Err(what) => problems.push(format!("`{url}` {what}")),
        }
    }
    drop(current);
    let root = plan.root;
    // What some gave is kept, whatever others did.
    let added = if lines.is_empty() {
        0
    } else {
        plan.commit(ui, |store| add_cosignatures(store, &root, &text, &lines)).map_err(|e| match e {
            NotDone::Failed(failure) => failure,
            NotDone::Refused(e) => opened::not_published(&e, plan.path()),
        })?
    };
    if let Some((last, others)) = problems.split_last() {
        others.iter().for_each(|problem| ui.warn(problem));
        return Err(Failure::failed(last.clone()));
    }
    let mut cosigned_by: Vec<String> = lines.iter().map(|line| line.name().to_owned()).collect();
    cosigned_by.sort();
    cosigned_by.dedup();
    Ok(Report { size, cosigned_by, added })
}

/// The lines that are cosignatures of `text` by one of the witnesses. Others count for nothing, so they are left out.
fn valid(lines: Vec<NoteSignature>, text: &str, keys: &[WitnessKey]) -> Vec<NoteSignature> {
    let is_valid =
        |line: &NoteSignature| keys.iter().any(|key| line.is_named(key) && key.verifies(text, line.bytes()));
    lines.into_iter().filter(is_valid).collect()
}

fn in_file(path: &Path, text: &str, keys: &[WitnessKey]) -> Result<Vec<NoteSignature>, Failure> {
    let shown = path.display();
    let bytes = file::read(path, MAX_ANSWER as u64)
        .map_err(|e| Failure::failed(format!("`{shown}` cannot be read: {e}")))?;
    let lines = parse_answer(&bytes)
        .map_err(|e| Failure::invalid(format!("`{shown}` holds something else than cosignatures: {e}")))?;
    let lines = valid(lines, text, keys);
    if lines.is_empty() {
        let message =
            format!("`{shown}` holds no cosignature of what is in force by a witness that is named");
        return Err(Failure::invalid(message)
            .help("give the witness's key with `--witness-key`, or have what is in force cosigned again"));
    }
    Ok(lines)
}

fn ask(
    asker: &Asker,
    url: &str,
    current: &Current<'_>,
    keys: &[WitnessKey],
) -> Result<Vec<NoteSignature>, String> {
    let url = format!("{}/add-checkpoint", url.trim_end_matches('/'));
    // Right where nothing came since; otherwise the witness says what it holds.
    let mut old = current.size;
    for _ in 0..ATTEMPTS {
        let proof = current.proof(old).map_err(|doubt| format!("could not be asked: {doubt}"))?;
        let body = Request::encode(old, &proof, &current.checkpoint);
        let answer = asker.post(&url, &body, MAX_ANSWER).map_err(|e| format!("could not be asked: {e}"))?;
        match answer.status {
            200 => {
                let lines = parse_answer(&answer.body)
                    .map_err(|e| format!("answered something else than cosignatures: {e}"))?;
                let lines = valid(lines, &current.text, keys);
                let none = "answered without a cosignature by a witness that is named with `--witness-key`";
                return if lines.is_empty() { Err(none.into()) } else { Ok(lines) };
            }
            409 => match size(&answer.body).filter(|_| answer.kind == "text/x.tlog.size") {
                Some(held) if held < current.size && held != old => old = held,
                Some(held) if held == current.size && held != old => old = held,
                Some(held) if held == current.size => {
                    return Err(format!("cosigned another log of {held} entries: two histories were signed"));
                }
                Some(held) if held > current.size => {
                    return Err(format!(
                        "cosigned {held} entries already, more than the {} that are in force here",
                        current.size
                    ));
                }
                _ => return Err("refused, and does not say from which size on it would not".into()),
            },
            422 => return Err("says that this log does not continue what it cosigned earlier".into()),
            status => return Err(format!("answered {status}: {}", first_line(&answer.body))),
        }
    }
    Err("changes what it holds each time it is asked".into())
}

/// A decimal number and LF.
fn size(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?.strip_suffix('\n')?;
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn first_line(body: &[u8]) -> String {
    String::from_utf8_lossy(body).lines().next().unwrap_or_default().chars().take(200).collect()
}
