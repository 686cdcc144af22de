//! Verifies a whole registry from its files alone: signatures, thresholds, entries, tiles, and the snapshot rebuilt from
//! the log and compared byte for byte.
//!
//! A lookup proves what it returns; that nothing is missing, out of order or left over is shown here.

mod log;
mod since;
mod snapshot;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;

use crate::latest::{self, Latest};
use crate::merkle::Hash;
use crate::note::Note;
use crate::publish::{Overlay, committed_log};
use crate::reader::{read_latest, trust_path};
use crate::store::{Listed, Store};
use crate::text;
use crate::trust::{Chain, MAX_BYTES as MAX_TRUST, MAX_VERSIONS, TrustError};

pub use since::{New, since};

/// One thing that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fault {
    /// Name of the file inside the registry.
    pub file: String,
    /// Byte in the file from which on it is wrong, where that is known.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whose registry it is, once its trust holds.
    pub origin: Option<String>,
    /// Version of the trust.
    pub trust_version: Option<u64>,
    /// Version of the snapshot.
    pub version: Option<u64>,
    /// When it was signed.
    pub issued: Option<Timestamp>,
    /// Until when it is believed.
    pub expires: Option<Timestamp>,
    /// When the trust was made.
    pub trust_issued: Option<Timestamp>,
    /// Until when the trust counts.
    pub trust_expires: Option<Timestamp>,
    /// Entries of the log whose signatures were checked.
    pub entries: u64,
    /// Records of the snapshot that was rebuilt.
    pub records: u64,
    /// Files that were checked, byte for byte.
    pub files: u64,
    /// Entries before which nothing was audited, where only what came since was.
    pub since: Option<u64>,
    /// What came since.
    pub new: Vec<New>,
    /// What is wrong: any of them means that the registry was changed or is damaged.
    pub faults: Vec<Fault>,
    /// What a maintainer should know although nothing is wrong.
    pub notes: Vec<String>,
}

impl Report {
    /// Tells whether the registry, or the trust it stands on, is past its date.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        let past = |end: Option<Timestamp>| end.is_some_and(|end| end <= now);
        past(self.expires) || past(self.trust_expires)
    }

    /// Tells whether it, or the trust it stands on, was signed at a time that is still to come, so that readers take their
    /// clock for a wrong one.
    pub fn is_ahead(&self, now: Timestamp) -> bool {
        let ahead = |issued: Option<Timestamp>| issued.is_some_and(|issued| now < issued);
        ahead(self.issued) || ahead(self.trust_issued)
    }

    fn fault(&mut self, file: &str, offset: Option<u64>, what: impl Into<String>) {
        self.faults.push(Fault { file: text::visible(file).into_owned(), offset, what: what.into() });
    }

    fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }
}

/// Verifies everything in `store`; `progress` is told after each entry and record.
pub fn verify(store: &dyn Store, pin: &Hash, now: Timestamp, progress: &mut dyn FnMut(u64)) -> Report {
    let mut report = Report::default();
    let mut audit = Audit { store, checked: BTreeSet::new(), progress };
    audit.run(pin, now, &mut report);
    report.files = audit.checked.len() as u64;
    report.faults.sort();
    report.faults.dedup();
    report
}

struct Audit<'a> {
    store: &'a dyn Store,
    checked: BTreeSet<String>,
    progress: &'a mut dyn FnMut(u64),
}

