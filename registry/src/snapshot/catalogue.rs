//! What the log says, entry by entry: which profiles exist, which are superseded, which are revoked.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::combination::Key;
use crate::document::Problem;
use crate::note::{self, Kind, Note, NoteError, Origin};
use crate::profile::{Profile, ProfileId, Revocation};

/// Where a note stands in the log, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub index: u64,
    pub length: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub place: Place,
    pub keys: Vec<Key>,
    pub superseded: bool,
    pub revoked: Option<Place>,
}

/// What one entry of the log says.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It publishes a profile.
    Profile(Box<Profile>),
    /// It revokes one.
    Revocation(Revocation),
}

impl Change {
    /// Reads the text of a note as a profile or a revocation of this origin. Signatures are checked elsewhere.
    pub fn read(note: &Note, origin: &Origin) -> Result<Self, CatalogueError> {
        let text = note.text();
        match note::body(text, Kind::Profile, origin) {
            Ok(body) => {
                let profile = Profile::parse(body.as_bytes()).map_err(CatalogueError::malformed)?;
                return Ok(Self::Profile(Box::new(profile)));
            }
            Err(NoteError::WrongKind { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        let body = note::body(text, Kind::Revocation, origin)?;
        Ok(Self::Revocation(Revocation::parse(body.as_bytes()).map_err(CatalogueError::malformed)?))
    }
}

/// Says why an entry cannot follow those before it.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The note is malformed or of another kind or origin.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The document in it is malformed.
    #[error("{0}")]
    Malformed(String),
    /// The id was published before.
    #[error("the id `{0}` was published before; ids are never used again")]
    ReusedId(ProfileId),
    /// It supersedes or revokes what does not exist.
    #[error("`{0}` is not in this registry")]
    Unknown(ProfileId),
    /// It supersedes a profile of another combination.
    #[error("`{id}` cannot supersede `{earlier}`: they were not tested on the same combination")]
    OtherCombination {
        /// The new profile.
        id: ProfileId,
        /// The one it names.
        earlier: ProfileId,
    },
    /// It supersedes or revokes what is already gone.
    #[error("`{0}` is already superseded or revoked")]
    Gone(ProfileId),
    /// More profiles under one key than a record holds.
    #[error("too many profiles under one combination, `{0}` among them")]
    Crowded(ProfileId),
}

impl CatalogueError {
    fn malformed(problems: Vec<Problem>) -> Self {
        let first = problems.into_iter().next();
        Self::Malformed(first.map_or_else(|| "is malformed".to_owned(), |p| p.message))
    }
}

/// Everything that a log published so far.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    pub(super) slots: HashMap<ProfileId, Slot>,
}

impl Catalogue {
    /// Takes up the entry at `index`.
    pub fn add(&mut self, index: u64, entry: &[u8], origin: &Origin) -> Result<(), CatalogueError> {
        let note = Note::parse(entry)?;
        let length = u32::try_from(entry.len()).unwrap_or(u32::MAX);
        self.apply(Place { index, length }, &Change::read(&note, origin)?)
    }

    /// Tells whether an id was ever published, and at which index.
    pub fn index_of(&self, id: &ProfileId) -> Option<u64> {
        self.slots.get(id).map(|slot| slot.place.index)
    }

    /// Tells whether a profile is neither superseded nor revoked.
    pub fn is_live(&self, id: &ProfileId) -> bool {
        self.slots.get(id).is_some_and(|slot| !slot.superseded && slot.revoked.is_none())
    }

    /// Ids of live profiles that share a key with `keys`, sorted.
    pub fn live_under(&self, keys: &[Key]) -> Vec<&ProfileId> {
        let shares = |slot: &Slot| slot.keys.iter().any(|key| keys.contains(key));
        let live = self.slots.iter().filter(|(id, slot)| self.is_live(id) && shares(slot));
        let mut ids: Vec<&ProfileId> = live.map(|(id, _)| id).collect();
        ids.sort();
        ids
    }

    /// Number of profiles ever published.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Tells whether nothing was ever published.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn apply(&mut self, place: Place, change: &Change) -> Result<(), CatalogueError> {
        match change {
            Change::Profile(profile) => self.publish(place, profile),
            Change::Revocation(revocation) => self.revoke(place, &revocation.revokes),
        }
    }

    fn publish(&mut self, place: Place, profile: &Profile) -> Result<(), CatalogueError> {
        if self.slots.contains_key(&profile.id) {
            return Err(CatalogueError::ReusedId(profile.id.clone()));
        }
        let keys = profile.keys();
        if let Some(earlier) = &profile.supersedes {
            self.supersede(&profile.id, earlier, &keys)?;
        }
        if let Entry::Vacant(vacant) = self.slots.entry(profile.id.clone()) {
            vacant.insert(Slot { place, keys, superseded: false, revoked: None });
        }
        Ok(())
    }

    fn supersede(&mut self, id: &ProfileId, earlier: &ProfileId, keys: &[Key]) -> Result<(), CatalogueError> {
        let slot = self.slots.get_mut(earlier).ok_or_else(|| CatalogueError::Unknown(earlier.clone()))?;
        // What was listed without a digest may be replaced by the same program with one.
        let listed_only = slot.keys.as_slice() == [earlier.key()];
        if !listed_only && !slot.keys.iter().any(|key| keys.contains(key)) {
            return Err(CatalogueError::OtherCombination { id: id.clone(), earlier: earlier.clone() });
        }
        if slot.superseded {
            return Err(CatalogueError::Gone(earlier.clone()));
        }
        slot.superseded = true;
        Ok(())
    }

    fn revoke(&mut self, place: Place, id: &ProfileId) -> Result<(), CatalogueError> {
        let slot = self.slots.get_mut(id).ok_or_else(|| CatalogueError::Unknown(id.clone()))?;
        if slot.revoked.is_some() {
            return Err(CatalogueError::Gone(id.clone()));
        }
        slot.revoked = Some(place);
        Ok(())
    }
}
