//! Entries in any order: those of the log by positioned reads, the new ones from memory.

use std::io;

use crate::log::{Row, TILE_WIDTH, Tile};
use crate::snapshot::Entries;
use crate::store::Store;

/// Entries of a log of which only lengths are in memory, and those that follow it.
pub(crate) struct LogEntries<'s> {
    store: &'s dyn Store,
    size: u64,
    /// For each entry of the log: offset in its bundle, behind the length, and length.
    places: Vec<(u32, u16)>,
    new: Vec<Vec<u8>>,
}

impl<'s> LogEntries<'s> {
    pub fn new(store: &'s dyn Store, size: u64) -> Self {
        Self { store, size, places: Vec::new(), new: Vec::new() }
    }

    /// Takes up the length of the next entry of the log.
    pub fn note_length(&mut self, length: usize) {
        let first = (self.places.len() as u64).is_multiple_of(TILE_WIDTH);
        let before = match self.places.last() {
            Some(&(offset, length)) if !first => offset + u32::from(length),
            _ => 0,
        };
        self.places.push((before + 2, u16::try_from(length).unwrap_or(u16::MAX)));
    }

    pub fn add(&mut self, entry: Vec<u8>) {
        self.new.push(entry);
    }

    pub fn added(&self) -> usize {
        self.new.len()
    }

    pub fn new_entries(&self) -> &[Vec<u8>] {
        &self.new
    }

    pub fn read(&self, index: u64) -> io::Result<Vec<u8>> {
        let missing = || io::Error::other(format!("there is no entry {index}"));
        if let Some(at) = index.checked_sub(self.size) {
            let at = usize::try_from(at).map_err(io::Error::other)?;
            return self.new.get(at).cloned().ok_or_else(missing);
        }
        let at = usize::try_from(index).map_err(io::Error::other)?;
        let &(offset, length) = self.places.get(at).ok_or_else(missing)?;
        let tile = Tile::at(Row::Entries, index / TILE_WIDTH, self.size).ok_or_else(missing)?;
        let file = match self.store.open(&tile.path()) {
            Err(e) if e.is_not_found() => self.store.open(&tile.full().path()),
            opened => opened,
        };
        let mut entry = vec![0; usize::from(length)];
        file.map_err(io::Error::other)?.read_exact_at(&mut entry, u64::from(offset))?;
        Ok(entry)
    }
}

impl Entries for LogEntries<'_> {
    fn entry(&self, index: u64) -> io::Result<Vec<u8>> {
        self.read(index)
    }
}
