//! One publication in progress: what the log says, what is new, and the commit.

use std::io;
use std::num::NonZero;

use super::{LogEntries, PublishError, Terms, encode_noted, signers, stage};
use crate::combination::Key;
use crate::keys::SigningKey;
use crate::latest::{self, LAST_VERSION, Latest, PLAUSIBLE_VERSION};
use crate::log::{Extension, LogError, LogReader, append};
use crate::merkle::{self, Hash};
use crate::note::{self, Kind, Note, Origin};
use crate::profile::{Profile, ProfileId};
use crate::reader::read_latest;
use crate::snapshot::{Catalogue, Change, Compiled, compile};
use crate::store::{StoreError, StoreMut};
use crate::trust::Chain;

/// Entries of the log that are in memory at once while it is read.
const BATCH: usize = 16 * 1024;

/// What became of one note.
pub(crate) enum Admitted {
    /// It is the entry at this index.
    Appended(ProfileId, u64),
    /// It was published before, with the same content.
    Already(ProfileId),
}

/// A publication in progress.
pub(crate) struct Work<'a> {
    store: &'a dyn StoreMut,
    chain: &'a Chain,
    old: Option<&'a Latest>,
    old_size: u64,
    old_root: Hash,
    catalogue: Catalogue,
    entries: LogEntries<'a>,
}

impl<'a> Work<'a> {
    pub fn load(
        store: &'a dyn StoreMut,
        chain: &'a Chain,
        old: Option<&'a Latest>,
        threads: NonZero<usize>,
    ) -> Result<Self, PublishError> {
        let old_size = old.map_or(0, |latest| latest.log_size);
        let old_root = old.map_or_else(merkle::empty_root, |latest| latest.log_root);
        Self::read(store, chain, old, (old_size, old_root), threads)
    }

    /// The same as if the log in the store were empty, because it is damaged: what follows writes all of it.
    pub fn load_nothing(store: &'a dyn StoreMut, chain: &'a Chain, old: Option<&'a Latest>) -> Self {
        Self {
            store,
            chain,
            old,
            old_size: 0,
            old_root: merkle::empty_root(),
            catalogue: Catalogue::default(),
            entries: LogEntries::new(store, 0),
        }
    }

    /// Entries that were in the log when it was loaded.
    pub fn old_size(&self) -> u64 {
        self.old_size
    }

    fn read(
        store: &'a dyn StoreMut,
        chain: &'a Chain,
        old: Option<&'a Latest>,
        (old_size, old_root): (u64, Hash),
        threads: NonZero<usize>,
    ) -> Result<Self, PublishError> {
        let reader = LogReader::new(store, old_size);
        let mut catalogue = Catalogue::default();
        let mut entries = LogEntries::new(store, old_size);
        let mut tree = merkle::Frontier::new();
        for first in (0..old_size).step_by(BATCH) {
            let range = first..old_size.min(first + BATCH as u64);
            let batch: Vec<Vec<u8>> = reader.entries(range).collect::<Result<_, _>>()?;
            for entry in &batch {
                tree.push(merkle::leaf_hash(entry));
                entries.note_length(entry.len());
            }
            catalogue.add_all(first, &batch, chain, threads)?;
        }
        if tree.root() != old_root {
            return Err(LogError::Root { size: old_size, root: old_root }.into());
        }
        Ok(Self { store, chain, old, old_size, old_root, catalogue, entries })
    }

    /// Checks a note and takes it up, if it is new. Nothing of one that is refused is kept.
    pub fn admit(&mut self, position: usize, bytes: &[u8]) -> Result<Admitted, PublishError> {
        let problem = |source| PublishError::Note { what: format!("note {}", position + 1), source };
        let note = Note::parse(bytes).map_err(problem)?;
        let index = self.old_size + self.entries.added() as u64;
        let publishers = self.chain.publishers_at(index);
        let id = match Change::read(&note, self.chain.origin())? {
            Change::Revocation(revocation) => {
                publishers.verify_any(&note).map_err(problem)?;
                revocation.revokes
            }
            Change::Profile(profile) => {
                publishers.verify(&note).map_err(problem)?;
                if self.is_published(&profile, note.text())? {
                    return Ok(Admitted::Already(profile.id));
                }
                self.check_conflict(&profile)?;
                self.catalogue.check_room(&profile)?;
                profile.id
            }
        };
        // Anybody can add a line in any name. One in that of a later publisher would speak against the entry from then on.
        let entry = note.only_known(publishers.keys());
        self.catalogue.add(index, &entry, self.chain)?;
        self.entries.add(entry);
        Ok(Admitted::Appended(id, index))
    }

    /// Takes up the next entries of somebody else's log, whose signatures were verified.
    pub fn take(&mut self, entries: Vec<Vec<u8>>, threads: NonZero<usize>) -> Result<(), PublishError> {
        let first = self.old_size + self.entries.added() as u64;
        self.catalogue.add_all(first, &entries, self.chain, threads)?;
        entries.into_iter().for_each(|entry| self.entries.add(entry));
        Ok(())
    }

    /// What the log becomes.
    pub fn extend(&self) -> Result<Extension, PublishError> {
        let reader = LogReader::new(self.store, self.old_size);
        Ok(append(&reader, &self.old_root, self.entries.new_entries())?)
    }