impl Audit<'_> {
    fn run(&mut self, pin: &Hash, now: Timestamp, report: &mut Report) {
        let files = match self.store.list() {
            Ok(files) => files,
            Err(e) => return report.fault("", None, e.to_string()),
        };
        let Some(newest) = self.trust(pin, report) else { return };
        report.origin = Some(newest.origin().to_string());
        let Some((chain, latest)) = self.latest(&newest, now, report) else { return };
        report.trust_version = Some(chain.current().version);
        report.trust_issued = Some(chain.current().issued);
        report.trust_expires = Some(chain.current().expires);
        self.log_and_snapshot(&chain, &latest, &files, report);
        self.leftovers(&latest, &files, report);
    }

    fn trust(&mut self, pin: &Hash, report: &mut Report) -> Option<Chain> {
        let mut notes = Vec::new();
        for version in 1..=MAX_VERSIONS {
            match self.store.read(&trust_path(version), MAX_TRUST as u64) {
                Ok(bytes) => notes.push(bytes),
                Err(e) if e.is_not_found() => break,
                Err(e) => {
                    report.fault(&trust_path(version), None, e.to_string());
                    return None;
                }
            }
            self.checked.insert(trust_path(version));
        }
        match Chain::open(notes.iter().map(Vec::as_slice), pin) {
            Ok(chain) => {
                self.unknown_trust_signers(&notes, pin, report);
                Some(chain)
            }
            Err(e) => {
                let version = match &e {
                    TrustError::NotPinned { .. } => 1,
                    TrustError::Version { version, .. } | TrustError::Signature { version, .. } => *version,
                };
                report.fault(&trust_path(version), None, e.to_string());
                None
            }
        }
    }

    /// A signature by nobody the trust knows says nothing, and whoever serves the file can add one: that breaks no registry.
    fn unknown_trust_signers(&self, notes: &[Vec<u8>], pin: &Hash, report: &mut Report) {
        for (version, bytes) in (1..).zip(notes) {
            let upto = notes.iter().take(usize::try_from(version).unwrap_or(usize::MAX)).map(Vec::as_slice);
            let (Ok(chain), Ok(note)) = (Chain::open(upto, pin), Note::parse(bytes)) else { continue };
            let before = chain.previous().map(|trust| trust.root.keys.clone()).unwrap_or_default();
            let known: Vec<_> = chain.current().root.keys.iter().cloned().chain(before).collect();
            for signature in note.unknown_signers(&known) {
                let (path, name) = (trust_path(version), signature.name());
                report.note(format!("`{path}` carries a signature by `{name}`, who is no root key"));
            }
        }
    }

    /// What is in force, and the trust that it names.
    fn latest(&mut self, newest: &Chain, now: Timestamp, report: &mut Report) -> Option<(Chain, Latest)> {
        self.checked.insert(latest::PATH.to_owned());
        let latest = match read_latest(self.store, newest) {
            Ok(latest) => latest,
            Err(doubt) => {
                report.fault(latest::PATH, None, doubt.to_string());
                return None;
            }
        };
        let chain = newest.as_of(latest.trust)?;
        if newest.current().version > latest.trust {
            report.note(format!(
                "trust version {} waits for the publication that puts it in force: run `capgate renew`",
                newest.current().version
            ));
        }
        let note = self.store.read(latest::PATH, latest::MAX_BYTES).ok().and_then(|b| Note::parse(&b).ok());
        for signature in note.iter().flat_map(|note| note.unknown_signers(&chain.current().registry.keys)) {
            let (path, name) = (latest::PATH, signature.name());
            report.note(format!("`{path}` carries a signature by `{name}`, who is no registry key"));
        }
        trust_age(&chain, now, report);
        report.version = Some(latest.version);
        report.issued = Some(latest.issued);
        report.expires = Some(latest.expires);
        if latest.expires <= now {
            report.note(format!("it expired {}: its maintainer must run `capgate renew`", latest.expires));
        } else if latest.nearly_expired(now) {
            report.note(format!("it expires {}: run `capgate renew` soon", latest.expires));
        }
        if now < latest.issued {
            report.note(format!("it was signed {}, which this clock has not reached", latest.issued));
        }
        Some((chain, latest))
    }

    fn log_and_snapshot(&mut self, chain: &Chain, latest: &Latest, files: &[Listed], report: &mut Report) {
        let overlay = match committed_log(self.store, chain, latest) {
            Ok((overlay, interrupted)) => {
                if interrupted {
                    report.note("a publication was interrupted behind its commit; the next one completes it");
                }
                overlay
            }
            // What is wrong with the checkpoint is said below; here only what waits behind it.
            Err(e) => {
                let staged = latest.staged_path();
                if files.iter().any(|file| file.path == staged) {
                    report.fault(&staged, None, e.to_string());
                }
                Overlay::plain(self.store)
            }
        };
        self.checked.insert(crate::log::CHECKPOINT.to_owned());
        log::check_checkpoint(&overlay, chain, latest, report);
        let catalogue = log::check(self, &overlay, chain, latest, files, report);
        snapshot::check(self, &overlay, latest, catalogue, files, report);
    }

    /// Files that nothing named: a reader never looks at them, and nobody vouches for them.
    fn leftovers(&self, latest: &Latest, files: &[Listed], report: &mut Report) {
        for Listed { path, .. } in files.iter().filter(|file| !self.checked.contains(&file.path)) {
            if is_uncommitted_snapshot(path, latest) {
                report.note(format!("`{path}` was never committed; a later publication removes it"));
            } else if snapshot_version(path).is_some_and(|version| version < latest.version) {
                report.note(format!("`{path}` is read by nobody any more; the next publication removes it"));
            } else if path.starts_with("log/staged/") {
                let what = if path.starts_with(&latest.staged_path()) {
                    "waits to be written out"
                } else {
                    "was never committed"
                };
                report.note(format!("`{path}` {what}; the next publication removes it"));
            } else {
                report.fault(path, None, "is no part of this registry");
            }
        }
    }
}

fn trust_age(chain: &Chain, now: Timestamp, report: &mut Report) {
    let trust = chain.current();
    let todo = "the root keys must sign the next version: run `capgate trust draft`";
    if now < trust.issued {
        report.note(format!("its trust was signed {}, which this clock has not reached", trust.issued));
    }
    if trust.expires <= now {
        report.note(format!("its trust expired {}; {todo}", trust.expires));
    } else if trust.nearly_expired(now) {
        report.note(format!("its trust expires {}; {todo}", trust.expires));
    }
}

/// Whoever stopped before the commit left a snapshot under a version that is still to come, or that another publication
/// has had since; a copy that is followed rarely may be behind by many.
fn is_uncommitted_snapshot(path: &str, latest: &Latest) -> bool {
    snapshot_version(path).is_some_and(|version| version >= latest.version)
}

fn snapshot_version(path: &str) -> Option<u64> {
    let name = path.strip_prefix("snapshot/")?.strip_suffix(".snap")?;
    name.split_once('-')?.0.parse().ok()
}
