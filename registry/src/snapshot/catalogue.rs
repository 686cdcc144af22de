//! What the log says, entry by entry: which profiles exist, which are superseded, which are revoked.
//!
//! A profile that does not count, since the key that signed it was found to be in foreign hands, changes nothing. It stays
//! known, so that entries which met it in good faith still have something to supersede or to revoke. A revocation stands
//! whatever became of its key: it takes away, and whoever counts may say it again in other words.

use std::collections::HashMap;
use std::num::NonZero;

use super::encoding::MAX_PROFILES;
use super::shares::in_shares;
use crate::combination::Key;
use crate::document::Problem;
use crate::merkle::{Hash, leaf_hash};
use crate::note::{self, Kind, Note, NoteError, Origin};
use crate::profile::{Profile, ProfileId, Recalled, Revocation, recall};
use crate::trust::Chain;

/// Where a note stands in the log, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub index: u64,
    pub length: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub id: ProfileId,
    pub place: Place,
    pub keys: Vec<Key>,
    pub superseded: bool,
    pub revoked: Option<Place>,
    /// The revocation is signed by keys that were found to be in foreign hands.
    weakly: bool,
    /// Its entry does not count.
    pub void: bool,
}

impl Slot {
    fn new(id: ProfileId, place: Place, keys: Vec<Key>, void: bool) -> Self {
        Self { id, place, keys, superseded: false, revoked: None, weakly: false, void }
    }

    /// Tells whether a record speaks of it: a revoked one stays, with its revocation.
    pub fn is_recorded(&self) -> bool {
        !self.superseded && !self.void
    }

    fn is_live(&self) -> bool {
        self.is_recorded() && self.revoked.is_none()
    }
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

    /// Tells, for the entry at `index`, whose signatures were verified when it was logged, whether what it says is so: as
    /// many publishers signed it as its kind needs, the threshold for a profile, one for a revocation.
    pub fn counts(&self, note: &Note, chain: &Chain, index: u64) -> bool {
        match self {
            Self::Profile(_) => {
                let publishers = chain.publishers_at(index);
                publishers.are_named(note, publishers.threshold())
            }
            Self::Revocation(_) => chain.publishers_then(index).are_named(note, 1),
        }
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
    #[error(
        "`{id}` cannot supersede `{earlier}`: it must be about the same combination, under every digest of the program"
    )]
    OtherCombination {
        /// The new profile.
        id: ProfileId,
        /// The one it names.
        earlier: ProfileId,
    },
    /// It supersedes or revokes what is already gone.
    #[error("`{0}` is already superseded or revoked")]
    Gone(ProfileId),
    /// No publisher of its time is named in a revocation.
    #[error("what revokes `{0}` is signed by no publisher of the trust at its index")]
    Nobody(ProfileId),
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

/// What a catalogue keeps of one entry.
struct Facts {
    what: What,
    counts: bool,
}

enum What {
    Profile { id: ProfileId, keys: Vec<Key>, supersedes: Option<ProfileId> },
    Revocation { revokes: ProfileId, weakly: bool },
}

impl Facts {
    fn read(index: u64, entry: &[u8], chain: &Chain) -> Result<Self, CatalogueError> {
        let note = Note::parse(entry)?;
        let change = Change::read(&note, chain.origin())?;
        let counts = change.counts(&note, chain, index);
        let what = match change {
            Change::Profile(profile) => {
                let keys = profile.keys();
                What::Profile { id: profile.id, keys, supersedes: profile.supersedes }
            }
            Change::Revocation(revocation) => {
                let weakly = !chain.publishers_at(index).are_named(&note, 1);
                What::Revocation { revokes: revocation.revokes, weakly }
            }
        };
        Ok(Self { what, counts })
    }

    /// The same, in less time, of an entry that was read when it was logged.
    fn recall(index: u64, entry: &[u8], chain: &Chain) -> Result<Self, CatalogueError> {
        let note = Note::parse(entry)?;
        let body = note::body(note.text(), Kind::Profile, chain.origin());
        let Some(Recalled { id, keys, supersedes }) = body.ok().and_then(recall) else {
            return Self::read(index, entry, chain);
        };
        let publishers = chain.publishers_at(index);
        let counts = publishers.are_named(&note, publishers.threshold());
        Ok(Self { what: What::Profile { id, keys, supersedes }, counts })
    }
}

