//! Reads a log's tiles and entries from a store.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use super::{LogError, MAX_ENTRY, Row, Tile, decode_bundle, decode_hashes};
use crate::merkle::{Hash, Hashes, MemoryTree, leaf_hash, prove_inclusion, verify_inclusion};
use crate::store::{Store, StoreError};

/// Hash tiles that are kept: one a level for the path of a leaf and one for the right edge.
const KEPT: usize = 16;

/// A log as it was with `size` entries, read through a small cache.
///
/// What it gives is as good as the store: compare [`crate::merkle::root`] with a signed root, or use
/// [`LogReader::proven_entry`]. Where the exact partial tile is gone, the full tile at its place is read instead, as
/// C2SP tlog-tiles allows.
pub struct LogReader<'a> {
    store: &'a dyn Store,
    size: u64,
    tiles: RefCell<Vec<(Tile, Rc<MemoryTree>)>>,
    bundle: RefCell<Option<(Tile, Bundle)>>,
}

/// The entries of one bundle.
type Bundle = Rc<Vec<Vec<u8>>>;

impl<'a> LogReader<'a> {
    /// Reads the log in `store` as it was with `size` entries; reads nothing yet.
    pub fn new(store: &'a dyn Store, size: u64) -> Self {
        Self { store, size, tiles: RefCell::default(), bundle: RefCell::default() }
    }

    /// Entries.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes of one entry, as they are stored.
    ///
    /// Errors: [`LogError::Range`], [`LogError::Bundle`], [`LogError::Store`].
    pub fn entry(&self, index: u64) -> Result<Vec<u8>, LogError> {
        let range = LogError::Range { index, size: self.size };
        if index >= self.size {
            return Err(range);
        }
        let tile = Tile::at(Row::Entries, index / super::TILE_WIDTH, self.size);
        let place = usize::try_from(index % super::TILE_WIDTH);
        let (Some(tile), Ok(place)) = (tile, place) else { return Err(range) };
        self.bundle(tile)?.get(place).cloned().ok_or(range)
    }

    /// The entries of a range in order, one bundle in memory at a time.
    ///
    /// Each item has the errors of [`LogReader::entry`].
    pub fn entries(&self, range: Range<u64>) -> impl Iterator<Item = Result<Vec<u8>, LogError>> + '_ {
        range.map(|index| self.entry(index))
    }

    /// The entries of the bundle in which `index` stands, all that the log has in it.
    ///
    /// Errors: those of [`LogReader::entry`].
    pub fn entries_with(&self, index: u64) -> Result<Rc<Vec<Vec<u8>>>, LogError> {
        let tile = Tile::at(Row::Entries, index / super::TILE_WIDTH, self.size);
        self.bundle(tile.ok_or(LogError::Range { index, size: self.size })?)
    }

    /// One entry, proven to be number `index` of the log with this root.
    ///
    /// Errors: those of [`LogReader::entry`] and [`LogError::Proof`].
    pub fn proven_entry(&self, index: u64, root: &Hash) -> Result<Vec<u8>, LogError> {
        let entry = self.entry(index)?;
        let proof = prove_inclusion(self, index, self.size)?;
        verify_inclusion(&leaf_hash(&entry), index, self.size, root, &proof)?;
        Ok(entry)
    }

    /// The entries of a bundle, exactly as many as `tile` is wide.
    pub(super) fn bundle(&self, tile: Tile) -> Result<Bundle, LogError> {
        if let Some((kept, bundle)) = &*self.bundle.borrow()
            && *kept == tile
        {
            return Ok(Rc::clone(bundle));
        }
        let (found, bytes) = self.read(tile, |tile| tile.width() * (MAX_ENTRY as u64 + 2))?;
        let entries = decode_bundle(&bytes, found.width())
            .map_err(|problem| LogError::Bundle { path: found.path(), problem })?;
        let wanted = entries.into_iter().zip(0..tile.width());
        let bundle: Bundle = Rc::new(wanted.map(|(entry, _)| entry.to_vec()).collect());
        *self.bundle.borrow_mut() = Some((tile, Rc::clone(&bundle)));
        Ok(bundle)
    }

    /// The hashes of a hash tile, exactly as many as it is wide.
    pub(super) fn hashes(&self, tile: Tile) -> Result<Vec<Hash>, LogError> {
        let (found, bytes) = self.read(tile, |tile| tile.width() * 32)?;
        let hashes = decode_hashes(&bytes).filter(|hashes| hashes.len() as u64 == found.width());
        let Some(mut hashes) = hashes else {
            let expected = usize::try_from(found.width() * 32).unwrap_or(usize::MAX);
            return Err(LogError::TileLength { path: found.path(), found: bytes.len(), expected });
        };
        hashes.truncate(usize::try_from(tile.width()).unwrap_or(usize::MAX));
        Ok(hashes)
    }

    /// Reads a tile, or the full one in its place, and says which.
    fn read(&self, tile: Tile, cap: impl Fn(Tile) -> u64) -> Result<(Tile, Vec<u8>), LogError> {
        match self.store.read(&tile.path(), cap(tile)) {
            Err(error) if error.is_not_found() && !tile.is_full() => {
                let full = tile.full();
                match self.store.read(&full.path(), cap(full)) {
                    Ok(bytes) => Ok((full, bytes)),
                    // The partial one is what this size should have; its name helps more.
                    Err(full) if full.is_not_found() => Err(error.into()),
                    Err(full) => Err(full.into()),
                }
            }
            read => Ok((tile, read.map_err(LogError::Store)?)),
        }
    }

    /// A hash tile with the subtrees inside it, from the cache if it is there.
    fn tree(&self, tile: Tile) -> Result<Rc<MemoryTree>, LogError> {
        let mut tiles = self.tiles.borrow_mut();
        if let Some(at) = tiles.iter().position(|(kept, _)| *kept == tile) {
            let kept = tiles.remove(at);
            tiles.insert(0, kept);
        } else {
            let tree = self.hashes(tile)?.into_iter().collect();
            tiles.insert(0, (tile, Rc::new(tree)));
            tiles.truncate(KEPT);
        }
        let missing = || StoreError::NotFound { path: tile.path() };
        Ok(tiles.first().map(|(_, tree)| Rc::clone(tree)).ok_or_else(missing)?)
    }
}

impl Hashes for LogReader<'_> {
    type Error = LogError;

    /// Errors: [`LogError::Subtree`], [`LogError::TileLength`], [`LogError::Store`].
    fn hash(&self, level: u8, index: u64) -> Result<Hash, LogError> {
        let subtree = LogError::Subtree { level, index, size: self.size };
        let (row, inner) = (Row::Hashes(level / 8), level % 8);
        let Some(first) = index.checked_mul(1 << inner) else { return Err(subtree) };
        let Some(tile) = Tile::at(row, first / super::TILE_WIDTH, self.size) else { return Err(subtree) };
        let within = (first % super::TILE_WIDTH) >> inner;
        self.tree(tile)?.hash(inner, within).map_err(|_| subtree)
    }
}
