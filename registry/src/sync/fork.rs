//! Two signed histories under one name: told apart from damage, and kept as evidence.

use super::SyncError;
use super::source::Theirs;
use crate::latest::Latest;
use crate::log::{CHECKPOINT, LogReader};
use crate::merkle::{self, Hash};
use crate::publish::work::Work;
use crate::publish::{MAX_CHECKPOINT, Overlay};
use crate::reader::Seen;
use crate::store::{Store, StoreMut};

fn fork(size: u64, ours: Hash, theirs_root: Hash, theirs: &Theirs, log: Option<&Overlay<'_>>) -> SyncError {
    let checkpoint = log.and_then(|log| log.read(CHECKPOINT, MAX_CHECKPOINT).ok()).unwrap_or_default();
    SyncError::Fork { size, ours, theirs: theirs_root, latest: theirs.bytes.clone(), checkpoint }
}

/// The source's log is not longer than ours: is it at least a part of it?
pub(super) fn shorter(to: &dyn StoreMut, here: &Latest, theirs: &Theirs) -> Option<SyncError> {
    let size = theirs.latest.log_size;
    if size > here.log_size {
        return None;
    }
    let reader = LogReader::new(to, here.log_size);
    let ours = merkle::root(&reader, size).ok()?;
    (ours != theirs.latest.log_root).then(|| fork(size, ours, theirs.latest.log_root, theirs, None))
}

/// What was fetched does not lead to the signed root. If the source's own hashes do, and they begin otherwise than ours,
/// it is a fork; else its files are damaged.
pub(super) fn explain(
    to: &dyn StoreMut,
    log: &Overlay<'_>,
    here: Option<&Latest>,
    theirs: &Theirs,
) -> SyncError {
    let damaged = || SyncError::Damaged("its entries do not lead to the root that was signed".into());
    let Some(here) = here else { return damaged() };
    let reader = LogReader::new(log, theirs.latest.log_size);
    if merkle::root(&reader, theirs.latest.log_size).ok() != Some(theirs.latest.log_root) {
        return damaged();
    }
    let Ok(begins) = merkle::root(&reader, here.log_size) else { return damaged() };
    // Read again, since what is here may be what changed.
    let ours = merkle::root(&LogReader::new(to, here.log_size), here.log_size).unwrap_or(here.log_root);
    if begins == ours { damaged() } else { fork(here.log_size, ours, begins, theirs, Some(log)) }
}

/// The same for a log of as many entries as were seen, where the copy that was seen is gone.
pub(super) fn as_seen(seen: &Seen, theirs: &Theirs) -> Option<SyncError> {
    let Latest { log_size, log_root, .. } = theirs.latest;
    let ours = seen.log_root.filter(|&ours| seen.log_size == log_size && ours != log_root)?;
    Some(fork(log_size, ours, log_root, theirs, None))
}

/// Refuses a log whose first `size` entries are not those that were signed or seen here. They are hashed here: whoever made a
/// second history can serve tiles of the first one.
pub(super) fn refuse(
    work: &Work<'_>,
    log: &Overlay<'_>,
    (size, ours): (u64, Hash),
    theirs: &Theirs,
) -> Result<(), SyncError> {
    let begins = work.root_at(size)?;
    if begins == ours {
        return Ok(());
    }
    Err(fork(size, ours, begins, theirs, Some(log)))
}
