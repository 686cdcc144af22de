//! What the source says is in force, verified.

use super::{SyncError, fetch_error};
use crate::keys::VerifierKey;
use crate::latest::{self, Latest};
use crate::log::CHECKPOINT;
use crate::note::Note;
use crate::publish::{MAX_CHECKPOINT, Overlay, PublishError, committed_log, verified_checkpoint};
use crate::reader::{Anchor, Claimed, trust_doubt, trust_path};
use crate::record::Doubt;
use crate::store::{Store, StoreError};
use crate::trust::{Chain, MAX_BYTES as MAX_TRUST, MAX_VERSIONS};

/// The source's newest state, signed by those who may.
pub(super) struct Theirs {
    /// Its trust, of which the newest version is the one in force.
    pub chain: Chain,
    /// Every version's note, from 1 on.
    pub notes: Vec<Vec<u8>>,
    pub latest: Latest,
    /// `latest.note`.
    pub bytes: Vec<u8>,
}

impl Theirs {
    /// Reads every version of the trust that exists, and what is in force under the newest.
    ///
    /// A reader of its own folder judges by the version that `latest.note` names. Whoever fetches does not: an old registry
    /// key, retired since, must not be able to show what it signs to anyone who can see the newer version.
    pub fn read(source: &dyn Store, known: Option<&Chain>, anchor: &Anchor) -> Result<Self, SyncError> {
        // Before the trust: a rotation that ends in between is met by the next attempt.
        let claimed = Claimed::read(source).map_err(|doubt| unavailable(source, doubt))?;
        let notes = read_notes(source)?;
        let chain = Chain::open(notes.iter().map(Vec::as_slice), &anchor.pin)
            .map_err(|e| SyncError::Source(trust_doubt(&e)))?;
        let newest = chain.current().version;
        if let Some(known) = known.filter(|known| known.current().version > newest) {
            let what = format!("trust version {newest} after trust version {}", known.current().version);
            return Err(SyncError::Source(Doubt::Rollback(what)));
        }
        if claimed.latest.trust > newest {
            return Err(SyncError::Moving(format!("`{}` is missing", trust_path(claimed.latest.trust))));
        }
        let latest = claimed.verify(&chain).map_err(SyncError::Source)?;
        if latest.trust < newest {
            return Err(SyncError::Rotating(newest));
        }
        Ok(Self { chain, notes, latest, bytes: claimed.bytes })
    }

    /// `latest.note` without lines of keys that are not its own: whoever serves it can add them.
    pub fn own_lines(&self) -> Result<Vec<u8>, SyncError> {
        only_known(latest::PATH, &self.bytes, &self.chain.current().registry.keys)
    }

    /// The versions of the trust, likewise. The first one is pinned as it is.
    pub fn own_notes(&self) -> Result<Vec<(u64, Vec<u8>)>, SyncError> {
        let mut notes = Vec::new();
        for (version, bytes) in (1..).zip(&self.notes) {
            let chain = self.chain.as_of(version);
            let before = chain.as_ref().and_then(Chain::previous);
            let (Some(chain), Some(before)) = (&chain, before) else {
                notes.push((version, bytes.clone()));
                continue;
            };
            let roots = [before.root.keys.as_slice(), &chain.current().root.keys].concat();
            notes.push((version, only_known(&trust_path(version), bytes, &roots)?));
        }
        Ok(notes)
    }

    /// Its log, with what an interrupted publication has not written yet.
    pub fn log<'s>(&self, source: &'s dyn Store) -> Result<Overlay<'s>, SyncError> {
        match committed_log(source, &self.chain, &self.latest) {
            Ok((log, _)) => Ok(log),
            Err(PublishError::Store(e)) => Err(SyncError::Fetch(e)),
            Err(PublishError::Log(e)) => Err(fetch_error(e)),
            Err(e) => Err(SyncError::Damaged(e.to_string())),
        }
    }

    /// Its signed checkpoint, of exactly this state.
    pub fn checkpoint(&self, log: &Overlay<'_>) -> Result<Vec<u8>, SyncError> {
        let bytes = log.read(CHECKPOINT, MAX_CHECKPOINT).map_err(SyncError::Fetch)?;
        match verified_checkpoint(&bytes, &self.chain) {
            Ok(found) if found.size == self.latest.log_size && found.root == self.latest.log_root => {
                Ok(bytes)
            }
            Ok(_) => Err(SyncError::Moving(format!("`{CHECKPOINT}` is of another state"))),
            Err(e) => Err(SyncError::Damaged(e.to_string())),
        }
    }
}

/// What was verified can be parsed again.
fn only_known(path: &str, bytes: &[u8], keys: &[VerifierKey]) -> Result<Vec<u8>, SyncError> {
    let note = Note::parse(bytes).map_err(|e| SyncError::Damaged(format!("`{path}`: {e}")))?;
    Ok(note.only_known(keys))
}

fn read_notes(source: &dyn Store) -> Result<Vec<Vec<u8>>, SyncError> {
    let mut notes = Vec::new();
    for version in 1..=MAX_VERSIONS {
        match source.read(&trust_path(version), MAX_TRUST as u64) {
            Ok(note) => notes.push(note),
            Err(e) if e.is_not_found() && !notes.is_empty() => break,
            Err(e @ StoreError::NotFound { .. }) => {
                return Err(SyncError::Source(Doubt::Missing(e.to_string())));
            }
            Err(e) => return Err(SyncError::Fetch(e)),
        }
    }
    Ok(notes)
}

/// Where the medium failed, its own words say more than that something is unreadable.
fn unavailable(source: &dyn Store, doubt: Doubt) -> SyncError {
    match doubt {
        Doubt::Unreadable(_) => {
            let again = source.read(latest::PATH, latest::MAX_BYTES);
            again.err().map_or(SyncError::Source(doubt), SyncError::Fetch)
        }
        doubt => SyncError::Source(doubt),
    }
}
