//! What another registry says that this one does not say yet.
//!
//! A note is bound to its registry's name, so what is carried over is its body: publishers here sign it anew, as they
//! would sign a profile that somebody sent them. It goes in the order of the other log, superseded profiles included, so
//! that what supersedes or revokes them has something to refer to.

use std::collections::HashSet;

use crate::latest::Latest;
use crate::log::{LogError, LogReader};
use crate::note::{self, Kind, Note};
use crate::profile::{ProfileId, Revocation, SCHEMA, Severity};
use crate::snapshot::{CatalogueError, Change, Standing};
use crate::store::Store;
use crate::trust::Chain;

/// Says why another registry could not be carried over.
#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    /// A log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An entry is none.
    #[error("entry {index}: {what}")]
    Entry {
        /// Its index.
        index: u64,
        /// What is wrong.
        what: String,
    },
}

/// One document to be signed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// What it publishes or revokes.
    pub id: ProfileId,
    /// A profile or a revocation.
    pub kind: Kind,
    /// Its body.
    pub toml: String,
}

/// Which ids a log has published, and which of them it has revoked.
#[derive(Debug, Default)]
pub struct Known {
    published: HashSet<ProfileId>,
    revoked: HashSet<ProfileId>,
}

impl Known {
    /// Of the log that `latest` commits.
    pub fn read(store: &dyn Store, chain: &Chain, latest: &Latest) -> Result<Self, CarryError> {
        let mut known = Self::default();
        each(store, chain, latest, &mut |change, counts, _| {
            if counts {
                match change {
                    Change::Profile(profile) => known.published.insert(profile.id),
                    Change::Revocation(revocation) => known.revoked.insert(revocation.revokes),
                };
            }
        })?;
        Ok(known)
    }
}

/// What the registry in `store`, which was verified, says beyond `known`.
///
/// A profile that was carried over and whose key was found to be in foreign hands since is revoked.
pub fn carry(
    store: &dyn Store,
    chain: &Chain,
    latest: &Latest,
    known: &Known,
) -> Result<Vec<Carried>, CarryError> {
    let mut found: Vec<Carried> = Vec::new();
    let mut here: HashSet<ProfileId> = known.published.clone();
    let mut revoked: HashSet<ProfileId> = known.revoked.clone();
    each(store, chain, latest, &mut |change, counts, body| match change {
        Change::Profile(profile) if counts => {
            if here.insert(profile.id.clone()) {
                found.push(Carried { id: profile.id, kind: Kind::Profile, toml: body.to_owned() });
            }
        }
        Change::Profile(profile) => {
            if known.published.contains(&profile.id) && revoked.insert(profile.id.clone()) {
                let toml = revocation_of(&profile.id);
                found.push(Carried { id: profile.id, kind: Kind::Revocation, toml });
            }
        }
        Change::Revocation(Revocation { revokes, .. }) => {
            if counts && here.contains(&revokes) && revoked.insert(revokes.clone()) {
                found.push(Carried { id: revokes, kind: Kind::Revocation, toml: body.to_owned() });
            }
        }
    })?;
    Ok(found)
}

fn revocation_of(id: &ProfileId) -> String {
    format!(
        "schema = \"{SCHEMA}\"\nrevokes = \"{id}\"\nreason = \"the key that signed it upstream is compromised\"\n\
         severity = \"{}\"\n",
        Severity::Harmful.word()
    )
}

fn each(
    store: &dyn Store,
    chain: &Chain,
    latest: &Latest,
    take: &mut dyn FnMut(Change, bool, &str),
) -> Result<(), CarryError> {
    let reader = LogReader::new(store, latest.log_size);
    for (index, entry) in (0..).zip(reader.entries(0..latest.log_size)) {
        let entry = entry?;
        let wrong = |what: String| CarryError::Entry { index, what };
        let note = Note::parse(&entry).map_err(|e| wrong(e.to_string()))?;
        let change = Change::read(&note, chain.origin()).map_err(|e: CatalogueError| wrong(e.to_string()))?;
        let standing = Standing::of(&entry, index, chain).map_err(wrong)?;
        let kind = if matches!(change, Change::Profile(_)) { Kind::Profile } else { Kind::Revocation };
        let body = note::body(note.text(), kind, chain.origin()).map_err(|e| wrong(e.to_string()))?;
        take(change, standing == Standing::Counts, body);
    }
    Ok(())
}
