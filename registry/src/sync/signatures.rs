//! Signatures of many entries, by several threads.

use std::num::NonZero;
use std::thread;

use super::source::Theirs;
use super::{BATCH, Ours, SyncError};
use crate::log::LogReader;
use crate::publish::PublishError;
use crate::snapshot::Standing;
use crate::store::StoreMut;
use crate::trust::Chain;

/// Entries that are here already and that a newer version of the trust judges: they were verified under an older one.
pub(super) fn check_rotated(
    to: &dyn StoreMut,
    ours: &Ours,
    theirs: &Theirs,
    threads: NonZero<usize>,
) -> Result<(), SyncError> {
    let size = ours.latest.as_ref().map_or(0, |latest| latest.log_size);
    let known = ours.latest.as_ref().map_or(0, |latest| latest.trust);
    let Some(next) = theirs.chain.as_of(known.saturating_add(1)) else { return Ok(()) };
    let reader = LogReader::new(to, size);
    let first = next.current().log_index.min(size);
    for at in (first..size).step_by(BATCH) {
        let range = at..size.min(at.saturating_add(BATCH as u64));
        let batch: Result<Vec<_>, _> = reader.entries(range).collect();
        check_signatures(at, &batch.map_err(PublishError::from)?, &theirs.chain, threads)?;
    }
    Ok(())
}

/// Whether each of the entries from number `first` on was rightly logged.
pub(super) fn check_signatures(
    first: u64,
    entries: &[Vec<u8>],
    chain: &Chain,
    threads: NonZero<usize>,
) -> Result<(), SyncError> {
    let check = |(first, share): (u64, &[Vec<u8>])| {
        (first..).zip(share).try_for_each(|(index, entry)| {
            Standing::of(entry, index, chain).map(drop).map_err(|what| SyncError::Entry { index, what })
        })
    };
    let width = entries.len().div_ceil(threads.get()).max(1);
    thread::scope(|scope| {
        let start =
            |share| thread::Builder::new().spawn_scoped(scope, move || check(share)).map_err(|_| share);
        let work: Vec<_> = (first..).step_by(width).zip(entries.chunks(width)).map(start).collect();
        work.into_iter().try_for_each(|started| match started {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err(SyncError::Moving("a thread stopped".into()))),
            Err(share) => check(share),
        })
    })
}
