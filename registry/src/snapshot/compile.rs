//! From a log to the bytes of its snapshot.
//!
//! Memory holds keys, places and hashes, and few notes: those are read again, in key order, as they are written.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::Range;

use super::catalogue::{Catalogue, CatalogueError, Place, Slot};
use super::earlier::{Earlier, SPAN};
use super::encoding::{MAX_PROFILES, RawProfile, RawRecord, encoded_len};
use super::layout::{ENTRIES, FENCES, HEADER, Layout, TILE, WIDTH};
use super::reader::{Snapshot, SnapshotError};
use crate::combination::{Hex, Key};
use crate::merkle::{Frontier, Hash, leaf_hash};

/// Gives the entries of a log, in any order and as often as asked.
pub trait Entries {
    /// The exact bytes of the entry at `index`.
    fn entry(&self, index: u64) -> io::Result<Vec<u8>>;
}

/// Says why no snapshot could be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// Entries contradict each other.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// Reading entries or writing the snapshot failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Number of records and root of the tree over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compiled {
    /// Records.
    pub size: u64,
    /// Root.
    pub root: Hash,
}

/// Writes the snapshot of everything in `catalogue`; `progress` is told after each record.
pub fn compile(
    catalogue: &Catalogue,
    entries: &dyn Entries,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<Compiled, CompileError> {
    compile_beside(catalogue, entries, None, out, progress)
}

/// Writes the same bytes in less time where most of them stand in an earlier snapshot.
pub fn compile_beside(
    catalogue: &Catalogue,
    entries: &dyn Entries,
    earlier: Option<Earlier<'_>>,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<Compiled, CompileError> {
    let rows = rows(catalogue)?;
    let heads: Vec<Head> = rows.iter().map(|row| Head { key: row.key, length: record_length(row) }).collect();
    let mut records = Records { rows: &rows, entries, earlier, ready: VecDeque::new() };
    Ok(write(&heads, &mut || records.next(), out, progress)?)
}

/// The records of rows, in their order.
struct Records<'r, 'c> {
    /// Those that are not ready yet.
    rows: &'r [Row<'c>],
    entries: &'r dyn Entries,
    earlier: Option<Earlier<'r>>,
    ready: VecDeque<Ready>,
}

/// A record and its leaf hash.
pub(super) type Ready = (Vec<u8>, Hash);

impl Records<'_, '_> {
    /// Most bytes of records that are made ready at once.
    const BATCH: u64 = 4 << 20;

    fn next(&mut self) -> io::Result<Ready> {
        if self.ready.is_empty() {
            self.make_ready()?;
        }
        self.ready.pop_front().ok_or_else(too_few)
    }

    fn make_ready(&mut self) -> io::Result<()> {
        let (mut bytes, mut span) = (0u64, None::<Range<u64>>);
        let mut places = Vec::new();
        for row in self.rows {
            let length = u64::from(record_length(row));
            // Index entries are passed only once, so a place that was found belongs to this batch.
            if !places.is_empty() && (bytes + length > Self::BATCH || span.as_ref().is_some_and(is_wide)) {
                break;
            }
            bytes += length;
            let place = self.earlier.as_mut().and_then(|earlier| earlier.find(&row.key));
            // A record of another length is another record, and one far away comes from no sound index.
            let place = place.filter(|place| place.end - place.start == length).filter(|place| {
                let joined = span
                    .as_ref()
                    .map_or(place.clone(), |span| span.start.min(place.start)..span.end.max(place.end));
                let near = joined.end - joined.start <= 2 * SPAN;
                if near {
                    span = Some(joined);
                }
                near
            });
            places.push(place);
        }
        let (rows, behind) = self.rows.split_at_checked(places.len()).ok_or_else(too_few)?;
        self.rows = behind;
        // What cannot be read of the earlier one is read in the log.
        let taken = self.earlier.as_ref().and_then(|earlier| earlier.take(rows, &places).ok());
        let mut taken = taken.unwrap_or_default().into_iter();
        for row in rows {
            self.ready.push_back(match taken.next().flatten() {
                Some(ready) => ready,
                None => with_leaf(read_record(row, self.entries)?),
            });
        }
        Ok(())
    }
}

fn is_wide(span: &Range<u64>) -> bool {
    span.end - span.start > SPAN
}

fn with_leaf(record: Vec<u8>) -> Ready {
    let leaf = leaf_hash(&record);
    (record, leaf)
}

/// Writes a snapshot again from its own records, to compare the two byte for byte.
pub fn recompile(snapshot: &Snapshot, out: &mut dyn Write) -> Result<Compiled, SnapshotError> {
    let mut heads = Vec::new();
    for position in 0..snapshot.size() {
        let record = snapshot.record(position)?;
        let key = record.first_chunk::<32>().copied().unwrap_or_default();
        heads.push(Head { key: Hex(key), length: u32::try_from(record.len()).unwrap_or(u32::MAX) });
    }
    let mut positions = 0..snapshot.size();
    let mut next = || {
        let position = positions.next().ok_or_else(too_few)?;
        snapshot.record(position).map(with_leaf).map_err(io::Error::other)
    };
    Ok(write(&heads, &mut next, out, &mut |_| {})?)
}

/// Key and length of one record.
struct Head {
    key: Key,
    length: u32,
}

fn too_few() -> io::Error {
    io::Error::other("fewer records than keys")
}