    /// Root of the first `size` entries, of those that were in the log and those that were taken up. The new ones are hashed
    /// here, whatever somebody's tiles say.
    pub fn root_at(&self, size: u64) -> Result<Hash, PublishError> {
        let reader = LogReader::new(self.store, self.old_size);
        if size <= self.old_size {
            return Ok(merkle::root(&reader, size)?);
        }
        let new = self.entries.new_entries();
        let missing = || StoreError::io("log", io::Error::other(format!("it has fewer than {size} entries")));
        let more = usize::try_from(size - self.old_size).ok().and_then(|more| new.get(..more));
        let peaks = merkle::peaks(&reader, self.old_size)?;
        let mut tree = merkle::Frontier::from_peaks(self.old_size, peaks).ok_or_else(missing)?;
        more.ok_or_else(missing)?.iter().for_each(|entry| tree.push(merkle::leaf_hash(entry)));
        Ok(tree.root())
    }

    /// Steps 2 to 4 for a publication that was signed elsewhere, if its own log leads to it.
    pub fn commit_signed(
        &self,
        latest: &Latest,
        note: &[u8],
        checkpoint: &[u8],
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), PublishError> {
        let (compiled, path) = self.compile(latest.version, progress)?;
        if compiled.root != latest.root || compiled.size != latest.size {
            self.store.remove(&path)?;
            return Err(PublishError::Foreign(format!(
                "`{}` signs {} records under {}, but the log leads to {} under {}",
                latest::PATH,
                latest.size,
                latest.root,
                compiled.size,
                compiled.root
            )));
        }
        let staged = encode_noted(checkpoint, self.old_size, self.entries.new_entries());
        self.store.put(&latest.staged_path(), &staged)?;
        self.swap(note)
    }

    fn compile(
        &self,
        version: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Compiled, String), PublishError> {
        let mut compiled = None;
        let path = self.store.write(&mut |out| {
            let done = compile(&self.catalogue, &self.entries, out, progress).map_err(io::Error::other)?;
            compiled = Some(done);
            Ok(format!("snapshot/{version}-{}.snap", done.root))
        })?;
        let compiled = compiled.ok_or_else(|| PublishError::Staged(format!("`{path}` was not written")))?;
        Ok((compiled, path))
    }

    fn swap(&self, note: &[u8]) -> Result<(), PublishError> {
        let expected = match self.old {
            Some(_) => Some(self.store.read(latest::PATH, latest::MAX_BYTES)?),
            None => None,
        };
        self.check_unchanged(expected.as_deref())?;
        Ok(self.store.swap(latest::PATH, expected.as_deref(), note)?)
    }

    /// Tells whether exactly this text was published; other content under the same id is an error.
    fn is_published(&self, profile: &Profile, text: &str) -> Result<bool, PublishError> {
        let Some(index) = self.catalogue.index_of(&profile.id) else { return Ok(false) };
        let earlier = self.entries.read(index).map_err(|e| StoreError::io("log", e))?;
        let same = Note::parse(&earlier).is_ok_and(|earlier| earlier.text() == text);
        if same { Ok(true) } else { Err(PublishError::OtherBytes(profile.id.clone())) }
    }

    fn check_conflict(&self, profile: &Profile) -> Result<(), PublishError> {
        let keys: Vec<Key> = profile.keys();
        let live = self.catalogue.live_under(&keys);
        match live.into_iter().find(|&id| profile.supersedes.as_ref() != Some(id)) {
            None => Ok(()),
            Some(other) => Err(PublishError::Conflict { id: profile.id.clone(), other: other.clone() }),
        }
    }

    /// Steps 2 to 4.
    pub fn commit(&self, terms: &Terms<'_>, progress: &mut dyn FnMut(u64)) -> Result<Latest, PublishError> {
        let signers = signers(&self.chain.current().registry, terms.keys)?;
        let extension = self.extend()?;
        let version = self.next_version()?;
        let (compiled, _) = self.compile(version, progress)?;
        let latest = Latest {
            version,
            size: compiled.size,
            root: compiled.root,
            log_size: extension.size,
            log_root: extension.root,
            trust: self.chain.current().version,
            issued: terms.now,
            expires: terms.now.saturating_add(terms.life).unwrap_or(terms.now),
        };
        let staged = stage::encode(
            self.store,
            self.chain,
            &latest,
            self.old_size,
            self.entries.new_entries(),
            &signers,
        )?;
        self.store.put(&latest.staged_path(), &staged)?;
        let note = sign_latest(&latest, self.chain.origin(), &signers)?;
        self.swap(&note)?;
        Ok(latest)
    }

    /// One more than before. A version that only a thief can have signed is followed by version 1, once the registry key that
    /// signed it is taken out.
    fn next_version(&self) -> Result<u64, PublishError> {
        let Some(old) = self.old else { return Ok(1) };
        let epoch = |version| self.chain.registry_epoch(version);
        let taken_out = epoch(self.chain.current().version) > epoch(old.trust);
        match old.version {
            version if version > PLAUSIBLE_VERSION && taken_out => Ok(1),
            version if version >= LAST_VERSION => Err(PublishError::LastVersion(version)),
            version => Ok(version + 1),
        }
    }

    /// The bytes that the swap will replace must still be those that were read at the start.
    fn check_unchanged(&self, expected: Option<&[u8]>) -> Result<(), PublishError> {
        let now = if expected.is_some() { Some(read_latest(self.store, self.chain)?) } else { None };
        if now.as_ref() == self.old {
            Ok(())
        } else {
            Err(StoreError::Conflict { path: latest::PATH.into() }.into())
        }
    }
}

fn sign_latest(latest: &Latest, origin: &Origin, signers: &[&SigningKey]) -> Result<Vec<u8>, PublishError> {
    let signed =
        note::compose(Kind::Latest, origin, &latest.to_toml()).and_then(|text| note::sign(&text, signers));
    signed.map_err(|source| PublishError::Note { what: latest::PATH.into(), source })
}