/// Everything that a log published so far.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    pub(super) slots: Vec<Slot>,
    /// Slots by [`ProfileId::key`], which is shorter than most ids.
    by_id: HashMap<Key, u32>,
    /// Slots by the keys they stand under.
    by_key: HashMap<Key, Vec<u32>>,
}

impl Catalogue {
    /// Takes up the entry at `index`, whose signatures were verified, and tells whether it still counts.
    pub fn add(&mut self, index: u64, entry: &[u8], chain: &Chain) -> Result<bool, CatalogueError> {
        let length = u32::try_from(entry.len()).unwrap_or(u32::MAX);
        let facts = Facts::read(index, entry, chain)?;
        let counts = facts.counts;
        self.apply(Place { index, length }, facts)?;
        Ok(counts)
    }

    /// Takes up many entries, of which the first stands at `first`. They are read by `threads` threads and applied in
    /// order, with the same result as one [`Catalogue::add`] after the other.
    pub fn add_all(
        &mut self,
        first: u64,
        entries: &[Vec<u8>],
        chain: &Chain,
        threads: NonZero<usize>,
    ) -> Result<(), CatalogueError> {
        let read = |at: usize, entry: &Vec<u8>| Facts::read(first + at as u64, entry, chain);
        let read = in_shares(entries, threads, &read);
        self.apply_all(first, entries, read)
    }

    /// The same for entries that were taken up when they were logged and are read again, in a fraction of the time. Also
    /// gives their leaf hashes.
    pub(crate) fn recall_all<E: AsRef<[u8]> + Sync>(
        &mut self,
        first: u64,
        entries: &[E],
        chain: &Chain,
        threads: NonZero<usize>,
    ) -> Result<Vec<Hash>, CatalogueError> {
        let recall = |at: usize, entry: &E| {
            let entry = entry.as_ref();
            (Facts::recall(first + at as u64, entry, chain), leaf_hash(entry))
        };
        let (facts, leaves) = in_shares(entries, threads, &recall).into_iter().unzip();
        self.apply_all(first, entries, facts)?;
        Ok(leaves)
    }

    fn apply_all<E: AsRef<[u8]>>(
        &mut self,
        first: u64,
        entries: &[E],
        read: Vec<Result<Facts, CatalogueError>>,
    ) -> Result<(), CatalogueError> {
        if read.len() != entries.len() {
            return Err(CatalogueError::Malformed("a reading thread stopped".into()));
        }
        for ((index, entry), facts) in (first..).zip(entries).zip(read) {
            let length = u32::try_from(entry.as_ref().len()).unwrap_or(u32::MAX);
            self.apply(Place { index, length }, facts?)?;
        }
        Ok(())
    }

    /// The log index of a profile, if its id was ever published by an entry that counts.
    pub fn index_of(&self, id: &ProfileId) -> Option<u64> {
        self.slot(id).filter(|slot| !slot.void).map(|slot| slot.place.index)
    }

    /// Tells whether a profile is neither superseded nor revoked.
    pub fn is_live(&self, id: &ProfileId) -> bool {
        self.slot(id).is_some_and(Slot::is_live)
    }

    /// Ids of live profiles that share a key with `keys`, in log order.
    pub fn live_under(&self, keys: &[Key]) -> Vec<&ProfileId> {
        let numbers = keys.iter().flat_map(|key| self.by_key.get(key).into_iter().flatten());
        let mut slots: Vec<&Slot> = numbers.filter_map(|&number| self.slots.get(number as usize)).collect();
        slots.sort_by_key(|slot| slot.place.index);
        slots.dedup_by_key(|slot| slot.place.index);
        slots.into_iter().filter(|slot| slot.is_live()).map(|slot| &slot.id).collect()
    }

