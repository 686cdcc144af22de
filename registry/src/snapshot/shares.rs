//! Work on a list in shares, one a thread.

use std::num::NonZero;
use std::thread;

/// Applies `work` to each item, given its position, and keeps the order. Where no thread can be had, this one works; where
/// one stopped, the result is shorter than the list.
pub(super) fn in_shares<I: Sync, T: Send>(
    items: &[I],
    threads: NonZero<usize>,
    work: &(impl Fn(usize, &I) -> T + Sync),
) -> Vec<T> {
    let do_share = |(first, share): (usize, &[I])| -> Vec<T> {
        (first..).zip(share).map(|(at, item)| work(at, item)).collect()
    };
    let width = items.len().div_ceil(threads.get()).max(1);
    if width == items.len() {
        return do_share((0, items));
    }
    thread::scope(|scope| {
        let start =
            |share| thread::Builder::new().spawn_scoped(scope, move || do_share(share)).map_err(|_| share);
        let started: Vec<_> = (0..).step_by(width).zip(items.chunks(width)).map(start).collect();
        let finish = |started: Result<thread::ScopedJoinHandle<'_, Vec<T>>, _>| match started {
            Ok(thread) => thread.join().unwrap_or_default(),
            Err(share) => do_share(share),
        };
        started.into_iter().flat_map(finish).collect()
    })
}
