//! Entries that wait for their commit, and what is left to do after it.
//!
//! `log/staged/SIZE-ROOT` holds a line `capgate staged v1`, a line with the size of the log before, a line with the
//! length of the signed checkpoint in bytes, the checkpoint, and the new entries as bundles hold them.

use std::collections::BTreeMap;
use std::io;

use super::PublishError;
use crate::keys::SigningKey;
use crate::latest::Latest;
use crate::log::{CHECKPOINT, Checkpoint, Extension, LogReader, append};
use crate::merkle;
use crate::note::{self, Note, NoteError};
use crate::store::{Listed, ReadAt, Store, StoreError, StoreMut};
use crate::trust::Chain;
use crate::witness::keeping_cosignatures;

/// Most bytes of staged entries that are read.
const MAX_STAGED: u64 = 1 << 30;
/// Most bytes of a checkpoint.
pub(crate) const MAX_CHECKPOINT: u64 = 16 * 1024;

const FIRST: &[u8] = b"capgate staged v1\n";

/// A renewal adds no entry, so what witnesses said of the log before still holds, and is kept.
pub(super) fn encode(
    store: &dyn Store,
    chain: &Chain,
    latest: &Latest,
    old_size: u64,
    entries: &[Vec<u8>],
    keys: &[&SigningKey],
) -> Result<Vec<u8>, PublishError> {
    let checkpoint =
        Checkpoint { origin: chain.origin().clone(), size: latest.log_size, root: latest.log_root };
    let note = note::sign(&checkpoint.to_text(), keys)
        .map_err(|source| PublishError::Note { what: CHECKPOINT.into(), source })?;
    let standing = store.read(CHECKPOINT, MAX_CHECKPOINT).unwrap_or_default();
    Ok(encode_noted(&keeping_cosignatures(&note, &standing), old_size, entries))
}

