//! `capgate sync`: a prefix or a folder follows a registry that is published elsewhere.

mod evidence;
pub mod memory;
mod statement;
mod target;

use std::path::Path;

use capgate_registry::reader::Anchor;
use capgate_registry::record::Doubt;
use capgate_registry::sync::{SyncError, Synced, sync_witnessed};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::opened;
use crate::cli::SyncArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::{Ui, count, progress};
use crate::world::resumed::Resumed;
use crate::world::signals::{Stop, Woken};
use crate::world::source::Source;
use crate::world::{clock, threads};
use statement::Carried;
use target::Target;

/// After a failure the next try comes sooner than it would otherwise.
const SOON: SignedDuration = SignedDuration::from_mins(1);

#[derive(Serialize)]
struct Report {
    source: String,
    to: String,
    changed: bool,
    repaired: bool,
    fetched: u64,
    version: u64,
    records: u64,
    log_size: u64,
    expires: String,
    host_statement: Carried,
}

pub fn run(ui: &Ui, args: &SyncArgs) -> Outcome {
    let stop = args.watch.then(Stop::listen).transpose();
    let stop = stop.map_err(|e| Failure::failed(format!("signals cannot be waited for: {e}")))?;
    let Some(stop) = stop else { return once(ui, args).map(|_| Exit::Done) };
    loop {
        let pause = match once(ui, args) {
            Ok(()) => args.every,
            // A wrong call stays wrong.
            Err(failure) if failure.exit == Exit::Usage => return Err(failure),
            Err(failure) => {
                ui.failure(&failure);
                args.every.min(SOON)
            }
        };
        let next = Timestamp::now().saturating_add(pause).unwrap_or(Timestamp::MAX);
        match stop.wait(next).map_err(|e| Failure::failed(format!("the time cannot be waited for: {e}")))? {
            Woken::Stopped => return Ok(Exit::Done),
            Woken::Time => {}
        }
    }
}

fn once(ui: &Ui, args: &SyncArgs) -> Result<(), Failure> {
    let target = Target::open(args)?;
    let done = follow(ui, args, &target);
    // The statement ends much sooner than the registry, so it is carried whatever became of that.
    let carried = statement::carry(&target, clock::now(args.now))?;
    if let Some(problem) = &carried.problem {
        ui.warn(format!("host statement: {problem}"));
    }
    report(ui, args, &target, &done?, carried);
    Ok(())
}

fn follow(ui: &Ui, args: &SyncArgs, target: &Target) -> Result<Synced, Failure> {
    let source = Source::open(&args.source)?;
    let _lock = opened::lock(target.folder())?;
    let anchor = Anchor { pin: target.pin(), seen: target.seen()?, now: clock::now(args.now) };
    let demand = target.demand()?;
    let bar = progress::bar("entries fetched:");
    let resumed = Resumed::new(source.store(), source.is_remote().then(|| target.root()));
    let attempt = || {
        let mut tell = |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        };
        sync_witnessed(&resumed, target.folder(), &anchor, demand.as_ref(), threads(), &mut tell)
    };
    let done = match attempt() {
        // Perhaps only what was kept of an earlier one is damaged.
        Err(SyncError::Damaged(_) | SyncError::Entry { .. }) if resumed.has_served() => {
            resumed.forget();
            attempt()
        }
        done => done,
    };
    bar.finish_and_clear();
    if matches!(done, Ok(_) | Err(SyncError::Damaged(_) | SyncError::Entry { .. } | SyncError::Fork { .. })) {
        resumed.forget();
    }
    let done = done.map_err(|e| failed(&e, &args.source, target.root()))?;
    target.remember(&done.seen)?;
    opened::warn_of_expiry(ui, &done.latest, anchor.now, target.root());
    Ok(done)
}

fn report(ui: &Ui, args: &SyncArgs, target: &Target, done: &Synced, carried: Carried) {
    let (version, expires) = (done.latest.version, done.latest.expires.to_string());
    if ui.is_json() {
        return ui.json(&Report {
            source: args.source.clone(),
            to: target.root().display().to_string(),
            changed: done.changed,
            repaired: done.repaired,
            fetched: done.fetched,
            version,
            records: done.latest.size,
            log_size: done.latest.log_size,
            expires,
            host_statement: carried,
        });
    }
    if done.repaired {
        ui.warn("the copy was damaged and was made anew");
    }
    let records = count(usize::try_from(done.latest.size).unwrap_or(usize::MAX), "record");
    let fetched =
        count(usize::try_from(done.fetched).unwrap_or(usize::MAX), "new entry").replace("entrys", "entries");
    let what = if done.changed { format!("synced: {fetched}, ") } else { "nothing new: ".to_owned() };
    ui.line(format!("{what}version {version}, {records}, expires {expires}"));
}

/// Why a copy did not follow, as a failure of the command; `copy` is its folder.
pub fn failed(error: &SyncError, source: &str, copy: &Path) -> Failure {
    let message = format!("{source}: {error}");
    match error {
        SyncError::Fork { size, ours, latest, checkpoint, .. } => {
            let sides = evidence::Sides { size: *size, ours: *ours, latest, checkpoint };
            let kept = evidence::keep(copy, &sides);
            let failure = Failure::invalid(message);
            match kept {
                Ok(folder) => failure.help(format!(
                    "what both sides signed is kept in `{}`: show it to the registry's maintainers; what is here stays in force",
                    folder.display()
                )),
                Err(e) => failure.help(format!("the evidence cannot be kept: {e}")),
            }
        }
        SyncError::Source(doubt @ Doubt::Missing(_)) => opened::doubted_at(doubt, source),
        SyncError::Source(doubt) => Failure { message, ..opened::doubted(doubt, copy) },
        SyncError::Here(_) => Failure::invalid(message)
            .help("remove that folder if the digest given with `--root` is right, and sync again"),
        SyncError::Rotating(_) | SyncError::Moving(_) | SyncError::Fetch(_) => {
            Failure::failed(message).help("what is here stays in force; try again later")
        }
        SyncError::Damaged(_) | SyncError::Entry { .. } => {
            Failure::invalid(message).help("what is here stays in force; tell the registry's maintainers")
        }
        SyncError::Write(e) => Failure { message, ..opened::not_published(e, copy) },
    }
}
