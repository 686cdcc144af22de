//! What another registry says that this one does not say yet.
//!
//! A note is bound to its registry's name, so what is carried over is its body: publishers here sign it anew, as they
//! would sign a profile that somebody sent them. It goes in the order of the other log, superseded profiles included, so
//! that what supersedes or revokes them has something to refer to.

use std::collections::{HashMap, HashSet};

use crate::latest::Latest;
use crate::log::{LogError, LogReader};
use crate::merkle::Hash;
use crate::note::{self, Kind, Note};
use crate::profile::{Profile, ProfileId, SCHEMA, Severity};
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
    /// The profile that it supersedes.
    pub supersedes: Option<ProfileId>,
}

/// One document that is not carried over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// What it publishes or revokes.
    pub id: ProfileId,
    /// A profile or a revocation.
    pub kind: Kind,
    /// Why not.
    pub why: String,
}

/// What is to be signed here, and what cannot be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Revocations of what stands here first, then everything else in the order of the other log.
    pub carried: Vec<Carried>,
    /// What speaks of a profile that is another one here.
    pub left: Vec<Left>,
}

/// Which ids a log has published, with what body, and which of them it has revoked.
#[derive(Debug, Default)]
pub struct Known {
    published: HashMap<ProfileId, Hash>,
    revoked: HashSet<ProfileId>,
}

impl Known {
    /// Of the log that `latest` commits.
    pub fn read(store: &dyn Store, chain: &Chain, latest: &Latest) -> Result<Self, CarryError> {
        let mut known = Self::default();
        each(store, chain, latest, &mut |change, counts, body| match change {
            Change::Profile(profile) if counts => {
                known.published.insert(profile.id, Hash::of(body.as_bytes()));
            }
            Change::Revocation(revocation) if counts => {
                known.revoked.insert(revocation.revokes);
            }
            _ => {}
        })?;
        Ok(known)
    }
}

/// What the registry in `store`, which was verified, says beyond `known`.
///
/// An id with another body here is another profile: what is said there about it is not said here. A profile that was
/// carried over and whose key was found to be in foreign hands since is revoked, unless another publisher stands by it.
pub fn carry(
    store: &dyn Store,
    chain: &Chain,
    latest: &Latest,
    known: &Known,
) -> Result<Selection, CarryError> {
    let mut theirs =
        Theirs { known, counting: HashMap::new(), void: Vec::new(), found: Selection::default() };
    let mut revoked: HashSet<ProfileId> = known.revoked.clone();
    each(store, chain, latest, &mut |change, counts, body| match change {
        Change::Profile(profile) if counts => theirs.profile(*profile, body),
        Change::Profile(profile) => theirs.void.push((profile.id, Hash::of(body.as_bytes()))),
        Change::Revocation(revocation) => {
            if counts && revoked.insert(revocation.revokes.clone()) {
                theirs.revocation(revocation.revokes, body);
            }
        }
    })?;
    let Theirs { counting, void, mut found, .. } = theirs;
    for (id, body) in void {
        let stands = |bodies: &HashMap<ProfileId, Hash>| bodies.get(&id) == Some(&body);
        if stands(&known.published) && !stands(&counting) && revoked.insert(id.clone()) {
            let toml = revocation_of(&id);
            found.carried.push(Carried { id, kind: Kind::Revocation, toml, supersedes: None });
        }
    }
    // Whatever becomes of the rest, these hold.
    found.carried.sort_by_key(|one| one.kind != Kind::Revocation || !known.published.contains_key(&one.id));
    Ok(found)
}

/// The other log as far as it was read.
struct Theirs<'k> {
    known: &'k Known,
    /// Profiles that count there.
    counting: HashMap<ProfileId, Hash>,
    /// Those that count no longer.
    void: Vec<(ProfileId, Hash)>,
    found: Selection,
}

impl Theirs<'_> {
    /// Tells whether the profile of that id here is one that was never theirs.
    fn is_own(&self, id: &ProfileId) -> bool {
        self.known.published.get(id).is_some_and(|here| {
            self.counting.get(id) != Some(here)
                && !self.void.iter().any(|(other, body)| other == id && body == here)
        })
    }

    fn profile(&mut self, profile: Profile, body: &str) {
        let Profile { id, supersedes, .. } = profile;
        let digest = Hash::of(body.as_bytes());
        self.counting.insert(id.clone(), digest);
        match (self.known.published.get(&id), &supersedes) {
            (Some(here), _) if *here == digest => {}
            (Some(_), _) => self.leave(id, Kind::Profile, "that id has other content here".to_owned()),
            (None, Some(earlier)) if self.is_own(earlier) => {
                let why = format!("it supersedes `{earlier}`, which has other content here");
                self.leave(id, Kind::Profile, why);
            }
            (None, _) => {
                let toml = body.to_owned();
                self.found.carried.push(Carried { id, kind: Kind::Profile, toml, supersedes });
            }
        }
    }

    fn revocation(&mut self, id: ProfileId, body: &str) {
        if self.is_own(&id) {
            return self.leave(id, Kind::Revocation, "that id has other content here".to_owned());
        }
        // What counted nowhere was never carried over.
        if self.counting.contains_key(&id) || self.known.published.contains_key(&id) {
            let toml = body.to_owned();
            self.found.carried.push(Carried { id, kind: Kind::Revocation, toml, supersedes: None });
        }
    }

    fn leave(&mut self, id: ProfileId, kind: Kind, why: String) {
        self.found.left.push(Left { id, kind, why });
    }
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
        take(change, standing.counts(), body);
    }
    Ok(())
}
