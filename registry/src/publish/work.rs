//! One publication in progress: what the log says, what is new, and the commit.

use std::io;
use std::num::NonZero;
use std::ops::Range;

use super::staged::{encode_head, encode_part, part_path, parts};
use super::{LogEntries, PublishError, Terms, signers, stage};
use crate::combination::Key;
use crate::keys::SigningKey;
use crate::latest::{self, LAST_VERSION, Latest, PLAUSIBLE_VERSION};
use crate::log::{Appender, LogError, LogReader, TILE_WIDTH};
use crate::merkle::{self, Hash};
use crate::note::{self, Kind, Note, Origin};
use crate::profile::{Profile, ProfileId};
use crate::reader::{open_snapshot, read_latest, trust_path};
use crate::snapshot::{Catalogue, Change, Compiled, Earlier, compile_beside};
use crate::store::{StoreError, StoreMut};
use crate::trust::Chain;

/// Entries of a bundle.
const BUNDLE: usize = TILE_WIDTH as usize;
/// Entries of the log that are in memory at once while it is read.
const BATCH: usize = 16 * BUNDLE;

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
    /// The right edge of the log, the new entries included.
    edge: Appender,
    catalogue: Catalogue,
    entries: LogEntries<'a>,
    threads: NonZero<usize>,
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
    pub fn load_nothing(
        store: &'a dyn StoreMut,
        chain: &'a Chain,
        old: Option<&'a Latest>,
    ) -> Result<Self, PublishError> {
        Self::read(store, chain, old, (0, merkle::empty_root()), NonZero::<usize>::MIN)
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
        let edge = Appender::new(&reader, &old_root)?;
        let mut catalogue = Catalogue::default();
        let mut entries = LogEntries::new(store, old_size);
        let mut tree = merkle::Frontier::new();
        for first in (0..old_size).step_by(BATCH) {
            let bundles: Vec<_> = (first..old_size.min(first + BATCH as u64))
                .step_by(BUNDLE)
                .map(|index| reader.entries_with(index))
                .collect::<Result<_, _>>()?;
            let batch: Vec<&[u8]> = bundles.iter().flat_map(|b| b.iter().map(Vec::as_slice)).collect();
            let hashes = catalogue.recall_all(first, &batch, chain, threads)?;
            for (entry, hash) in batch.iter().zip(hashes) {
                entries.remember(entry.len(), hash);
                tree.push(hash);
            }
        }
        if tree.root() != old_root {
            return Err(LogError::Root { size: old_size, root: old_root }.into());
        }
        Ok(Self { store, chain, old, old_size, edge, catalogue, entries, threads })
    }

    /// Checks a note and takes it up, if it is new. Nothing of one that is refused is kept.
    pub fn admit(&mut self, position: usize, bytes: &[u8]) -> Result<Admitted, PublishError> {
        let problem = |source| PublishError::Note { what: format!("note {}", position + 1), source };
        let note = Note::parse(bytes).map_err(problem)?;
        let index = self.entries.end();
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
        self.append(std::slice::from_ref(&entry))?;
        self.entries.add(entry);
        Ok(Admitted::Appended(id, index))
    }

    /// Takes up the next entries of somebody else's log, whose signatures were verified, up to a border of staged files.
    /// The first of them stay in memory; what comes behind waits under `staged` from now on.
    pub fn take(
        &mut self,
        entries: Vec<Vec<u8>>,
        staged: &str,
        threads: NonZero<usize>,
    ) -> Result<(), PublishError> {
        let first = self.entries.end();
        self.catalogue.add_all(first, &entries, self.chain, threads)?;
        self.append(&entries)?;
        if first == self.old_size {
            entries.into_iter().for_each(|entry| self.entries.add(entry));
        } else {
            self.entries.set_aside(self.store, staged, &entries)?;
        }
        Ok(())
    }

    /// Removes what waits under `staged`, where nothing comes of it. What cannot be removed takes room until the next
    /// publication, and nobody reads it.
    pub fn abandon(&self, staged: &str) {
        for part in self.parts().filter(|part| self.is_aside(part)) {
            let _ = self.store.remove(&part_path(staged, part.start));
        }
    }

    /// The files of the new entries.
    fn parts(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        parts(self.old_size, self.entries.end())
    }

    fn is_aside(&self, part: &Range<u64>) -> bool {
        part.start >= self.old_size + self.entries.in_memory().len() as u64
    }

    fn append(&mut self, entries: &[Vec<u8>]) -> Result<(), PublishError> {
        entries.iter().try_for_each(|entry| self.edge.push(entry))?;
        // They are made again from what is staged, behind the commit.
        drop(self.edge.take_files());
        Ok(())
    }

    /// Root of the log with the new entries.
    pub fn log_root(&self) -> Hash {
        self.edge.root()
    }

    /// Root of the first `size` entries, of those that were in the log and those that were taken up. They were all hashed here,
    /// whatever somebody's tiles say.
    pub fn root_at(&self, size: u64) -> Result<Hash, PublishError> {
        let missing = || StoreError::io("log", io::Error::other(format!("it has fewer than {size} entries")));
        let leaves = usize::try_from(size)
            .ok()
            .and_then(|size| self.entries.leaves().get(..size))
            .ok_or_else(missing)?;
        let mut tree = merkle::Frontier::new();
        leaves.iter().for_each(|&leaf| tree.push(leaf));
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
            self.abandon(&latest.staged_path());
            return Err(PublishError::Foreign(format!(
                "`{}` signs {} records under {}, but the log leads to {} under {}",
                latest::PATH,
                latest.size,
                latest.root,
                compiled.size,
                compiled.root
            )));
        }
        self.stage(&latest.staged_path(), checkpoint)?;
        self.swap(note)
    }

    /// The first of the staged files comes last: without it, nobody looks for the others.
    fn stage(&self, path: &str, checkpoint: &[u8]) -> Result<(), PublishError> {
        let new = self.entries.in_memory();
        let of = |part: &Range<u64>| {
            let at = |index: u64| usize::try_from(index - self.old_size).unwrap_or(usize::MAX);
            new.get(at(part.start)..at(part.end)).unwrap_or_default()
        };
        for part in self.parts().skip(1).filter(|part| !self.is_aside(part)) {
            self.store.put(&part_path(path, part.start), &encode_part(of(&part)))?;
        }
        let first = self.parts().next().unwrap_or(self.old_size..self.old_size);
        Ok(self.store.put(path, &encode_head(checkpoint, self.old_size, of(&first)))?)
    }

    fn compile(
        &self,
        version: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Compiled, String), PublishError> {
        let mut compiled = None;
        let path = self.store.write(&mut |out| {
            let done = compile_beside(&self.catalogue, &self.entries, self.earlier(), out, progress);
            let done = done.map_err(io::Error::other)?;
            compiled = Some(done);
            Ok(format!("snapshot/{version}-{}.snap", done.root))
        })?;
        let compiled = compiled.ok_or_else(|| PublishError::Staged(format!("`{path}` was not written")))?;
        Ok((compiled, path))
    }

    /// The snapshot in force, most of which will stand in the next one, too.
    fn earlier(&self) -> Option<Earlier<'_>> {
        let snapshot = open_snapshot(self.store, self.old.filter(|_| self.old_size > 0)?).ok()?;
        Some(Earlier::new(snapshot, self.entries.leaves(), self.threads))
    }

    fn swap(&self, note: &[u8]) -> Result<(), PublishError> {
        let expected = match self.old {
            Some(_) => Some(self.store.read(latest::PATH, latest::MAX_BYTES)?),
            None => None,
        };
        self.check_unchanged()?;
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
        let version = self.next_version()?;
        let (compiled, _) = self.compile(version, progress)?;
        let latest = Latest {
            version,
            size: compiled.size,
            root: compiled.root,
            log_size: self.edge.size(),
            log_root: self.edge.root(),
            trust: self.chain.current().version,
            issued: terms.now,
            expires: terms.now.saturating_add(terms.life).unwrap_or(terms.now),
        };
        let checkpoint = stage::sign_checkpoint(self.store, self.chain, &latest, &signers)?;
        self.stage(&latest.staged_path(), &checkpoint)?;
        let note = sign_latest(&latest, self.chain.origin(), &signers)?;
        self.check_newest()?;
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
            version if version >= PLAUSIBLE_VERSION && taken_out => Ok(1),
            version if version >= LAST_VERSION => Err(PublishError::LastVersion(version)),
            version => Ok(version + 1),
        }
    }

    /// Where there is no lock, a rotation may have begun meanwhile: what was signed by the trust of before would be judged by
    /// the next version. One that begins right behind this is held against the log when it is put in force.
    fn check_newest(&self) -> Result<(), PublishError> {
        let path = trust_path(self.chain.current().version.saturating_add(1));
        match self.store.open(&path) {
            Ok(_) => Err(StoreError::Conflict { path }.into()),
            Err(e) if e.is_not_found() => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// What the swap will replace must still be what was read at the start.
    pub fn check_unchanged(&self) -> Result<(), PublishError> {
        let now = if self.old.is_some() { Some(read_latest(self.store, self.chain)?) } else { None };
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
