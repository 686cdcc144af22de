//! Computes what appending entries to a log writes: new tiles and bundles, and the new root.

use super::{LogError, LogReader, MAX_ENTRY, MAX_SIZE, Row, TILE_WIDTH, Tile, encode_bundle, encode_hashes};
use crate::log::tile::LEVELS;
use crate::merkle::{Frontier, Hash, MemoryTree, leaf_hash, peaks, root_of_peaks};

/// What appending makes of a log. Nothing is written; a later append may replace no full tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// Names and contents of every tile and bundle that the larger log has and the smaller had not: the newly full ones
    /// and one partial one a row, in an order in which each may be written.
    pub files: Vec<(String, Vec<u8>)>,
    /// Entries of the larger log.
    pub size: u64,
    /// Root of the larger log.
    pub root: Hash,
}

/// Appends entries to the log that `reader` reads and whose root is `root`.
///
/// Only the right edge of the old log is read. It must lead to `root`, and the entries in its last bundle must be those
/// that its tiles say, so damage in the store is found here and never carried on.
///
/// Errors: [`LogError::Root`], [`LogError::Entry`], [`LogError::TooLong`], [`LogError::Full`] and those of reading.
pub fn append<I>(reader: &LogReader<'_>, root: &Hash, entries: I) -> Result<Extension, LogError>
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let mut appender = Appender::new(reader, root)?;
    for entry in entries {
        appender.push(entry.as_ref())?;
    }
    appender.finish()
}

/// Appends entry by entry, for who gives away what is complete and keeps only the right edge of the log in memory: in each
/// row, the last tile as far as it is filled.
pub struct Appender {
    frontier: Frontier,
    rows: Vec<OpenTile<Hash>>,
    bundle: OpenTile<Vec<u8>>,
    files: Vec<(String, Vec<u8>)>,
}

/// A tile that is being filled.
struct OpenTile<T> {
    row: Row,
    index: u64,
    items: Vec<T>,
    changed: bool,
}

impl<T> OpenTile<T> {
    fn push(&mut self, item: T) {
        self.items.push(item);
        self.changed = true;
    }

    fn is_full(&self) -> bool {
        self.items.len() as u64 == TILE_WIDTH
    }

    /// Gives the content up and begins the next tile of the row.
    fn advance(&mut self) -> Vec<T> {
        self.index += 1;
        self.changed = false;
        std::mem::take(&mut self.items)
    }
}

impl Appender {
    /// Takes up the log that `reader` reads and whose root is `root`.
    ///
    /// Errors: as [`append`].
    pub fn new(reader: &LogReader<'_>, root: &Hash) -> Result<Self, LogError> {
        let size = reader.size();
        let mut rows = Vec::new();
        for level in 0..LEVELS {
            rows.push(open(Row::Hashes(level), size, |tile| reader.hashes(tile))?);
        }
        let mut all_peaks = Vec::new();
        for row in rows.iter().rev() {
            all_peaks.extend(peaks_of(&row.items));
        }
        let wrong_root = || LogError::Root { size, root: *root };
        let frontier = Frontier::from_peaks(size, all_peaks).ok_or_else(wrong_root)?;
        if frontier.root() != *root {
            return Err(wrong_root());
        }
        let bundle = open(Row::Entries, size, |tile| Ok(reader.bundle(tile)?.to_vec()))?;
        let leaves = rows.first().map(|row| row.items.as_slice()).unwrap_or_default();
        for ((entry, leaf), index) in bundle.items.iter().zip(leaves).zip(bundle.index * TILE_WIDTH..) {
            if leaf_hash(entry) != *leaf {
                return Err(LogError::Entry { index });
            }
        }
        Ok(Self { frontier, rows, bundle, files: Vec::new() })
    }

    /// Appends one entry.
    ///
    /// Errors: [`LogError::TooLong`], [`LogError::Full`].
    pub fn push(&mut self, entry: &[u8]) -> Result<(), LogError> {
        if entry.len() > MAX_ENTRY {
            return Err(LogError::TooLong { size: entry.len() });
        }
        if self.frontier.size() >= MAX_SIZE {
            return Err(LogError::Full);
        }
        let leaf = leaf_hash(entry);
        self.frontier.push(leaf);
        self.bundle.push(entry.to_vec());
        if self.bundle.is_full() {
            self.close_bundle()?;
        }
        let mut hash = leaf;
        for row in &mut self.rows {
            row.push(hash);
            if !row.is_full() {
                break;
            }
            // A full tile's root is the next hash of the row above.
            hash = root_of_peaks(&peaks_of(&row.items));
            close(&mut self.files, row, self.frontier.size(), |hashes| encode_hashes(&hashes));
        }
        Ok(())
    }

    /// Entries so far.
    pub fn size(&self) -> u64 {
        self.frontier.size()
    }

    /// Root of the log as it is.
    pub fn root(&self) -> Hash {
        self.frontier.root()
    }

    /// Gives away the tiles and bundles that were filled since this was last asked.
    pub fn take_files(&mut self) -> Vec<(String, Vec<u8>)> {
        std::mem::take(&mut self.files)
    }

    /// Adds the tiles that stay partial and gives everything away.
    ///
    /// Errors: none that [`Appender::push`] did not have.
    pub fn finish(mut self) -> Result<Extension, LogError> {
        let size = self.frontier.size();
        if self.bundle.changed {
            self.close_bundle()?;
        }
        for row in self.rows.iter_mut().filter(|row| row.changed) {
            close(&mut self.files, row, size, |hashes| encode_hashes(&hashes));
        }
        Ok(Extension { files: self.files, size, root: self.frontier.root() })
    }

    fn close_bundle(&mut self) -> Result<(), LogError> {
        let size = self.frontier.size();
        let path = Tile::at(Row::Entries, self.bundle.index, size).map(Tile::path).unwrap_or_default();
        let bytes = encode_bundle(&self.bundle.advance())
            .map_err(|problem| LogError::Bundle { path: path.clone(), problem })?;
        self.files.push((path, bytes));
        Ok(())
    }
}

/// Takes up the last tile of a row where it is partial, else begins an empty one.
fn open<T>(
    row: Row,
    size: u64,
    read: impl FnOnce(Tile) -> Result<Vec<T>, LogError>,
) -> Result<OpenTile<T>, LogError> {
    let index = row.length(size) / TILE_WIDTH;
    let items = Tile::at(row, index, size).map_or_else(|| Ok(Vec::new()), read)?;
    Ok(OpenTile { row, index, items, changed: false })
}

/// Files a tile under the name that it has in a log of `size` entries.
fn close<T>(
    files: &mut Vec<(String, Vec<u8>)>,
    open: &mut OpenTile<T>,
    size: u64,
    encode: impl FnOnce(Vec<T>) -> Vec<u8>,
) {
    let tile = Tile::at(open.row, open.index, size);
    let items = open.advance();
    files.extend(tile.map(|tile| (tile.path(), encode(items))));
}

/// The peaks over the hashes of one tile.
fn peaks_of(hashes: &[Hash]) -> Vec<Hash> {
    let tree: MemoryTree = hashes.iter().copied().collect();
    // The tree was made of these very hashes, so none is absent.
    peaks(&tree, tree.size()).unwrap_or_default()
}
