//! Processes that run on values which have been revoked since they started: nothing takes a value back from a process.

use std::collections::BTreeMap;
use std::path::Path;

use capgate_guest::facts;
use capgate_registry::reader::Reader;
use capgate_registry::record::Published;

use super::place::Place;
use super::report::{Fix, Report};
use crate::decision_log::{self, Line, Stage};
use crate::ui::count;
use crate::world::processes::{Running, running};
use crate::world::{file, machine};

const NAME: &str = "running processes";
/// Largest log that is read, in bytes.
const MAX_LOG: u64 = 1 << 30;
/// A line may be written in the second in which its process started, and clocks round.
const SLACK: i64 = 2;

/// Looks through the decision logs for processes that still run.
pub fn check(place: &Place, report: &mut Report) {
    let Some(Ok(reader)) = place.scene.as_ref().map(|scene| scene.registry.as_ref()) else { return };
    let Some(logs) = &place.logs else { return };
    let mut granted = BTreeMap::new();
    for path in logs {
        match file::read_shared(path, MAX_LOG) {
            Ok(bytes) => {
                let (lines, malformed) = decision_log::read(&bytes);
                collect(&lines, &mut granted);
                if let Some(first) = malformed.first() {
                    let shown = path.display();
                    let text = format!(
                        "{} of `{shown}` cannot be read, the first is {}: {}",
                        count(malformed.len(), "line"),
                        first.number,
                        first.what
                    );
                    let fix = Fix::Do(format!(
                        "`capgate audit list {shown}` names them; a grant among them is not known here"
                    ));
                    report.warn(NAME, text, fix);
                }
            }
            // Another user's log is for that user's own doctor.
            Err(e) => {
                let fix = Fix::Do("ask as the user that it belongs to".to_owned());
                report.warn(NAME, format!("`{}` cannot be read: {e}", path.display()), fix);
            }
        }
    }
    let revoked = revoked(reader);
    let suspects: Vec<&Line> = granted
        .values()
        .filter(|line| line.profile.as_ref().is_some_and(|profile| revoked.contains_key(profile)))
        .collect();
    let pids: Vec<u32> = suspects.iter().map(|line| line.pid).collect();
    let alive = running(&pids);
    let mut number = 0;
    for line in suspects {
        if !alive.get(&line.pid).is_some_and(|process| is_same(line, process)) {
            continue;
        }
        let (Some(profile), Some(program)) = (&line.profile, &line.program) else { continue };
        number += 1;
        let why = revoked.get(profile).map(String::as_str).unwrap_or_default();
        let text = format!(
            "process {} was granted under `{profile}` ({why}), which was revoked since; it is `{program}`",
            line.pid
        );
        let fix = "end it and start it again; it then sees Apple's own answers";
        report.warn(NAME, text, Fix::Do(fix.to_owned()));
    }
    if number == 0 {
        let message =
            format!("none runs under a profile that was revoked since, of {}", count(granted.len(), "grant"));
        report.ok(NAME, message);
    }
}

/// The grants that were not taken back, by their decision; a device that stays stock takes its own back.
fn collect(lines: &[Line], granted: &mut BTreeMap<String, Line>) {
    let own = [machine::id(), facts::machine()];
    let here = |line: &Line| {
        line.machine.is_none() || own.iter().all(Option::is_none) || own.contains(&line.machine)
    };
    for line in lines.iter().filter(|line| here(line)) {
        match (line.stage, line.outcome.as_str()) {
            (Stage::Start | Stage::Device, "grant") => {
                granted.insert(line.decision.clone(), line.clone());
            }
            // Only where no device was granted before.
            (Stage::Device, _)
                if granted.get(&line.decision).is_some_and(|before| before.stage == Stage::Start) =>
            {
                granted.remove(&line.decision);
            }
            _ => {}
        }
    }
}

/// Ids of revoked profiles, each with the reason.
fn revoked(reader: &Reader) -> BTreeMap<String, String> {
    let records = reader.records().filter_map(Result::ok);
    let published = records.flat_map(|record| record.published);
    let reason = |published: Published| {
        let revocation = published.revoked?;
        Some((published.profile.id.to_string(), revocation.reason))
    };
    published.filter_map(reason).collect()
}

/// Numbers of processes are used again: it must have started before its line and still be that program.
fn is_same(line: &Line, process: &Running) -> bool {
    let started = i64::try_from(process.started).unwrap_or(i64::MAX);
    let program = line.program.as_deref().and_then(|path| Path::new(path).canonicalize().ok());
    let same = match (&program, &process.executable) {
        (Some(program), Some(executable)) => program == executable,
        _ => true,
    };
    same && started <= line.time.as_second().saturating_add(SLACK)
}
