//! A proof: the few bytes of a registry that answer one question, in one file.
//!
//! ```text
//! capgate proof v1
//! file trust/1.note 585          then 585 bytes; so each file that a reader reads whole
//! file snapshot/latest.note 512
//! part snapshot/3-ROOT.snap 901120 4      size of the whole file, and how many ranges of it follow
//! 0 64                           offset and length, then the bytes; ranges ascend and do not touch
//! ```
//!
//! It is made by asking and writing down what was read, and used by asking again: the same reader verifies the same
//! signatures, root and inclusion under the same rules for expiry, clock and what was seen. What it does not hold cannot be
//! read, so a proof can only answer less than its registry, never otherwise. Trust, root and inclusion are those of C2SP
//! tlog-proof; the container is capgate's own, since a record's key must be proven absent under a program's other name, too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use crate::combination::Key;
use crate::note::Note;
use crate::reader::{Anchor, Reader};
use crate::record::{Doubt, Lookup};
use crate::store::{Listed, ReadAt, Store, StoreError};
use crate::witness;

/// Largest proof that is read, in bytes.
pub const MAX_BYTES: u64 = 8 << 20;
/// Most files and ranges in one.
const MOST: usize = 10_000;
const FIRST: &[u8] = b"capgate proof v1\n";

/// Ranges of one file by their offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Part {
    size: u64,
    ranges: BTreeMap<u64, Vec<u8>>,
}

/// A registry of which only a part is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    files: BTreeMap<String, Vec<u8>>,
    parts: BTreeMap<String, Arc<Part>>,
}

/// Says why bytes are no proof.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {what}")]
pub struct ProofError {
    /// Where.
    pub offset: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl Proof {
    /// Writes down what answers the lookups of `keys`: which record stands under each, or that none does.
    pub fn collect(store: &dyn Store, anchor: &Anchor, keys: &[Key]) -> Result<Self, Doubt> {
        let recorder = Recorder { store, read: RefCell::default(), opened: RefCell::default() };
        let reader = Reader::open(&recorder, anchor)?;
        for key in keys {
            reader.lookup(key)?;
        }
        note_witnesses(&recorder, &reader);
        drop(reader);
        let opened = recorder.opened.into_inner();
        let parts = opened.into_iter().map(|(path, part)| (path, Arc::new(joined(&part.borrow()))));
        Ok(Self { files: recorder.read.into_inner(), parts: parts.collect() })
    }

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = FIRST.to_vec();
        for (path, content) in &self.files {
            bytes.extend(format!("file {path} {}\n", content.len()).into_bytes());
            bytes.extend(content);
        }
        for (path, part) in &self.parts {
            bytes.extend(format!("part {path} {} {}\n", part.size, part.ranges.len()).into_bytes());
            for (offset, content) in &part.ranges {
                bytes.extend(format!("{offset} {}\n", content.len()).into_bytes());
                bytes.extend(content);
            }
        }
        bytes
    }

    /// Reads the file. Each proof has one spelling.
    pub fn parse(bytes: &[u8]) -> Result<Self, ProofError> {
        let mut rest = Rest { bytes, at: 0 };
        if bytes.len() as u64 > MAX_BYTES {
            return Err(rest.error("is too long"));
        }
        rest.skip(FIRST).ok_or_else(|| rest.error("does not begin with `capgate proof v1`"))?;
        let mut proof = Self::default();
        for _ in 0..MOST {
            if rest.is_empty() {
                return if proof.encode() == bytes { Ok(proof) } else { Err(rest.error("is not in order")) };
            }
            let line = rest.line().ok_or_else(|| rest.error("has no line"))?;
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["file", path, length] => {
                    let content = rest.content(length).ok_or_else(|| rest.error("a file is cut off"))?;
                    proof.files.insert((*path).to_owned(), content);
                }
                ["part", path, size, count] => {
                    let part = rest.part(size, count)?;
                    proof.parts.insert((*path).to_owned(), Arc::new(part));
                }
                _ => return Err(rest.error("is neither `file` nor `part`")),
            }
        }
        Err(rest.error("has too many files"))
    }
}

/// A guest whose site demands witnesses will look for their cosignatures. Without any there is nothing to look for.
fn note_witnesses(recorder: &Recorder<'_>, reader: &Reader) {
    let find = |store: &dyn Store| witness::checkpoint_of(store, reader.chain().origin(), reader.latest());
    let found = find(recorder.store).ok().and_then(|bytes| Note::parse(&bytes).ok());
    if found.is_some_and(|note| witness::cosignatures(&note).next().is_some()) {
        // What it reads is what is written down.
        let _ = find(recorder);
    }
}

