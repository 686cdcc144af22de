//! Whether a copy is what it was, or has to be made anew.

use crate::latest::Latest;
use crate::log::{CHECKPOINT, LogReader, Tile};
use crate::merkle::{self, Hashes, node_hash};
use crate::reader::open_snapshot;
use crate::store::StoreMut;

/// Tells whether every file of a copy is there and the hashes lead to its roots. Where not, it is made anew.
pub(super) fn is_whole(to: &dyn StoreMut, here: &Latest) -> bool {
    let is_there = |tile: Tile| to.open(&tile.path()).or_else(|_| to.open(&tile.full().path())).is_ok();
    let leads_there = || {
        let reader = LogReader::new(to, here.log_size);
        merkle::root(&reader, here.log_size).is_ok_and(|root| root == here.log_root)
    };
    let snapshot = || open_snapshot(to, here).is_ok();
    to.open(CHECKPOINT).is_ok() && Tile::all(here.log_size).all(is_there) && leads_there() && snapshot()
}

/// Tells whether every hash of every tile is that of the tile below. With the root that they lead to and the entries, which
/// are read when something is added, nothing in a log can be another than it was.
pub(super) fn tiles_hold(to: &dyn StoreMut, here: &Latest) -> bool {
    let reader = LogReader::new(to, here.log_size);
    let holds = |level: u8, index: u64| {
        let half = |index| reader.hash(level - 1, index).ok();
        let (left, right) = (half(index * 2), half(index * 2 + 1));
        let above = left.zip(right).map(|(left, right)| node_hash(&left, &right));
        above.is_some() && above == reader.hash(level, index).ok()
    };
    let levels =
        (8..64).step_by(8).map_while(|level| Some((level, here.log_size >> level)).filter(|of| of.1 > 0));
    levels.into_iter().all(|(level, width)| (0..width).all(|index| holds(level, index)))
}
