//! Finds a record in a snapshot and proves that it belongs there.

use std::io;
use std::ops::Range;

use super::encoding::MAX_RECORD;
use super::layout::{ENTRIES, ENTRY, FENCES, HEADER, HEIGHT, Layout, TILE, WIDTH};
use crate::combination::{Hex, Key};
use crate::merkle::{Hash, Hashes, leaf_hash, node_hash, peaks, root_of_peaks};
use crate::store::ReadAt;

/// Says why a snapshot cannot be believed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It could not be read.
    #[error("the snapshot cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is not what was signed.
    #[error("the snapshot is not what was signed: {0}")]
    Changed(String),
}

/// What a search found.
enum Place {
    /// Position in the tree, offset and length of the record.
    Here(u64, u64, u32),
    /// The position that the key would have.
    Before(u64),
}

/// An open snapshot whose size and root a signed note gave.
pub struct Snapshot {
    file: Box<dyn ReadAt>,
    layout: Layout,
    root: Hash,
    peaks: Vec<Hash>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("layout", &self.layout)
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Opens a snapshot of `size` records with `root`, both from a verified note. The peaks of its tree are checked
    /// against the root here, once, so that a lookup only climbs to its own peak.
    pub fn open(file: Box<dyn ReadAt>, size: u64, root: Hash) -> Result<Self, SnapshotError> {
        let mut header = [0; HEADER as usize];
        if file.size() < HEADER {
            return Err(changed("it is too short"));
        }
        file.read_exact_at(&mut header, 0)?;
        let record_bytes = header.last_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let layout = Layout::new(size, record_bytes);
        if header != layout.header() {
            return Err(changed("its header does not fit the signed size"));
        }
        // What a proof says of the file's size is its own word; beyond this, offsets would no longer be numbers.
        if layout.end > i64::MAX as u64 {
            return Err(changed("it says that it is larger than any file"));
        }
        if file.size() != layout.end {
            return Err(changed(format!("it has {} bytes, not {}", file.size(), layout.end)));
        }
        let mut snapshot = Self { file, layout, root, peaks: Vec::new() };
        snapshot.peaks = peaks(&snapshot, size)?;
        if root_of_peaks(&snapshot.peaks) != root {
            return Err(changed("its hashes do not lead to the signed root"));
        }
        Ok(snapshot)
    }

    /// Number of records.
    pub fn size(&self) -> u64 {
        self.layout.count
    }

    /// Root of the tree over the records.
    pub fn root(&self) -> Hash {
        self.root
    }

    /// The record under `key`, proven to be in the tree; `None` where its neighbours, proven too, leave no room for it.
    ///
    /// Absence needs its proof: a program has two keys, and whoever hides the revocation under one would be granted
    /// what stands under the other.
    pub fn find(&self, key: &Key) -> Result<Option<Vec<u8>>, SnapshotError> {
        let (position, offset, length) = match self.search(key)? {
            Place::Here(position, offset, length) => (position, offset, length),
            Place::Before(position) => return self.prove_absent(key, position).map(|()| None),
        };
        let record = self.read_record(offset, length)?;
        if record.get(..32) != Some(key.0.as_slice()) {
            return Err(changed(format!("record {position} is not under the key that its index names")));
        }
        self.prove(position, &record)?;
        Ok(Some(record))
    }

    /// The record at `position` in key order, proven to be in the tree.
    pub fn record(&self, position: u64) -> Result<Vec<u8>, SnapshotError> {
        let mut entry = [0; ENTRY as usize];
        let offset = self.layout.index + position / ENTRIES * TILE + position % ENTRIES * ENTRY;
        self.file.read_exact_at(&mut entry, offset)?;
        let (_, offset, length) = split_entry(&entry).ok_or_else(|| changed("its index is malformed"))?;
        let record = self.read_record(offset, length)?;
        self.prove(position, &record)?;
        Ok(record)
    }