fn write(
    heads: &[Head],
    next: &mut dyn FnMut() -> io::Result<Ready>,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Compiled> {
    let record_bytes = heads.iter().map(|head| u64::from(head.length)).sum();
    let layout = Layout::new(heads.len() as u64, record_bytes);
    let mut out = Counted { inner: out, written: 0 };
    out.write_all(&layout.header())?;
    let mut levels = Levels::default();
    for (done, head) in (1..).zip(heads) {
        let (record, leaf) = next()?;
        if record.len() as u64 != u64::from(head.length) {
            return Err(io::Error::other("an entry changed while it was read"));
        }
        levels.push(leaf);
        out.write_all(&record)?;
        progress(done);
    }
    out.pad_to(layout.index)?;
    write_index(&mut out, &layout, heads)?;
    write_hashes(&mut out, &levels)?;
    Ok(Compiled { size: layout.count, root: levels.frontier.root() })
}

/// Everything under one key.
pub(super) struct Row<'c> {
    pub key: Key,
    pub slots: Vec<&'c Slot>,
}

fn rows(catalogue: &Catalogue) -> Result<Vec<Row<'_>>, CompileError> {
    let in_force = catalogue.slots.iter().filter(|slot| slot.is_recorded());
    let mut pairs: Vec<(Key, &Slot)> =
        in_force.flat_map(|slot| slot.keys.iter().map(move |&key| (key, slot))).collect();
    pairs.sort_unstable_by_key(|(key, slot)| (*key, slot.place.index));
    let mut rows: Vec<Row<'_>> = Vec::with_capacity(pairs.len());
    for (key, slot) in pairs {
        match rows.last_mut() {
            Some(row) if row.key == key => {
                if row.slots.len() == MAX_PROFILES {
                    return Err(CatalogueError::Crowded(slot.id.clone()).into());
                }
                row.slots.push(slot);
            }
            _ => rows.push(Row { key, slots: vec![slot] }),
        }
    }
    Ok(rows)
}

fn record_length(row: &Row<'_>) -> u32 {
    let notes = row
        .slots
        .iter()
        .map(|slot| encoded_len(slot.place.length as usize, slot.revoked.map(|place| place.length as usize)));
    u32::try_from(34 + notes.sum::<usize>()).unwrap_or(u32::MAX)
}

fn read_record(row: &Row<'_>, entries: &dyn Entries) -> io::Result<Vec<u8>> {
    let read = |place: Place| entries.entry(place.index);
    let profiles: io::Result<Vec<RawProfile>> = row
        .slots
        .iter()
        .map(|slot| {
            let note = read(slot.place)?;
            let revocation = match slot.revoked {
                Some(place) => Some((place.index, read(place)?)),
                None => None,
            };
            Ok(RawProfile { index: slot.place.index, note, revocation })
        })
        .collect();
    Ok(RawRecord { key: row.key, profiles: profiles? }.encode())
}

fn write_index(out: &mut Counted<'_>, layout: &Layout, heads: &[Head]) -> io::Result<()> {
    let mut offset = HEADER;
    let per_tile = usize::try_from(ENTRIES).unwrap_or(usize::MAX);
    let mut fences: Vec<Key> = Vec::new();
    for heads in heads.chunks(per_tile) {
        fences.extend(heads.first().map(|head| head.key));
        for head in heads {
            out.write_all(&head.key.0)?;
            out.write_all(&offset.to_be_bytes())?;
            out.write_all(&head.length.to_be_bytes())?;
            offset += u64::from(head.length);
        }
        out.pad_tile()?;
    }
    let per_tile = usize::try_from(FENCES).unwrap_or(usize::MAX);
    for _ in &layout.fences {
        let mut above = Vec::new();
        for keys in fences.chunks(per_tile) {
            above.extend(keys.first().copied());
            keys.iter().try_for_each(|key| out.write_all(&key.0))?;
            out.pad_tile()?;
        }
        fences = above;
    }
    Ok(())
}

/// Every complete subtree's hash, level by level.
#[derive(Default)]
struct Levels {
    frontier: Frontier,
    hashes: Vec<Vec<Hash>>,
}

impl Levels {
    fn push(&mut self, leaf: Hash) {
        let hashes = &mut self.hashes;
        self.frontier.push_with(leaf, |level, _, hash| {
            let level = usize::from(level);
            if hashes.len() <= level {
                hashes.resize_with(level + 1, Vec::new);
            }
            if let Some(row) = hashes.get_mut(level) {
                row.push(hash);
            }
        });
    }

    /// Hashes `start..start+width` of a level, as far as they exist.
    fn part(&self, level: usize, start: usize, width: usize) -> &[Hash] {
        let row = self.hashes.get(level).map(Vec::as_slice).unwrap_or_default();
        let start = start.min(row.len());
        row.get(start..(start + width).min(row.len())).unwrap_or_default()
    }
}

fn write_hashes(out: &mut Counted<'_>, levels: &Levels) -> io::Result<()> {
    let width = usize::try_from(WIDTH).unwrap_or(usize::MAX);
    for bottom in (0..levels.hashes.len()).step_by(8) {
        let tiles = levels.hashes.get(bottom).map_or(0, Vec::len).div_ceil(width);
        for tile in 0..tiles {
            for within in 0..=8 {
                let part = levels.part(bottom + within, (tile * width) >> within, width >> within);
                part.iter().try_for_each(|hash| out.write_all(&hash.0))?;
                let missing = (width >> within) - part.len();
                out.write_all(&vec![0; missing * 32])?;
            }
            out.pad_tile()?;
        }
    }
    Ok(())
}

struct Counted<'w> {
    inner: &'w mut dyn Write,
    written: u64,
}

impl Counted<'_> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn pad_tile(&mut self) -> io::Result<()> {
        self.pad_to(self.written.div_ceil(TILE) * TILE)
    }

    fn pad_to(&mut self, end: u64) -> io::Result<()> {
        let missing = usize::try_from(end.saturating_sub(self.written)).unwrap_or_default();
        self.write_all(&vec![0; missing])
    }
}