/// What has not been read yet.
struct Rest<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Rest<'b> {
    fn error(&self, what: &'static str) -> ProofError {
        ProofError { offset: self.at, what }
    }

    fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn skip(&mut self, start: &[u8]) -> Option<()> {
        self.bytes.get(self.at..)?.starts_with(start).then(|| self.at += start.len())
    }

    fn line(&mut self) -> Option<&'b str> {
        let rest = self.bytes.get(self.at..)?;
        // No line is longer than a path of a registry and two numbers.
        let end = rest.iter().take(1_000).position(|&byte| byte == b'\n')?;
        let line = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(line).ok()
    }

    fn content(&mut self, length: &str) -> Option<Vec<u8>> {
        self.take(length.parse().ok()?).map(<[u8]>::to_vec)
    }

    fn part(&mut self, size: &str, count: &str) -> Result<Part, ProofError> {
        let number = |text: &str| text.parse::<u64>().ok();
        let (Some(size), Some(count)) = (number(size), number(count).filter(|&n| n <= MOST as u64)) else {
            return Err(self.error("has malformed numbers"));
        };
        let mut part = Part { size, ranges: BTreeMap::new() };
        let mut least = 0;
        for _ in 0..count {
            let line = self.line().ok_or_else(|| self.error("has no line"))?;
            let (offset, length) = line.split_once(' ').ok_or_else(|| self.error("is no range"))?;
            let offset = number(offset)
                .filter(|&o| o >= least)
                .ok_or_else(|| self.error("ranges are not in order"))?;
            let content = self.content(length).filter(|c| !c.is_empty());
            let content = content.ok_or_else(|| self.error("a range is cut off"))?;
            // Two that touch would be one.
            least = offset.saturating_add(content.len() as u64).saturating_add(1);
            if least.saturating_sub(1) > size {
                return Err(self.error("a range ends behind its file"));
            }
            part.ranges.insert(offset, content);
        }
        Ok(part)
    }
}

impl Store for Proof {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let found = self.files.get(path).ok_or_else(|| StoreError::NotFound { path: path.to_owned() })?;
        let size = found.len() as u64;
        if size > cap {
            return Err(StoreError::TooLarge { path: path.to_owned(), size, cap });
        }
        Ok(found.clone())
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        match self.parts.get(path) {
            Some(part) => Ok(Box::new(Held(Arc::clone(part)))),
            None => Err(StoreError::NotFound { path: path.to_owned() }),
        }
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let files =
            self.files.iter().map(|(path, bytes)| Listed { path: path.clone(), size: bytes.len() as u64 });
        let parts = self.parts.iter().map(|(path, part)| Listed { path: path.clone(), size: part.size });
        Ok(files.chain(parts).collect())
    }
}

/// A file of which ranges are there.
struct Held(Arc<Part>);

impl ReadAt for Held {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let outside = || io::Error::other("the proof is not about that");
        let (start, range) = self.0.ranges.range(..=offset).next_back().ok_or_else(outside)?;
        let skip = usize::try_from(offset.saturating_sub(*start)).map_err(io::Error::other)?;
        let found = range.get(skip..).and_then(|rest| rest.get(..buffer.len())).ok_or_else(outside)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.0.size
    }
}

/// Passes on, and writes down.
struct Recorder<'s> {
    store: &'s dyn Store,
    read: RefCell<BTreeMap<String, Vec<u8>>>,
    opened: RefCell<BTreeMap<String, Rc<RefCell<Part>>>>,
}

impl Store for Recorder<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let bytes = self.store.read(path, cap)?;
        self.read.borrow_mut().insert(path.to_owned(), bytes.clone());
        Ok(bytes)
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        let file = self.store.open(path)?;
        let part = Rc::new(RefCell::new(Part { size: file.size(), ranges: BTreeMap::new() }));
        self.opened.borrow_mut().insert(path.to_owned(), Rc::clone(&part));
        Ok(Box::new(Watched { file, part }))
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.store.list()
    }
}

struct Watched {
    file: Box<dyn ReadAt>,
    part: Rc<RefCell<Part>>,
}

impl ReadAt for Watched {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)?;
        let mut part = self.part.borrow_mut();
        let longer = part.ranges.get(&offset).is_some_and(|known| known.len() >= buffer.len());
        if !longer && !buffer.is_empty() {
            part.ranges.insert(offset, buffer.to_vec());
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        self.file.size()
    }
}

/// The same ranges, those that touch or overlap made one.
fn joined(part: &Part) -> Part {
    let mut ranges: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (&offset, bytes) in &part.ranges {
        if let Some(mut last) = ranges.last_entry() {
            let end = last.key().saturating_add(last.get().len() as u64);
            if let Some(overlap) = end.checked_sub(offset) {
                let skip = usize::try_from(overlap).unwrap_or(usize::MAX);
                last.get_mut().extend(bytes.get(skip..).unwrap_or_default());
                continue;
            }
        }
        ranges.insert(offset, bytes.clone());
    }
    Part { size: part.size, ranges }
}
