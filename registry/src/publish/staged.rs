//! The files in which new entries wait for their commit.
//!
//! `log/staged/SIZE-ROOT` holds a line `capgate staged v1`, a line with the size of the log before, a line with the
//! length of the signed checkpoint in bytes, the checkpoint, and new entries as bundles hold them: those before the next
//! index that 1,024 divides. The 1,024 from there on, or as many as there are, stand in `log/staged/SIZE-ROOT-FIRST`, and
//! so on. So what waits may be as large as any log, and nobody needs more than one of these files in memory.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use super::PublishError;
use crate::latest::Latest;
use crate::log::{LogReader, MAX_ENTRY, Row, TILE_WIDTH, Tile, encode_bundle};
use crate::store::{Store, StoreError};

/// Entries between two borders of staged files; a bundle lies between two of them.
const PART: u64 = 4 * TILE_WIDTH;
/// Most bytes of a checkpoint.
pub const MAX_CHECKPOINT: u64 = 16 * 1024;
/// More than the three lines before the checkpoint can have.
const LINES: u64 = 64;
/// Most bytes of an entry with its length.
const LONGEST: u64 = MAX_ENTRY as u64 + 2;

const FIRST: &[u8] = b"capgate staged v1\n";

/// Name of the file that holds the entries from `first` on, for any but the first of them.
pub(super) fn part_path(staged: &str, first: u64) -> String {
    format!("{staged}-{first}")
}

/// The new entries of a log that grows to `size` that stand in one file with entry `index`.
pub(crate) fn part_of(index: u64, old_size: u64, size: u64) -> Range<u64> {
    let start = index / PART * PART;
    start.max(old_size)..start.saturating_add(PART).min(size)
}

/// The new entries file by file.
pub(super) fn parts(old_size: u64, size: u64) -> impl Iterator<Item = Range<u64>> {
    let part = move |index| (index < size).then(|| part_of(index, old_size, size));
    std::iter::successors(part(old_size), move |before| part(before.end))
}

/// The first file: the signed checkpoint, and the entries before the next border.
pub(super) fn encode_head<E: AsRef<[u8]>>(checkpoint: &[u8], old_size: u64, entries: &[E]) -> Vec<u8> {
    let mut bytes = format!("capgate staged v1\n{old_size}\n{}\n", checkpoint.len()).into_bytes();
    bytes.extend_from_slice(checkpoint);
    bytes.extend(encode_part(entries));
    bytes
}

/// Any other file.
pub(super) fn encode_part<E: AsRef<[u8]>>(entries: &[E]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries.iter().map(AsRef::as_ref) {
        bytes.extend(u16::try_from(entry.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend(entry);
    }
    bytes
}

/// Splits exactly `count` entries; no entry is empty, since no note is.
fn split(bytes: &[u8], count: u64) -> Option<Vec<&[u8]>> {
    let mut entries = Vec::new();
    let mut rest = bytes;
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (entry, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        if entry.is_empty() {
            return None;
        }
        entries.push(entry);
        rest = after;
    }
    rest.is_empty().then_some(entries)
}

/// The three lines in front of the checkpoint.
struct Head {
    old_size: u64,
    /// Where the checkpoint begins.
    offset: u64,
    /// Bytes of the checkpoint.
    length: u64,
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (old_size, rest) = take_number(bytes.strip_prefix(FIRST)?)?;
        let (length, rest) = take_number(rest)?;
        let offset = u64::try_from(bytes.len().checked_sub(rest.len())?).ok()?;
        (length <= MAX_CHECKPOINT).then_some(Self { old_size, offset, length })
    }

    /// The checkpoint and what follows it.
    fn split<'b>(&self, bytes: &'b [u8]) -> Option<(&'b [u8], &'b [u8])> {
        bytes.get(usize::try_from(self.offset).ok()?..)?.split_at_checked(usize::try_from(self.length).ok()?)
    }
}

fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|&b| b == b'\n')?;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some((number, bytes.get(end + 1..)?))
}

/// The signed checkpoint in front of what was staged for `latest`, whatever follows it; its signatures are not looked at.
pub(crate) fn staged_checkpoint(store: &dyn Store, latest: &Latest) -> Option<Vec<u8>> {
    let file = store.open(&latest.staged_path()).ok()?;
    let read = |offset: u64, length: u64| {
        let length = length.min(file.size().checked_sub(offset)?);
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
    };
    let head = Head::parse(&read(0, LINES)?)?;
    let checkpoint = read(head.offset, head.length)?;
    (checkpoint.len() as u64 == head.length).then_some(checkpoint)
}

/// Most bytes that any staged file has.
pub const MAX_STAGED: u64 = LINES + MAX_CHECKPOINT + PART * LONGEST;

/// The checkpoint of a publication that added no entry; `None` where there is none, or where entries follow it.
pub(super) fn read_renewed(store: &dyn Store, latest: &Latest) -> Result<Option<Vec<u8>>, StoreError> {
    let bytes = match store.read(&latest.staged_path(), LINES + MAX_CHECKPOINT) {
        Err(StoreError::TooLarge { .. } | StoreError::NotFound { .. }) => return Ok(None),
        read => read?,
    };
    let parts = Head::parse(&bytes).filter(|head| head.old_size == latest.log_size);
    let checkpoint = parts.and_then(|head| head.split(&bytes)).filter(|(_, entries)| entries.is_empty());
    Ok(checkpoint.map(|(checkpoint, _)| checkpoint.to_vec()))
}

