//! What came since a checkpoint that an auditor kept: that the log continues it, and every entry behind it.
//!
//! The peaks of the earlier tree must lead to its root, and with the new entries to the root that is signed now: that shows
//! at once that nothing before was changed and that each new entry stands where it says. The proof of RFC 6962 section 2.1.2
//! is made and verified beside it, by code that shares nothing with that.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;

use super::{Audit, Report, log};
use crate::latest::Latest;
use crate::log::{CHECKPOINT, Checkpoint, LogReader, Row, TILE_WIDTH, Tile};
use crate::merkle::{self, Frontier, Hash, leaf_hash, prove_consistency, root_of_peaks, verify_consistency};
use crate::note::Note;
use crate::publish::{Overlay, committed_log, verified_checkpoint};
use crate::snapshot::{Change, Standing};
use crate::store::Store;
use crate::trust::Chain;

/// One entry that came since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct New {
    /// Its log index.
    pub index: u64,
    /// `published` or `revoked`.
    pub what: &'static str,
    /// What it publishes or revokes.
    pub id: String,
    /// Names in its signatures.
    pub signers: Vec<String>,
    /// Whether it still counts.
    pub counts: bool,
}

/// Verifies trust, `latest.note`, checkpoint, and the log from the `earlier` checkpoint on, a signed note that somebody
/// kept. The snapshot is not rebuilt: that needs the whole log, and is for [`super::verify`].
pub fn since(
    store: &dyn Store,
    pin: &Hash,
    earlier: &[u8],
    now: Timestamp,
    progress: &mut dyn FnMut(u64),
) -> Report {
    let mut report = Report::default();
    let mut audit = Audit { store, checked: BTreeSet::new(), progress };
    run(&mut audit, pin, earlier, now, &mut report);
    report.files = audit.checked.len() as u64;
    report
}

/// Faults after which nobody reads on: whoever holds the registry key alone can sign a log of any size.
const MOST_FAULTS: usize = 1000;
/// Name of the earlier checkpoint in faults.
const EARLIER: &str = "the earlier checkpoint";

fn run(audit: &mut Audit<'_>, pin: &Hash, earlier: &[u8], now: Timestamp, report: &mut Report) {
    let Some(newest) = audit.trust(pin, report) else { return };
    report.origin = Some(newest.origin().to_string());
    let Some((chain, latest)) = audit.latest(&newest, now, report) else { return };
    report.trust_version = Some(chain.current().version);
    report.trust_issued = Some(chain.current().issued);
    report.trust_expires = Some(chain.current().expires);
    let earlier = match of_any_version(earlier, &newest) {
        Ok(earlier) => earlier,
        Err(what) => return report.fault(EARLIER, None, what),
    };
    report.since = Some(earlier.size);
    let overlay = match committed_log(audit.store, &chain, &latest) {
        Ok((overlay, _)) => overlay,
        Err(e) => return report.fault(CHECKPOINT, None, e.to_string()),
    };
    audit.checked.insert(CHECKPOINT.to_owned());
    log::check_checkpoint(&overlay, &chain, &latest, report);
    if let Err((file, what)) = audit_log(audit, &overlay, &chain, &latest, &earlier, report) {
        report.fault(&file, None, what);
    }
}

/// It may be older than a rotation of the registry keys.
fn of_any_version(bytes: &[u8], newest: &Chain) -> Result<Checkpoint, String> {
    let first = verified_checkpoint(bytes, newest);
    let chains = (1..newest.current().version).rev().filter_map(|version| newest.as_of(version));
    let mut others = chains.map(|chain| verified_checkpoint(bytes, &chain));
    first.or_else(|e| others.find_map(Result::ok).ok_or(e)).map_err(|e| e.to_string())
}

fn audit_log(
    audit: &mut Audit<'_>,
    store: &Overlay<'_>,
    chain: &Chain,
    latest: &Latest,
    earlier: &Checkpoint,
    report: &mut Report,
) -> Result<(), (String, String)> {
    let (from, size) = (earlier.size, latest.log_size);
    let of_log = |what: String| (CHECKPOINT.to_owned(), what);
    if from > size {
        return Err(of_log(format!("the log has {size} entries, and {from} were signed before")));
    }
    let reader = LogReader::new(store, size);
    let failed = |e: crate::log::LogError| of_log(e.to_string());
    let peaks = merkle::peaks(&reader, from).map_err(failed)?;
    let proof = prove_consistency(&reader, from, size).map_err(|e| of_log(e.to_string()))?;
    let proven = verify_consistency(from, size, &earlier.root, &latest.log_root, &proof);
    if root_of_peaks(&peaks) != earlier.root || proven.is_err() {
        let what = format!(
            "the log does not continue the {from} entries with root {}: it was rewritten",
            earlier.root
        );
        return Err(of_log(what));
    }
    let Some(mut tree) = Frontier::from_peaks(from, peaks) else {
        return Err(of_log("has a malformed tree".to_owned()));
    };
    let mut said = BTreeSet::new();
    for index in from..size {
        let path = Tile::at(Row::Entries, index / TILE_WIDTH, size).map(Tile::path).unwrap_or_default();
        let entry = reader.entry(index).map_err(|e| (path.clone(), e.to_string()))?;
        tree.push(leaf_hash(&entry));
        match describe(&entry, index, chain) {
            // The log says each thing once; what counts no longer, or only in favour of doubt, may be said again.
            Ok((new, Standing::Counts)) if !said.insert((new.what, new.id.clone())) => {
                report.fault(&path, None, format!("entry {index}: `{}` was {} before", new.id, new.what));
            }
            Ok((new, _)) => report.new.push(new),
            Err(what) => report.fault(&path, None, format!("entry {index}: {what}")),
        }
        if report.faults.len() >= MOST_FAULTS {
            return Err((
                path,
                format!("{MOST_FAULTS} faults: the {} entries behind were not read", size - index - 1),
            ));
        }
        report.entries += 1;
        audit.checked.insert(path);
        (audit.progress)(index);
    }
    if tree.root() == latest.log_root {
        return Ok(());
    }
    Err(of_log("the new entries do not lead to the root that was signed".to_owned()))
}

fn describe(entry: &[u8], index: u64, chain: &Chain) -> Result<(New, Standing), String> {
    let standing = Standing::of(entry, index, chain)?;
    let counts = standing.counts();
    let note = Note::parse(entry).map_err(|e| e.to_string())?;
    let (what, id) = match Change::read(&note, chain.origin()).map_err(|e| e.to_string())? {
        Change::Profile(profile) => ("published", profile.id),
        Change::Revocation(revocation) => ("revoked", revocation.revokes),
    };
    let signers = note.signatures().iter().map(|signature| signature.name().to_owned()).collect();
    Ok((New { index, what, id: id.to_string(), signers, counts }, standing))
}