    /// Key and place of each record that the tile of the index has from `position` on; nothing of it is proven. `None` behind
    /// the last one, or where it cannot be read.
    pub(super) fn index_from(&self, position: u64) -> Option<Vec<(Key, Range<u64>)>> {
        let (tile, skipped) = (position / ENTRIES, position % ENTRIES);
        let within = self.layout.count.checked_sub(tile * ENTRIES)?.min(ENTRIES).checked_sub(skipped)?;
        if within == 0 {
            return None;
        }
        let mut buffer = Vec::new();
        self.read_rows(&mut buffer, self.layout.index + tile * TILE + skipped * ENTRY, within * ENTRY)
            .ok()?;
        let entry = |at| {
            let (key, offset, length) = split_entry(row(&buffer, ENTRY, at))?;
            Some((Hex(*key.first_chunk::<32>()?), offset..offset.saturating_add(u64::from(length))))
        };
        (0..within).map(entry).collect()
    }

    /// Bytes of records, whatever they are.
    pub(super) fn bytes(&self, place: Range<u64>) -> io::Result<Vec<u8>> {
        if place.start >= HEADER && place.end <= self.layout.records_end || place.is_empty() {
            let mut bytes = vec![0; usize::try_from(place.end - place.start).map_err(io::Error::other)?];
            self.file.read_exact_at(&mut bytes, place.start)?;
            return Ok(bytes);
        }
        Err(io::Error::other("the index points outside the records"))
    }

    fn read_record(&self, offset: u64, length: u32) -> Result<Vec<u8>, SnapshotError> {
        let end = offset.saturating_add(u64::from(length));
        if offset < HEADER || end > self.layout.records_end || u64::from(length) > MAX_RECORD {
            return Err(changed("its index points outside the records"));
        }
        let mut record = vec![0; length as usize];
        self.file.read_exact_at(&mut record, offset)?;
        Ok(record)
    }

    /// The records around `position` must stand there and enclose `key`.
    fn prove_absent(&self, key: &Key, position: u64) -> Result<(), SnapshotError> {
        let left = position.checked_sub(1).map(|left| self.record(left)).transpose()?;
        let right = (position < self.size()).then(|| self.record(position)).transpose()?;
        let left_fits = left.is_none_or(|record| record.get(..32) < Some(key.0.as_slice()));
        let right_fits = right.is_none_or(|record| record.get(..32) > Some(key.0.as_slice()));
        if left_fits && right_fits { Ok(()) } else { Err(changed("its index hides a record")) }
    }

    /// Where index and fences have the key. They are hints.
    fn search(&self, key: &Key) -> Result<Place, SnapshotError> {
        let mut buffer = Vec::with_capacity(TILE as usize);
        let mut tile = 0;
        for &(start, keys) in self.layout.fences.iter().rev() {
            let within = keys.saturating_sub(tile * FENCES).min(FENCES);
            self.read_rows(&mut buffer, start + tile * TILE, within * 32)?;
            let below = partition(&buffer, 32, within, |fence| fence <= key.0.as_slice());
            tile = tile * FENCES + below.saturating_sub(1);
        }
        let within = self.layout.count.saturating_sub(tile * ENTRIES).min(ENTRIES);
        if within == 0 {
            return Ok(Place::Before(self.layout.count.min(tile * ENTRIES)));
        }
        self.read_rows(&mut buffer, self.layout.index + tile * TILE, within * ENTRY)?;
        let at = partition(&buffer, ENTRY, within, |entry| entry.get(..32) < Some(key.0.as_slice()));
        let entry = (at < within).then(|| row(&buffer, ENTRY, at)).and_then(split_entry);
        let position = tile * ENTRIES + at;
        Ok(match entry.filter(|(found, ..)| *found == key.0.as_slice()) {
            Some((_, offset, length)) => Place::Here(position, offset, length),
            None => Place::Before(position),
        })
    }

    /// Reads the used part of a tile.
    fn read_rows(&self, buffer: &mut Vec<u8>, offset: u64, length: u64) -> io::Result<()> {
        buffer.resize(usize::try_from(length.min(TILE)).unwrap_or(0), 0);
        self.file.read_exact_at(buffer, offset)
    }

