//! A store with what an interrupted publication has yet to write laid over it.

use std::collections::BTreeMap;
use std::io;

use super::staged::Staged;
use crate::log::{Row, Tile};
use crate::store::{Listed, ReadAt, Store, StoreError};

/// A store with files laid over it that it should have but has not yet.
pub struct Overlay<'s> {
    store: &'s dyn Store,
    files: BTreeMap<String, Vec<u8>>,
    /// Bundles are made from it when they are asked for: together they may be larger than memory.
    staged: Option<Staged<'s>>,
}

impl<'s> Overlay<'s> {
    /// The store as it is.
    pub fn plain(store: &'s dyn Store) -> Self {
        Self { store, files: BTreeMap::new(), staged: None }
    }

    pub(super) fn new(
        store: &'s dyn Store,
        files: BTreeMap<String, Vec<u8>>,
        staged: Option<Staged<'s>>,
    ) -> Self {
        Self { store, files, staged }
    }

    /// Names of the files that are laid over it.
    pub fn laid_over(&self) -> impl Iterator<Item = String> {
        let bundles = self.staged.iter().flat_map(Staged::bundles).map(Tile::path);
        self.files.keys().cloned().chain(bundles)
    }

    /// The file that is laid over `path`, if there is one.
    fn over(&self, path: &str) -> Option<Result<Vec<u8>, StoreError>> {
        if let Some(bytes) = self.files.get(path) {
            return Some(Ok(bytes.clone()));
        }
        let staged = self.staged.as_ref()?;
        let tile = Tile::parse(path).filter(|&tile| tile.row() == Row::Entries && staged.has(tile))?;
        Some(staged.stored(tile))
    }
}

impl Store for Overlay<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        self.over(path).unwrap_or_else(|| self.store.read(path, cap))
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        match self.over(path) {
            Some(bytes) => Ok(Box::new(Bytes(bytes?))),
            None => self.store.open(path),
        }
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.store.list()
    }
}

/// A file in memory.
struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let found = self.0.get(start..).and_then(|rest| rest.get(..buffer.len()));
        found.map(|found| buffer.copy_from_slice(found)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn size(&self) -> u64 {
        self.0.len() as u64
    }
}
