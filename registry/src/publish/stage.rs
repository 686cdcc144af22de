//! What is left to do behind a commit: tiles and bundles of the entries that were staged, and the checkpoint.

use std::collections::BTreeMap;

use super::PublishError;
use super::overlay::Overlay;
use super::staged::{MAX_CHECKPOINT, Staged, read_renewed};
use crate::keys::SigningKey;
use crate::latest::{Latest, PLAUSIBLE_VERSION};
use crate::log::{Appender, CHECKPOINT, Checkpoint, LogReader, Row, Tile};
use crate::merkle;
use crate::note::{self, Note, NoteError};
use crate::store::{Listed, Store, StoreError, StoreMut};
use crate::trust::Chain;
use crate::witness::keeping_cosignatures;

/// Signs the checkpoint of `latest`. A renewal adds no entry, so what witnesses said of the log before still holds, and is
/// kept.
pub(super) fn sign_checkpoint(
    store: &dyn Store,
    chain: &Chain,
    latest: &Latest,
    keys: &[&SigningKey],
) -> Result<Vec<u8>, PublishError> {
    let checkpoint =
        Checkpoint { origin: chain.origin().clone(), size: latest.log_size, root: latest.log_root };
    let note = note::sign(&checkpoint.to_text(), keys)
        .map_err(|source| PublishError::Note { what: CHECKPOINT.into(), source })?;
    let standing = store.read(CHECKPOINT, MAX_CHECKPOINT).unwrap_or_default();
    Ok(keeping_cosignatures(&note, &standing))
}

/// The checkpoint at its standard place.
struct Standing {
    checkpoint: Checkpoint,
    bytes: Vec<u8>,
}

/// Reads the checkpoint at its standard place and checks its signature; `None` where there is none yet.
///
/// It may be older than a rotation of the registry keys, so every version of the trust may vouch for it: all that it is
/// used for is to be continued.
fn standing_checkpoint(store: &dyn Store, chain: &Chain) -> Result<Option<Standing>, PublishError> {
    match store.read(CHECKPOINT, MAX_CHECKPOINT) {
        Ok(bytes) => {
            let newest = verified_checkpoint(&bytes, chain);
            let earlier = (1..chain.current().version).rev().filter_map(|version| chain.as_of(version));
            let by_earlier =
                || earlier.into_iter().find_map(|chain| verified_checkpoint(&bytes, &chain).ok());
            let checkpoint = newest.or_else(|e| by_earlier().ok_or(e))?;
            Ok(Some(Standing { checkpoint, bytes }))
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
struct Remainder<'s> {
    hashes: Vec<(String, Vec<u8>)>,
    /// Where the bundles come from; `None` where only the checkpoint is new.
    staged: Option<Staged<'s>>,
    checkpoint: Vec<u8>,
    /// The checkpoint that this one follows; `None` where there is none yet.
    before: Option<Vec<u8>>,
}

impl Remainder<'_> {
    fn write(&self, store: &dyn StoreMut) -> Result<(), PublishError> {
        for (path, bytes) in &self.hashes {
            store.put(path, bytes)?;
        }
        for (staged, tile) in self.staged.iter().flat_map(|s| s.bundles().map(move |tile| (s, tile))) {
            store.put(&tile.path(), &staged.bundle(tile)?)?;
        }
        Ok(store.swap(CHECKPOINT, self.before.as_deref(), &self.checkpoint)?)
    }
}

/// Finds what the publication of `latest` has yet to write; `None` when it is complete.
fn remainder<'s>(
    store: &'s dyn Store,
    chain: &Chain,
    latest: &Latest,
) -> Result<Option<Remainder<'s>>, PublishError> {
    let standing = standing_checkpoint(store, chain)?;
    let is_same = |c: &Checkpoint| c.size == latest.log_size && c.root == latest.log_root;
    if standing.as_ref().is_some_and(|standing| is_same(&standing.checkpoint)) {
        return Ok(signed_anew(store, chain, latest)?);
    }
    let staged =
        Staged::read(store, latest, standing.as_ref().map_or(0, |standing| standing.checkpoint.size))?;
    let problem = |what: &str| PublishError::Staged(format!("`{}` {what}", latest.staged_path()));
    let checkpoint = verified_checkpoint(&staged.checkpoint, chain)?;
    if checkpoint.size != latest.log_size || checkpoint.root != latest.log_root {
        return Err(problem("has another checkpoint than its name"));
    }
    let reader = LogReader::new(store, staged.old_size);
    check_consistent(&reader, standing.as_ref().map(|standing| &standing.checkpoint))?;
    let mut appender = Appender::new(&reader, &merkle::root(&reader, staged.old_size)?)?;
    let mut hashes = Vec::new();
    for part in staged.parts() {
        staged
            .with_part(&part, |entries| Ok(entries.iter().try_for_each(|entry| appender.push(entry))?))?;
        hashes.extend(appender.take_files().into_iter().filter(|(path, _)| is_hash_tile(path)));
    }
    let extension = appender.finish()?;
    if extension.root != latest.log_root || extension.size != latest.log_size {
        return Err(problem("does not lead to the root that was signed"));
    }
    hashes.extend(extension.files.into_iter().filter(|(path, _)| is_hash_tile(path)));
    let checkpoint = staged.checkpoint.clone();
    let before = standing.map(|standing| standing.bytes);
    Ok(Some(Remainder { hashes, staged: Some(staged), checkpoint, before }))
}

