//! Entries in any order: those of the log by positioned reads, the new ones from memory, or where there are many, from
//! where they wait for their commit.

use std::io;

use super::staged::{encode_part, part_of, part_path};
use crate::log::{Row, TILE_WIDTH, Tile};
use crate::merkle::{Hash, leaf_hash};
use crate::snapshot::Entries;
use crate::store::{ReadAt, Store, StoreError, StoreMut};

/// Where each entry stands in its file: offset, behind the length, and length.
#[derive(Default)]
struct Places(Vec<(u32, u16)>);

impl Places {
    /// Takes up the length of the next entry; `first` says whether it begins a file.
    fn push(&mut self, length: usize, first: bool) {
        let before = match self.0.last() {
            Some(&(offset, length)) if !first => offset + u32::from(length),
            _ => 0,
        };
        self.0.push((before + 2, u16::try_from(length).unwrap_or(u16::MAX)));
    }

    fn read(&self, at: u64, file: &dyn ReadAt) -> io::Result<Vec<u8>> {
        let at = usize::try_from(at).map_err(io::Error::other)?;
        let &(offset, length) = self.0.get(at).ok_or_else(|| io::Error::other("there is no such entry"))?;
        let mut entry = vec![0; usize::from(length)];
        file.read_exact_at(&mut entry, u64::from(offset))?;
        Ok(entry)
    }
}

/// Entries of a log of which only lengths and hashes are in memory, and those that follow it.
///
/// What is read a second time is held against what was hashed the first time: the store may be somebody else's.
pub(crate) struct LogEntries<'s> {
    store: &'s dyn Store,
    size: u64,
    leaves: Vec<Hash>,
    places: Places,
    new: Vec<Vec<u8>>,
    /// Those behind `new`, which are in the store already.
    aside: Places,
    /// Name of the staged file that they belong to.
    staged: String,
}

impl<'s> LogEntries<'s> {
    pub fn new(store: &'s dyn Store, size: u64) -> Self {
        let (places, aside) = (Places::default(), Places::default());
        Self { store, size, leaves: Vec::new(), places, new: Vec::new(), aside, staged: String::new() }
    }

    /// Takes up length and leaf hash of the next entry of the log.
    pub fn remember(&mut self, length: usize, leaf: Hash) {
        let first = (self.places.0.len() as u64).is_multiple_of(TILE_WIDTH);
        self.places.push(length, first);
        self.leaves.push(leaf);
    }

    pub fn add(&mut self, entry: Vec<u8>) {
        self.leaves.push(leaf_hash(&entry));
        self.new.push(entry);
    }

    /// Leaf hashes of all entries, the new ones included.
    pub fn leaves(&self) -> &[Hash] {
        &self.leaves
    }

    /// Puts the entries of one staged file, any but the first, where they wait for their commit.
    pub fn set_aside(
        &mut self,
        to: &dyn StoreMut,
        staged: &str,
        entries: &[Vec<u8>],
    ) -> Result<(), StoreError> {
        to.put(&part_path(staged, self.end()), &encode_part(entries))?;
        staged.clone_into(&mut self.staged);
        for (at, entry) in entries.iter().enumerate() {
            self.aside.push(entry.len(), at == 0);
            self.leaves.push(leaf_hash(entry));
        }
        Ok(())
    }

    /// Entries of the log and new ones together.
    pub fn end(&self) -> u64 {
        self.size + (self.new.len() + self.aside.0.len()) as u64
    }

    /// The new entries that are in memory: all of them, if none was set aside.
    pub fn in_memory(&self) -> &[Vec<u8>] {
        &self.new
    }

    pub fn read(&self, index: u64) -> io::Result<Vec<u8>> {
        let entry = self.read_again(index)?;
        let leaf = usize::try_from(index).ok().and_then(|index| self.leaves.get(index));
        if leaf == Some(&leaf_hash(&entry)) {
            return Ok(entry);
        }
        Err(io::Error::other(format!("entry {index} changed while it was read")))
    }

    fn read_again(&self, index: u64) -> io::Result<Vec<u8>> {
        let Some(at) = index.checked_sub(self.size) else { return self.read_logged(index) };
        let in_memory = usize::try_from(at).ok().and_then(|at| self.new.get(at));
        if let Some(entry) = in_memory {
            return Ok(entry.clone());
        }
        let first = part_of(index, self.size, self.end()).start;
        let file = self.store.open(&part_path(&self.staged, first)).map_err(io::Error::other)?;
        self.aside.read(at - self.new.len() as u64, file.as_ref())
    }

    fn read_logged(&self, index: u64) -> io::Result<Vec<u8>> {
        let missing = || io::Error::other(format!("there is no entry {index}"));
        let tile = Tile::at(Row::Entries, index / TILE_WIDTH, self.size).ok_or_else(missing)?;
        let file = match self.store.open(&tile.path()) {
            Err(e) if e.is_not_found() => self.store.open(&tile.full().path()),
            opened => opened,
        };
        self.places.read(index, file.map_err(io::Error::other)?.as_ref())
    }
}

impl Entries for LogEntries<'_> {
    fn entry(&self, index: u64) -> io::Result<Vec<u8>> {
        self.read(index)
    }
}
