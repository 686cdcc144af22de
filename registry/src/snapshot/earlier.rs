//! Records of an earlier snapshot, taken over where they are exactly what the log leads to.
//!
//! Nothing of the earlier snapshot is believed, not even that it was signed: a record counts only if its places are those
//! that the log gives it, and each note in it has the leaf hash that the log has there. So a damaged snapshot, or a forged
//! one, costs time, and changes nothing. What it saves is to look for every note in the log, where they stand in another
//! order.

use std::io;
use std::num::NonZero;
use std::ops::Range;

use super::catalogue::Place;
use super::compile::{Ready, Row};
use super::reader::Snapshot;
use super::shares::in_shares;
use crate::combination::Key;
use crate::merkle::{Hash, leaf_hash};

/// Most bytes of the earlier snapshot that are in memory at once.
pub(super) const SPAN: u64 = 16 << 20;

/// An earlier snapshot, and what its notes are held against.
pub struct Earlier<'l> {
    snapshot: Snapshot,
    /// Leaf hashes of the log from entry 0 on, which lead to its signed root.
    leaves: &'l [Hash],
    threads: NonZero<usize>,
    /// Index entries that were read and not yet passed, in reverse order.
    index: Vec<(Key, Range<u64>)>,
    /// The next index entry to read.
    position: u64,
}

impl<'l> Earlier<'l> {
    /// Records of `snapshot` as far as the entries with these leaf hashes make them; `threads` threads compare.
    pub fn new(snapshot: Snapshot, leaves: &'l [Hash], threads: NonZero<usize>) -> Self {
        Self { snapshot, leaves, threads, index: Vec::new(), position: 0 }
    }

    /// Where a record under `key` is said to stand. Keys are asked for in ascending order.
    pub(super) fn find(&mut self, key: &Key) -> Option<Range<u64>> {
        loop {
            let Some((found, _)) = self.index.last() else {
                self.index = self.snapshot.index_from(self.position)?;
                self.position += self.index.len() as u64;
                self.index.reverse();
                continue;
            };
            if found > key {
                return None;
            }
            let is_it = found == key;
            let (_, place) = self.index.pop()?;
            if is_it {
                return Some(place);
            }
        }
    }

    /// Bytes and leaf hash of the record of each row for which a place was found, where it is what the row says.
    pub(super) fn take(
        &self,
        rows: &[Row<'_>],
        places: &[Option<Range<u64>>],
    ) -> io::Result<Vec<Option<Ready>>> {
        let found = || places.iter().flatten();
        let start = found().map(|place| place.start).min().unwrap_or_default();
        let end = found().map(|place| place.end).max().unwrap_or_default();
        let bytes = self.snapshot.bytes(start..end)?;
        let slice = |place: &Range<u64>| {
            let at = |offset: u64| usize::try_from(offset.checked_sub(start)?).ok();
            bytes.get(at(place.start)?..at(place.end)?)
        };
        let pairs: Vec<(&Row<'_>, Option<&[u8]>)> =
            rows.iter().zip(places).map(|(row, place)| (row, place.as_ref().and_then(slice))).collect();
        let leaves = self.leaves;
        let judged = in_shares(&pairs, self.threads, &|_, (row, record)| {
            let record = record.filter(|record| is_record(row, record, leaves) == Some(true))?;
            Some((record.to_vec(), leaf_hash(record)))
        });
        if judged.len() == rows.len() { Ok(judged) } else { Err(io::Error::other("a thread stopped")) }
    }
}

/// Tells whether `record` is the encoding of `row`, whose entries have these leaf hashes.
fn is_record(row: &Row<'_>, record: &[u8], leaves: &[Hash]) -> Option<bool> {
    let (key, rest) = record.split_first_chunk::<32>()?;
    let (count, mut rest) = rest.split_first_chunk::<2>()?;
    if *key != row.key.0 || usize::from(u16::from_be_bytes(*count)) != row.slots.len() {
        return Some(false);
    }
    for slot in &row.slots {
        rest = behind_note(rest, slot.place, leaves)?;
        let (&revoked, behind) = rest.split_first()?;
        rest = match slot.revoked {
            Some(place) if revoked == 1 => behind_note(behind, place, leaves)?,
            None if revoked == 0 => behind,
            _ => return Some(false),
        };
    }
    Some(rest.is_empty())
}

/// What follows a note that is the entry at `place`.
fn behind_note<'r>(record: &'r [u8], place: Place, leaves: &[Hash]) -> Option<&'r [u8]> {
    let (index, rest) = record.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let length = u16::from_be_bytes(*length);
    let (note, rest) = rest.split_at_checked(usize::from(length))?;
    let leaf = leaves.get(usize::try_from(place.index).ok()?)?;
    let is_it = u64::from_be_bytes(*index) == place.index
        && u32::from(length) == place.length
        && leaf_hash(note) == *leaf;
    is_it.then_some(rest)
}
