//! What the log says about profiles that are out of force, and about ids that nobody published.

use capgate_registry::log::LogReader;
use capgate_registry::note::Note;
use capgate_registry::profile::{ProfileId, Revocation};
use capgate_registry::reader::read_latest;
use capgate_registry::snapshot::Change;
use serde::Serialize;

use super::plan::Plan;

/// How close an id must be to be what somebody meant, from 0 to 1.
const CLOSE: f64 = 0.8;

/// A revocation that is in force.
#[derive(Debug, Serialize)]
pub struct Revoked {
    /// The profile.
    pub id: String,
    /// Why.
    pub reason: String,
    /// `withdrawn` or `harmful`.
    pub severity: &'static str,
    /// Where the revocation stands in the log.
    pub log_index: u64,
}

impl Revoked {
    fn new(revocation: Revocation, log_index: u64) -> Self {
        let (id, severity) = (revocation.revokes.to_string(), revocation.severity.word());
        Self { id, reason: revocation.reason, severity, log_index }
    }

    /// `ID is revoked since log index 3 (harmful): REASON`
    pub fn say(&self) -> String {
        format!(
            "`{}` is revoked since log index {} ({}): {}",
            self.id, self.log_index, self.severity, self.reason
        )
    }
}

/// The first revocation of each of these ids that counts. The log holds no times, so that none can be told.
pub fn revocations(plan: &Plan, ids: &[ProfileId]) -> Vec<Revoked> {
    let mut found: Vec<Revoked> = Vec::new();
    if ids.is_empty() {
        return found;
    }
    changes(plan, &mut |index, change, counts| {
        let Change::Revocation(revocation) = change else { return };
        let known = |one: &Revoked| one.id == revocation.revokes.as_str();
        if counts && ids.contains(&revocation.revokes) && !found.iter().any(known) {
            found.push(Revoked::new(revocation, index));
        }
    });
    found
}

/// The published id that is nearest to one that nobody published, if any is near.
pub fn nearest(plan: &Plan, id: &str) -> Option<String> {
    let mut best: Option<(f64, String)> = None;
    changes(plan, &mut |_, change, _| {
        let Change::Profile(profile) = change else { return };
        let close = closeness(profile.id.as_str(), id);
        if close > best.as_ref().map_or(CLOSE, |(close, _)| *close) {
            best = Some((close, profile.id.to_string()));
        }
    });
    best.map(|(_, id)| id)
}

/// Likeness of two ids, from 0 to 1.
pub fn closeness(one: &str, other: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(one, other)
}

/// Tells each entry's index, what it says, and whether it counts. An entry that cannot be read is passed over: who only
/// explains what was decided already does not fail for it.
fn changes(plan: &Plan, tell: &mut dyn FnMut(u64, Change, bool)) {
    let Ok(latest) = read_latest(&plan.folder, &plan.chain) else { return };
    let reader = LogReader::new(&plan.folder, latest.log_size);
    for (index, entry) in (0..).zip(reader.entries(0..latest.log_size)) {
        let Some(note) = entry.ok().and_then(|entry| Note::parse(&entry).ok()) else { continue };
        let Ok(change) = Change::read(&note, plan.chain.origin()) else { continue };
        let counts = change.counts(&note, &plan.chain, index);
        tell(index, change, counts);
    }
}