/// The same with a checkpoint that is signed already.
pub(crate) fn encode_noted(checkpoint: &[u8], old_size: u64, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("capgate staged v1\n{old_size}\n{}\n", checkpoint.len()).into_bytes();
    bytes.extend_from_slice(checkpoint);
    for entry in entries {
        bytes.extend(u16::try_from(entry.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend(entry);
    }
    bytes
}

/// The signed checkpoint in front of what was staged for `latest`, whatever follows it; its signatures are not looked at.
pub(crate) fn staged_checkpoint(store: &dyn Store, latest: &Latest) -> Option<Vec<u8>> {
    let file = store.open(&latest.staged_path()).ok()?;
    let read = |offset: u64, length: u64| {
        let length = length.min(file.size().checked_sub(offset)?);
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
    };
    // Longer than the three lines can be.
    let head = read(0, 64)?;
    let (_, rest) = take_number(head.strip_prefix(FIRST)?)?;
    let (length, rest) = take_number(rest)?;
    let offset = u64::try_from(head.len().checked_sub(rest.len())?).ok()?;
    let checkpoint = read(offset, Some(length).filter(|&length| length <= MAX_CHECKPOINT)?)?;
    (checkpoint.len() as u64 == length).then_some(checkpoint)
}

struct Staged {
    old_size: u64,
    checkpoint: Vec<u8>,
    entries: Vec<Vec<u8>>,
}

fn decode(bytes: &[u8]) -> Option<Staged> {
    let rest = bytes.strip_prefix(FIRST)?;
    let (old_size, rest) = take_number(rest)?;
    let (length, rest) = take_number(rest)?;
    let (checkpoint, mut rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let mut entries = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (entry, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        entries.push(entry.to_vec());
        rest = after;
    }
    rest.is_empty().then(|| Staged { old_size, checkpoint: checkpoint.to_vec(), entries })
}

fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|&b| b == b'\n')?;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some((number, bytes.get(end + 1..)?))
}

/// Reads the checkpoint at its standard place and checks its signature; `None` where there is none yet.
///
/// It may be older than a rotation of the registry keys, so every version of the trust may vouch for it: all that it is
/// used for is to be continued.
fn standing_checkpoint(store: &dyn Store, chain: &Chain) -> Result<Option<Checkpoint>, PublishError> {
    match store.read(CHECKPOINT, MAX_CHECKPOINT) {
        Ok(bytes) => {
            let newest = verified_checkpoint(&bytes, chain);
            let earlier = (1..chain.current().version).rev().filter_map(|version| chain.as_of(version));
            let by_earlier =
                || earlier.into_iter().find_map(|chain| verified_checkpoint(&bytes, &chain).ok());
            newest.or_else(|e| by_earlier().ok_or(e)).map(Some)
        }
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Checks a signed checkpoint: signatures of the registry role, form, origin.
pub fn verified_checkpoint(bytes: &[u8], chain: &Chain) -> Result<Checkpoint, PublishError> {
    let problem = |source: NoteError| PublishError::Note { what: CHECKPOINT.into(), source };
    let note = Note::parse(bytes).map_err(problem)?;
    chain.current().registry.verify(&note).map_err(problem)?;
    let checkpoint =
        Checkpoint::parse(note.text()).map_err(|e| PublishError::Staged(format!("`{CHECKPOINT}`: {e}")))?;
    if checkpoint.origin == *chain.origin() {
        Ok(checkpoint)
    } else {
        Err(PublishError::Staged(format!("`{CHECKPOINT}` is of `{}`", checkpoint.origin)))
    }
}

/// What a committed publication has yet to write: tiles, bundles, and the signed checkpoint behind them.
pub struct Remainder {
    extension: Extension,
    checkpoint: Vec<u8>,
}

/// Finds what the publication of `latest` has yet to write; `None` when it is complete.
fn remainder(store: &dyn Store, chain: &Chain, latest: &Latest) -> Result<Option<Remainder>, PublishError> {
    let path = latest.staged_path();
    let standing = standing_checkpoint(store, chain)?;
    let is_standing =
        standing.as_ref().is_some_and(|c| c.size == latest.log_size && c.root == latest.log_root);
    let bytes = match store.read(&path, MAX_STAGED) {
        Err(e) if e.is_not_found() && is_standing => return Ok(None),
        read => read?,
    };
    if is_standing {
        return Ok(signed_anew(store, chain, latest, &bytes)?);
    }
    let malformed = |what: &str| PublishError::Staged(format!("`{path}` {what}"));
    let staged = decode(&bytes).ok_or_else(|| malformed("is malformed"))?;
    let checkpoint = verified_checkpoint(&staged.checkpoint, chain)?;
    if checkpoint.size != latest.log_size || checkpoint.root != latest.log_root {
        return Err(malformed("has another checkpoint than its name"));
    }
    let reader = LogReader::new(store, staged.old_size);
    check_consistent(&reader, standing.as_ref())?;
    let old_root = merkle::root(&reader, staged.old_size)?;
    let extension = append(&reader, &old_root, &staged.entries)?;
    if extension.root != latest.log_root || extension.size != latest.log_size {
        return Err(malformed("does not lead to the root that was signed"));
    }
    Ok(Some(Remainder { extension, checkpoint: staged.checkpoint }))
}

/// What was signed before must be a prefix of what is signed next: a log never signs two histories.
fn check_consistent(reader: &LogReader<'_>, standing: Option<&Checkpoint>) -> Result<(), PublishError> {
    let Some(standing) = standing else { return Ok(()) };
    let fits = standing.size <= reader.size() && merkle::root(reader, standing.size)? == standing.root;
    if fits { Ok(()) } else { Err(PublishError::Fork { size: standing.size, root: standing.root }) }
}

/// Signs the checkpoint again where it was lost, if tiles and bundles still hold the log that `latest` committed.
/// Returns whether that was so.
pub(super) fn restore_checkpoint(
    store: &dyn StoreMut,
    chain: &Chain,
    latest: &Latest,
    keys: &[&SigningKey],
) -> Result<bool, PublishError> {
    let is_there = |path: &str| match store.open(path) {
        Ok(_) => Ok(true),
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(e),
    };
    if is_there(CHECKPOINT)? || is_there(&latest.staged_path())? {
        return Ok(false);
    }
    let reader = LogReader::new(store, latest.log_size);
    if merkle::root(&reader, latest.log_size)? != latest.log_root {
        return Ok(false);
    }
    let checkpoint =
        Checkpoint { origin: chain.origin().clone(), size: latest.log_size, root: latest.log_root };
    let note = note::sign(&checkpoint.to_text(), keys)
        .map_err(|source| PublishError::Note { what: CHECKPOINT.into(), source })?;
    store.put(CHECKPOINT, &note)?;
    Ok(true)
}

/// A renewal adds no entry, but other keys may sign from now on, and the checkpoint is theirs to sign, too. What was
/// staged is not needed otherwise, so nothing wrong with it is an error.
fn signed_anew(
    store: &dyn Store,
    chain: &Chain,
    latest: &Latest,
    staged: &[u8],
) -> Result<Option<Remainder>, StoreError> {
    let Some(staged) = decode(staged) else { return Ok(None) };
    let is_same = |c: &Checkpoint| c.size == latest.log_size && c.root == latest.log_root;
    let is_sound = verified_checkpoint(&staged.checkpoint, chain).is_ok_and(|c| is_same(&c));
    let standing = store.read(CHECKPOINT, MAX_CHECKPOINT)?;
    let checkpoint = keeping_cosignatures(&staged.checkpoint, &standing);
    if !is_sound || standing == checkpoint {
        return Ok(None);
    }
    let extension = Extension { files: Vec::new(), size: latest.log_size, root: latest.log_root };
    Ok(Some(Remainder { extension, checkpoint }))
}

/// Writes what the publication of `latest` left to write and removes what nobody reads any more. Returns whether
/// anything was missing.
pub fn complete(store: &dyn StoreMut, chain: &Chain, latest: &Latest) -> Result<bool, PublishError> {
    let remainder = remainder(store, chain, latest)?;
    if let Some(remainder) = &remainder {
        for (path, bytes) in &remainder.extension.files {
            store.put(path, bytes)?;
        }
        store.put(CHECKPOINT, &remainder.checkpoint)?;
    }
    for Listed { path, .. } in store.list()? {
        if is_stale(&path, latest) {
            store.remove(&path)?;
        }
    }
    Ok(remainder.is_some())
}

/// Tells whether a file was staged, or is a snapshot older than the one before `latest`. That one stays, since a
/// reader may have opened `latest.note` just before it was replaced.
fn is_stale(path: &str, latest: &Latest) -> bool {
    if let Some(name) = path.strip_prefix("log/staged/") {
        // A larger one may belong to somebody who is about to commit.
        let size = name.split_once('-').and_then(|(size, _)| size.parse::<u64>().ok());
        return size.is_some_and(|size| size <= latest.log_size);
    }
    let Some(name) = path.strip_prefix("snapshot/").and_then(|name| name.strip_suffix(".snap")) else {
        return false;
    };
    let version = name.split_once('-').and_then(|(version, _)| version.parse::<u64>().ok());
    version.is_some_and(|version| {
        version.saturating_add(1) < latest.version
            || (version == latest.version && path != latest.snapshot_path())
    })
}

/// The log as `latest` committed it: where the publication was interrupted behind its commit, the files that are
/// missing are computed from what was staged. The second value says whether that was so.
pub fn committed_log<'s>(
    store: &'s dyn Store,
    chain: &Chain,
    latest: &Latest,
) -> Result<(Overlay<'s>, bool), PublishError> {
    let remainder = remainder(store, chain, latest)?;
    let interrupted = remainder.is_some();
    let mut files = BTreeMap::new();
    if let Some(remainder) = remainder {
        files.extend(remainder.extension.files);
        files.insert(CHECKPOINT.to_owned(), remainder.checkpoint);
    }
    Ok((Overlay { store, files }, interrupted))
}

/// A store with files laid over it that it should have but has not yet.
pub struct Overlay<'s> {
    store: &'s dyn Store,
    files: BTreeMap<String, Vec<u8>>,
}

impl<'s> Overlay<'s> {
    /// Names of the files that are laid over it.
    pub fn laid_over(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The store as it is.
    pub fn plain(store: &'s dyn Store) -> Self {
        Self { store, files: BTreeMap::new() }
    }
}

impl Store for Overlay<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        match self.files.get(path) {
            Some(bytes) => Ok(bytes.clone()),
            None => self.store.read(path, cap),
        }
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        match self.files.get(path) {
            Some(bytes) => Ok(Box::new(Bytes(bytes.clone()))),
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
