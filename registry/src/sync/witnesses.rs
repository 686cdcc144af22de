//! What witnesses cosigned: taken over with the log, and demanded where the site does.

use super::SyncError;
use super::source::Theirs;
use crate::log::CHECKPOINT;
use crate::publish::{MAX_CHECKPOINT, Overlay};
use crate::store::{Store, StoreError, StoreMut};
use crate::witness::{Quorum, keeping_cosignatures, unwitnessed};

/// The source's checkpoint of exactly this state, with the cosignatures that this copy has of it already, if all of them
/// together are what the site demands.
pub(super) fn checked(
    to: &dyn StoreMut,
    theirs: &Theirs,
    log: &Overlay<'_>,
    demand: Option<&Quorum>,
) -> Result<Vec<u8>, SyncError> {
    let here = to.read(CHECKPOINT, MAX_CHECKPOINT).unwrap_or_default();
    let alone = theirs.checkpoint(log)?;
    let together = keeping_cosignatures(&alone, &here);
    let Some(demand) = demand else { return Ok(together) };
    let check = |checkpoint: &[u8]| demand.check(checkpoint, theirs.chain.origin(), &theirs.latest).map(drop);
    match check(&together) {
        Ok(()) => Ok(together),
        // A line that is no signature spoils all, and may have come here while nobody demanded any.
        Err(e) => check(&alone).map(|()| alone).map_err(|_| SyncError::Source(unwitnessed(&e))),
    }
}

/// Witnesses are asked after the commit, so cosignatures may come to a state that is here already.
pub(super) fn follow(
    source: &dyn Store,
    to: &dyn StoreMut,
    theirs: &Theirs,
    demand: Option<&Quorum>,
) -> Result<(), SyncError> {
    let here = to.read(CHECKPOINT, MAX_CHECKPOINT)?;
    let met = demand.is_none_or(|demand| demand.check(&here, theirs.chain.origin(), &theirs.latest).is_ok());
    let checkpoint = match checked(to, theirs, &Overlay::plain(source), demand) {
        Ok(checkpoint) => checkpoint,
        // What is here is enough, and a source that is being written to is met again.
        Err(SyncError::Moving(_) | SyncError::Damaged(_) | SyncError::Fetch(StoreError::NotFound { .. }))
            if met =>
        {
            return Ok(());
        }
        Err(e) => return Err(e),
    };
    if checkpoint != here {
        match to.swap(CHECKPOINT, Some(&here), &checkpoint) {
            // Somebody published there meanwhile: theirs is not put back for a cosignature.
            Err(StoreError::Conflict { .. }) => {}
            done => done?,
        }
    }
    Ok(())
}