fn is_hash_tile(path: &str) -> bool {
    Tile::parse(path).is_some_and(|tile| tile.row() != Row::Entries)
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
    store.swap(CHECKPOINT, None, &note)?;
    Ok(true)
}

/// Signs the checkpoint of `latest` again where it bears only signatures from before a rotation: where there is no lock,
/// somebody slow may have taken away the one that the rotation had staged.
pub(super) fn sign_standing(
    store: &dyn StoreMut,
    chain: &Chain,
    latest: &Latest,
    keys: &[&SigningKey],
) -> Result<(), PublishError> {
    let Some(Standing { checkpoint, bytes }) = standing_checkpoint(store, chain)? else { return Ok(()) };
    let is_of_latest = checkpoint.size == latest.log_size && checkpoint.root == latest.log_root;
    if !is_of_latest || verified_checkpoint(&bytes, chain).is_ok() {
        return Ok(());
    }
    let note = sign_checkpoint(store, chain, latest, keys)?;
    match store.swap(CHECKPOINT, Some(&bytes), &note) {
        // Whoever was first went on from here.
        Err(StoreError::Conflict { .. }) => Ok(()),
        done => Ok(done?),
    }
}

/// A renewal adds no entry, but other keys may sign from now on, and the checkpoint is theirs to sign, too. What was
/// staged is not needed otherwise, so nothing wrong with it is an error.
fn signed_anew<'s>(
    store: &'s dyn Store,
    chain: &Chain,
    latest: &Latest,
) -> Result<Option<Remainder<'s>>, StoreError> {
    let Some(renewed) = read_renewed(store, latest)? else { return Ok(None) };
    let is_same = |c: &Checkpoint| c.size == latest.log_size && c.root == latest.log_root;
    let is_sound = verified_checkpoint(&renewed, chain).is_ok_and(|c| is_same(&c));
    let before = store.read(CHECKPOINT, MAX_CHECKPOINT)?;
    let checkpoint = keeping_cosignatures(&renewed, &before);
    if !is_sound || before == checkpoint {
        return Ok(None);
    }
    Ok(Some(Remainder { hashes: Vec::new(), staged: None, checkpoint, before: Some(before) }))
}

/// Writes what the publication of `latest` left to write and removes what nobody reads any more. Returns whether
/// anything was missing.
pub fn complete(store: &dyn StoreMut, chain: &Chain, latest: &Latest) -> Result<bool, PublishError> {
    let remainder = remainder(store, chain, latest)?;
    match remainder.as_ref().map_or(Ok(()), |remainder| remainder.write(store)) {
        // Where there is no lock, others may have completed this and gone on: theirs is never put back.
        Err(PublishError::Store(StoreError::Conflict { .. } | StoreError::NotFound { .. }))
            if is_overtaken(store, chain, latest) => {}
        done => done?,
    }
    for Listed { path, .. } in store.list()? {
        if is_stale(&path, latest) {
            store.remove(&path)?;
        }
    }
    Ok(remainder.is_some())
}

/// Completes what was committed a moment ago. Where there is no lock, somebody who published on top of it may have done so
/// already and taken away what was staged.
pub(crate) fn complete_own(store: &dyn StoreMut, chain: &Chain, latest: &Latest) -> Result<(), PublishError> {
    match complete(store, chain, latest) {
        Err(PublishError::Store(StoreError::NotFound { .. }) | PublishError::Fork { .. })
            if is_overtaken(store, chain, latest) =>
        {
            Ok(())
        }
        done => done.map(drop),
    }
}

/// Tells whether the log that `latest` commits is complete: the checkpoint at its standard place is that one or a later one.
fn is_overtaken(store: &dyn Store, chain: &Chain, latest: &Latest) -> bool {
    let standing = standing_checkpoint(store, chain).ok().flatten();
    standing.is_some_and(|Standing { checkpoint, .. }| {
        checkpoint.size > latest.log_size
            || (checkpoint.size == latest.log_size && checkpoint.root == latest.log_root)
    })
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
    // Behind a thief's version comes 1, which somebody may be about to commit; behind that, the thief's are read by nobody.
    let of_thief = |version: u64| version > PLAUSIBLE_VERSION;
    version.is_some_and(|version| {
        (version.saturating_add(1) < latest.version && of_thief(version) == of_thief(latest.version))
            || (of_thief(version) && !of_thief(latest.version))
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
    let Some(remainder) = remainder(store, chain, latest)? else { return Ok((Overlay::plain(store), false)) };
    let mut files: BTreeMap<String, Vec<u8>> = remainder.hashes.into_iter().collect();
    files.insert(CHECKPOINT.to_owned(), remainder.checkpoint);
    Ok((Overlay::new(store, files, remainder.staged), true))
}