    /// Climbs from a record to the peak above it (RFC 9162 §2.1.3, within one complete subtree).
    fn prove(&self, position: u64, record: &[u8]) -> Result<(), SnapshotError> {
        let (height, peak) =
            self.peak_above(position).ok_or_else(|| changed("its index has too many records"))?;
        let mut hash = leaf_hash(record);
        let mut tile = HashTile::default();
        for level in 0..height {
            let index = position >> level;
            let sibling = tile.hash(self, level, index ^ 1)?;
            hash = if index & 1 == 0 { node_hash(&hash, &sibling) } else { node_hash(&sibling, &hash) };
        }
        if hash == peak {
            Ok(())
        } else {
            Err(changed(format!("record {position} is not in the signed tree")))
        }
    }

    fn peak_above(&self, position: u64) -> Option<(u8, Hash)> {
        let mut start = 0u64;
        for &peak in &self.peaks {
            let height = self.layout.count.checked_sub(start)?.checked_ilog2()?;
            start += 1 << height;
            if position < start {
                return Some((u8::try_from(height).ok()?, peak));
            }
        }
        None
    }
}

impl Hashes for Snapshot {
    type Error = SnapshotError;

    fn hash(&self, level: u8, index: u64) -> Result<Hash, SnapshotError> {
        let offset = self.layout.hash_offset(level, index).ok_or_else(|| changed("its tree is too small"))?;
        let mut hash = [0; 32];
        self.file.read_exact_at(&mut hash, offset)?;
        Ok(Hash(hash))
    }
}

/// The upper levels of the tile that was read last: the siblings on a path share them. Its two lowest levels are three
/// quarters of a tile, and a path needs one hash of each.
#[derive(Default)]
struct HashTile {
    start: Option<u64>,
    bytes: Vec<u8>,
}

impl HashTile {
    /// Where the third level begins in a tile.
    const UPPER: u64 = (WIDTH + WIDTH / 2) * 32;

    fn hash(&mut self, snapshot: &Snapshot, level: u8, index: u64) -> Result<Hash, SnapshotError> {
        if level % HEIGHT < 2 {
            return Hashes::hash(snapshot, level, index);
        }
        let offset =
            snapshot.layout.hash_offset(level, index).ok_or_else(|| changed("its tree is too small"))?;
        let start = offset / TILE * TILE + Self::UPPER;
        if self.start != Some(start) {
            self.start = None;
            self.bytes.resize((TILE - Self::UPPER) as usize, 0);
            snapshot.file.read_exact_at(&mut self.bytes, start)?;
            self.start = Some(start);
        }
        let at = offset.checked_sub(start).and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<32>());
        bytes.map(|bytes| Hash(*bytes)).ok_or_else(|| changed("its tree is too small"))
    }
}

/// How many of the first `rows` rows satisfy `before`, which is true for a prefix of a sorted table.
fn partition(table: &[u8], width: u64, rows: u64, before: impl Fn(&[u8]) -> bool) -> u64 {
    let (mut low, mut high) = (0, rows);
    while low < high {
        let middle = low.midpoint(high);
        if before(row(table, width, middle)) { low = middle + 1 } else { high = middle }
    }
    low
}

fn row(table: &[u8], width: u64, at: u64) -> &[u8] {
    let start = usize::try_from(at * width).unwrap_or(usize::MAX);
    table.get(start..).and_then(|rest| rest.get(..usize::try_from(width).ok()?)).unwrap_or_default()
}

fn split_entry(entry: &[u8]) -> Option<(&[u8], u64, u32)> {
    let (key, rest) = entry.split_at_checked(32)?;
    let (offset, length) = rest.split_first_chunk::<8>()?;
    Some((key, u64::from_be_bytes(*offset), u32::from_be_bytes(*length.first_chunk::<4>()?)))
}

fn changed(what: impl Into<String>) -> SnapshotError {
    SnapshotError::Changed(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Endless;

    impl ReadAt for Endless {
        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            buffer.fill(0);
            if offset == 0 {
                buffer.copy_from_slice(&Layout::new(256, u64::MAX).header());
            }
            Ok(())
        }

        fn size(&self) -> u64 {
            u64::MAX
        }
    }

    #[test]
    fn attack_a_file_that_says_it_is_endless_is_refused_before_it_is_searched() {
        let opened = Snapshot::open(Box::new(Endless), 256, Hash([0; 32]));
        assert!(matches!(opened, Err(SnapshotError::Changed(why)) if why.contains("larger than any file")));
    }
}