    /// Refuses a profile under a key whose record is full, which a snapshot could not hold.
    pub fn check_room(&self, profile: &Profile) -> Result<(), CatalogueError> {
        let stays = |slot: &&Slot| slot.is_recorded() && profile.supersedes.as_ref() != Some(&slot.id);
        let is_full = |key: &Key| {
            let numbers = self.by_key.get(key).into_iter().flatten();
            let slots = numbers.filter_map(|&number| self.slots.get(number as usize));
            slots.filter(stays).count() >= MAX_PROFILES
        };
        if profile.keys().iter().any(is_full) {
            return Err(CatalogueError::Crowded(profile.id.clone()));
        }
        Ok(())
    }

    /// Ids of live profiles, in log order.
    pub fn live(&self) -> impl Iterator<Item = &ProfileId> {
        self.slots.iter().filter(|slot| slot.is_live()).map(|slot| &slot.id)
    }

    /// Number of profiles ever published.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Tells whether nothing was ever published.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn slot(&self, id: &ProfileId) -> Option<&Slot> {
        self.by_id.get(&id.key()).and_then(|&number| self.slots.get(number as usize))
    }

    fn slot_mut(&mut self, id: &ProfileId) -> Result<&mut Slot, CatalogueError> {
        let number = self.by_id.get(&id.key());
        let slot = number.and_then(|&number| self.slots.get_mut(number as usize));
        slot.ok_or_else(|| CatalogueError::Unknown(id.clone()))
    }

    fn apply(&mut self, place: Place, facts: Facts) -> Result<(), CatalogueError> {
        match facts.what {
            What::Profile { id, keys, supersedes } if facts.counts => {
                self.publish(place, id, keys, supersedes.as_ref())
            }
            What::Profile { id, keys, .. } => self.keep(Slot::new(id, place, keys, true)),
            What::Revocation { revokes, weakly } if facts.counts => self.revoke(place, &revokes, weakly),
            // To go on would put back in force what somebody took out of it.
            What::Revocation { revokes, .. } => Err(CatalogueError::Nobody(revokes)),
        }
    }

    fn publish(
        &mut self,
        place: Place,
        id: ProfileId,
        keys: Vec<Key>,
        supersedes: Option<&ProfileId>,
    ) -> Result<(), CatalogueError> {
        // A thief cannot take an id for good.
        if self.slot(&id).is_some_and(|slot| !slot.void) {
            return Err(CatalogueError::ReusedId(id));
        }
        if let Some(earlier) = supersedes {
            self.supersede(&id, earlier, &keys)?;
        }
        self.keep(Slot::new(id, place, keys, false))
    }

    fn keep(&mut self, slot: Slot) -> Result<(), CatalogueError> {
        let crowded = |_| CatalogueError::Crowded(slot.id.clone());
        let number = u32::try_from(self.slots.len()).map_err(crowded)?;
        // What does not count never takes the place of what does.
        if !slot.void || self.slot(&slot.id).is_none_or(|other| other.void) {
            self.by_id.insert(slot.id.key(), number);
        }
        for &key in &slot.keys {
            self.by_key.entry(key).or_default().push(number);
        }
        self.slots.push(slot);
        Ok(())
    }

    fn supersede(&mut self, id: &ProfileId, earlier: &ProfileId, keys: &[Key]) -> Result<(), CatalogueError> {
        let slot = self.slot_mut(earlier)?;
        // What was listed without a digest may be replaced by the same program with one. Otherwise every key of the
        // earlier profile must be covered, or what it says under the one left out would silently end.
        let listed_only = slot.keys.as_slice() == [earlier.key()];
        if !listed_only && !slot.keys.iter().all(|key| keys.contains(key)) {
            return Err(CatalogueError::OtherCombination { id: id.clone(), earlier: earlier.clone() });
        }
        if slot.superseded && !slot.void {
            return Err(CatalogueError::Gone(earlier.clone()));
        }
        slot.superseded = true;
        Ok(())
    }

    fn revoke(&mut self, place: Place, id: &ProfileId, weakly: bool) -> Result<(), CatalogueError> {
        let slot = self.slot_mut(id)?;
        if slot.revoked.is_some() && !slot.weakly {
            // One that a thief said again says nothing new.
            return if weakly { Ok(()) } else { Err(CatalogueError::Gone(id.clone())) };
        }
        (slot.revoked, slot.weakly) = (Some(place), weakly);
        Ok(())
    }
}