/// What was staged for a log of which nothing else is written yet.
///
/// The first file is in memory, and the one behind it that was asked for last.
pub(super) struct Staged<'s> {
    store: &'s dyn Store,
    path: String,
    /// The signed checkpoint, not yet verified.
    pub checkpoint: Vec<u8>,
    /// Entries of the log before.
    pub old_size: u64,
    size: u64,
    first: Rc<Vec<u8>>,
    kept: RefCell<Option<(u64, Rc<Vec<u8>>)>>,
}

impl<'s> Staged<'s> {
    /// Reads the first file.
    pub fn read(store: &'s dyn Store, latest: &Latest) -> Result<Self, PublishError> {
        let (path, size) = (latest.staged_path(), latest.log_size);
        let most = size.clamp(1, PART);
        let bytes = store.read(&path, LINES + MAX_CHECKPOINT + most * LONGEST)?;
        let staged = || {
            let head = Head::parse(&bytes).filter(|head| head.old_size <= size)?;
            let (checkpoint, entries) = head.split(&bytes)?;
            Some(Self {
                store,
                path: path.clone(),
                checkpoint: checkpoint.to_vec(),
                old_size: head.old_size,
                size,
                first: Rc::new(entries.to_vec()),
                kept: RefCell::default(),
            })
        };
        let staged = staged().ok_or_else(|| malformed(&path))?;
        // Nothing else would look at it where no entry is new.
        if staged.old_size == size && !staged.first.is_empty() {
            return Err(malformed(&path));
        }
        Ok(staged)
    }

    /// Entries of the larger log.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The new entries file by file.
    pub fn parts(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        parts(self.old_size, self.size)
    }

    /// Hands the entries of one file to `work`.
    pub fn with_part<T>(
        &self,
        part: &Range<u64>,
        work: impl FnOnce(&[&[u8]]) -> Result<T, PublishError>,
    ) -> Result<T, PublishError> {
        let count = part.end.saturating_sub(part.start);
        let (path, bytes) = if part.start == self.old_size {
            (self.path.clone(), Rc::clone(&self.first))
        } else {
            let path = part_path(&self.path, part.start);
            let bytes = self.later(part.start, &path, count * LONGEST)?;
            (path, bytes)
        };
        work(&split(&bytes, count).ok_or_else(|| malformed(&path))?)
    }

    fn later(&self, first: u64, path: &str, cap: u64) -> Result<Rc<Vec<u8>>, StoreError> {
        if let Some((kept, bytes)) = &*self.kept.borrow()
            && *kept == first
        {
            return Ok(Rc::clone(bytes));
        }
        // Given up before the next one is read.
        *self.kept.borrow_mut() = None;
        let bytes = Rc::new(self.store.read(path, cap)?);
        *self.kept.borrow_mut() = Some((first, Rc::clone(&bytes)));
        Ok(bytes)
    }

    /// The bundles that the larger log has and the smaller had not.
    pub fn bundles(&self) -> impl Iterator<Item = Tile> + use<> {
        let size = self.size;
        let first = self.old_size / TILE_WIDTH;
        let end = if self.old_size < size { size.div_ceil(TILE_WIDTH) } else { first };
        (first..end).filter_map(move |index| Tile::at(Row::Entries, index, size))
    }

    /// Whether `tile` is one of [`Staged::bundles`].
    pub fn has(&self, tile: Tile) -> bool {
        let end = tile.index().saturating_mul(TILE_WIDTH).saturating_add(tile.width());
        Tile::at(Row::Entries, tile.index(), self.size) == Some(tile) && end > self.old_size
    }

    /// The content of one of [`Staged::bundles`].
    pub fn bundle(&self, tile: Tile) -> Result<Vec<u8>, PublishError> {
        let first = tile.index().saturating_mul(TILE_WIDTH);
        let from = first.max(self.old_size);
        let before: Vec<Vec<u8>> =
            LogReader::new(self.store, self.old_size).entries(first..from).collect::<Result<_, _>>()?;
        let part = part_of(from, self.old_size, self.size);
        let skip = usize::try_from(from.saturating_sub(part.start)).unwrap_or(usize::MAX);
        self.with_part(&part, |entries| {
            let wanted = usize::try_from(tile.width()).unwrap_or(usize::MAX).saturating_sub(before.len());
            let new = entries.iter().copied().skip(skip).take(wanted);
            let all: Vec<&[u8]> = before.iter().map(Vec::as_slice).chain(new).collect();
            encode_bundle(&all).map_err(|_| malformed(&self.path))
        })
    }

    /// The same as a store says it.
    pub fn stored(&self, tile: Tile) -> Result<Vec<u8>, StoreError> {
        self.bundle(tile).map_err(|e| match e {
            PublishError::Store(e) => e,
            e => StoreError::Io { path: self.path.clone(), source: io::Error::other(e.to_string()) },
        })
    }
}

pub(super) fn malformed(path: &str) -> PublishError {
    PublishError::Staged(format!("`{path}` is malformed"))
}
