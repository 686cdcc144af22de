//! Cosignatures in a registry: added to its checkpoint, and kept where that is signed or fetched anew.

use super::quorum::{cosignatures, is_cosignature};
use crate::log::CHECKPOINT;
use crate::merkle::Hash;
use crate::note::{Note, NoteError, NoteSignature};
use crate::publish::{MAX_CHECKPOINT, PublishError, complete, verified_checkpoint};
use crate::reader::{read_chain, read_latest};
use crate::store::{StoreError, StoreMut};

/// `checkpoint` with the cosignatures of `other` by witnesses that it lacks, as many as there is room for. A checkpoint of another state
/// adds none. They bind the text alone, so it does not matter which signature of the log they stood beside.
pub fn keeping_cosignatures(checkpoint: &[u8], other: &[u8]) -> Vec<u8> {
    let (Ok(note), Ok(more)) = (Note::parse(checkpoint), Note::parse(other)) else {
        return checkpoint.to_vec();
    };
    let mut kept = checkpoint.to_vec();
    if note.text() == more.text() {
        let has = |line: &&NoteSignature| {
            note.signatures().iter().any(|own| own.name() == line.name() && own.hash() == line.hash())
        };
        for signature in cosignatures(&more).filter(|line| !has(line)) {
            kept = with_cosignatures(&kept, [signature]).unwrap_or(kept);
        }
    }
    kept
}

/// Adds signature lines to a signed checkpoint, those that it has already left out; every byte before them stays.
///
/// Errors: those of [`Note::parse`], for the checkpoint as given or as it would become, and [`NoteError::TooLarge`] for
/// one that no reader would read.
pub fn with_cosignatures<'s>(
    checkpoint: &[u8],
    more: impl IntoIterator<Item = &'s NoteSignature>,
) -> Result<Vec<u8>, NoteError> {
    let note = Note::parse(checkpoint)?;
    let mut bytes = checkpoint.to_vec();
    let mut added: Vec<&NoteSignature> = Vec::new();
    for signature in more {
        if !note.signatures().contains(signature) && !added.contains(&signature) {
            bytes.extend_from_slice(signature.line().as_bytes());
            added.push(signature);
        }
    }
    if bytes.len() as u64 > MAX_CHECKPOINT {
        return Err(NoteError::TooLarge { size: bytes.len() });
    }
    Note::parse(&bytes)?;
    Ok(bytes)
}

/// Adds cosignatures of the text `about` to the checkpoint of a published registry, and says how many lines that it had not.
/// The caller has verified them, and holds the store's lock, if it has one.
///
/// A witness cosigns again whenever it is asked, so an older line under the same name and key makes room for the new one.
///
/// Errors: [`PublishError::Superseded`] where another log is in force by now, and those of reading and writing.
pub fn add_cosignatures(
    store: &dyn StoreMut,
    pin: &Hash,
    about: &str,
    lines: &[NoteSignature],
) -> Result<usize, PublishError> {
    let newest = read_chain(store, pin, None)?;
    let latest = read_latest(store, &newest)?;
    let chain = newest.as_of(latest.trust).unwrap_or(newest);
    complete(store, &chain, &latest)?;
    let standing = store.read(CHECKPOINT, MAX_CHECKPOINT)?;
    verified_checkpoint(&standing, &chain)?;
    let problem = |source| PublishError::Note { what: CHECKPOINT.into(), source };
    let note = Note::parse(&standing).map_err(problem)?;
    if note.text() != about {
        return Err(PublishError::Superseded);
    }
    let new: Vec<&NoteSignature> = lines.iter().filter(|line| !note.signatures().contains(line)).collect();
    if new.is_empty() {
        return Ok(0);
    }
    let replaced = |old: &NoteSignature| {
        let same = |line: &&NoteSignature| line.name() == old.name() && line.hash() == old.hash();
        is_cosignature(old) && new.iter().any(same)
    };
    let kept: String =
        note.signatures().iter().filter(|old| !replaced(old)).map(NoteSignature::line).collect();
    let bare = format!("{}\n{kept}", note.text());
    let bytes = with_cosignatures(bare.as_bytes(), new.iter().copied()).map_err(problem)?;
    // Somebody may publish at the same time where there is no lock.
    match store.swap(CHECKPOINT, Some(&standing), &bytes) {
        Ok(()) => Ok(new.len()),
        Err(StoreError::Conflict { .. }) => Err(PublishError::Superseded),
        Err(e) => Err(e.into()),
    }
}
