//! Files of the log and of the snapshot, cut, swapped, padded and gone, by somebody without a key.

use super::content::{with, without};
use super::honest::History;
use super::thief::latest_of;
use super::{Case, case};
use crate::support::Memory;

const HASHES: &str = "log/tile/0/000.p/6";
const ENTRIES: &str = "log/tile/entries/000.p/6";
/// Bytes of a tile of the snapshot.
const TILE: usize = 16_384;

pub fn cases(h: &History) -> Vec<Case> {
    [hashes(h), entries(h), snapshot(h)].into_iter().flatten().collect()
}

/// The honest registry with one file edited.
fn edited(h: &History, path: &str, edit: impl FnOnce(&mut Vec<u8>)) -> Memory {
    let mut bytes = h.version(6).get(path);
    edit(&mut bytes);
    with(h, path, bytes)
}

fn hashes(h: &History) -> Vec<Case> {
    // A lookup reads no tile of the log, and sync computes them itself.
    let of = |name, attack, store: Memory, says: &str| {
        case(h, name, attack, store).lookup_grants("tested-two").verify(HASHES, says).sync_heals(6)
    };
    vec![
        of(
            "tile-truncated",
            "A hash tile of the log lost its last hash.",
            edited(h, HASHES, |b| b.truncate(5 * 32)),
            "has the wrong length",
        ),
        of(
            "tile-cut-within-a-hash",
            "A hash tile of the log ends within a hash.",
            edited(h, HASHES, |b| b.truncate(5 * 32 + 7)),
            "has the wrong length",
        ),
        of(
            "tile-padded",
            "Zeros follow a hash tile of the log.",
            edited(h, HASHES, |b| b.extend([0; 32])),
            "has 224 bytes, more than the 192 that are accepted",
        ),
        of(
            "tile-swapped",
            "Two hashes of a tile of the log are swapped.",
            edited(h, HASHES, |b| b.rotate_left(32)),
            "is not what the log's entries lead to",
        ),
        of(
            "tile-missing",
            "A hash tile of the log is gone.",
            without(h, HASHES),
            "is missing or cannot be read",
        ),
    ]
}

fn entries(h: &History) -> Vec<Case> {
    let of = |name, attack, edit: fn(&mut Vec<u8>), verify: &str, kind: &str, says: &str| {
        case(h, name, attack, edited(h, ENTRIES, edit))
            .lookup_grants("tested-two")
            .verify(ENTRIES, verify)
            .sync(kind, says)
    };
    let cut_off = "the bundle is cut off inside entry 5";
    vec![
        of(
            "entries-truncated",
            "A bundle of entries lost its last byte.",
            |b| b.truncate(b.len() - 1),
            cut_off,
            "damaged",
            cut_off,
        ),
        of(
            "entries-padded",
            "An empty entry follows a bundle.",
            |b| b.extend([0, 0]),
            "the bundle holds 7 entries, its name says 6",
            "damaged",
            "the bundle holds 7 entries, its name says 6",
        ),
        of(
            "entries-swapped",
            "The first two entries of a bundle are swapped.",
            |b| {
                let length = |at: usize, b: &[u8]| 2 + usize::from(u16::from_be_bytes([b[at], b[at + 1]]));
                let first = length(0, b);
                let second = length(first, b);
                b[..first + second].rotate_left(first);
            },
            "entry 0 is not the one that was logged",
            "damaged",
            "its entries do not lead to the root that was signed",
        )
        .copy("nothing"),
        of(
            "entry-changed",
            "A number in an entry is changed.",
            |b| {
                let at = b.windows(5).rposition(|five| five == b"1009\n").unwrap();
                b[at..at + 4].copy_from_slice(b"1010");
            },
            "entry 5 is not the one that was logged",
            "entry",
            "entry 5 of the source's log: the signature by `alice.test` does not verify",
        ),
        case(h, "entries-missing", "A bundle of entries is gone.", without(h, ENTRIES))
            .lookup_grants("tested-two")
            .verify(ENTRIES, "is missing, so nothing can be said about the log")
            .sync("moving", "`log/tile/entries/000.p/6` is missing"),
    ]
}

fn snapshot(h: &History) -> Vec<Case> {
    let path = latest_of(h.version(6)).snapshot_path();
    let of = |name, attack, edit: fn(&mut Vec<u8>), says: &str, verify: &str| {
        case(h, name, attack, edited(h, &path, edit))
            .lookup("registry-corrupt", says)
            .verify(&path, verify)
            .sync_heals(6)
    };
    let differs = "is not what the log leads to";
    vec![
        of(
            "snapshot-truncated",
            "The snapshot lost its last tile.",
            |b| b.truncate(b.len() - TILE),
            "it has 32768 bytes, not 49152",
            differs,
        ),
        of(
            "snapshot-padded",
            "A tile of zeros follows the snapshot.",
            |b| b.extend([0; TILE]),
            "it has 65536 bytes, not 49152",
            "goes on behind its end",
        ),
        of(
            "snapshot-tiles-swapped",
            "Index and hashes of the snapshot are swapped.",
            |b| b[TILE..].rotate_left(TILE),
            "its hashes do not lead to the signed root",
            differs,
        ),
        of(
            "snapshot-index-swapped",
            "Two entries of the snapshot's index are swapped.",
            |b| b[TILE..TILE + 4 * 44].rotate_left(2 * 44),
            "is not in the signed tree",
            differs,
        ),
        of(
            "snapshot-index-hides",
            "The wanted key is another one in the snapshot's index.",
            |b| {
                for at in 0..4 {
                    b[TILE + 44 * at] = if at == 0 { 0 } else { 255 };
                }
            },
            "its index hides a record",
            differs,
        ),
        of(
            "snapshot-index-elsewhere",
            "The snapshot's index points outside its records.",
            |b| {
                for at in 0..4 {
                    b[TILE + 44 * at + 32] = 255;
                }
            },
            "its index points outside the records",
            differs,
        ),
        of(
            "snapshot-hash-changed",
            "A leaf hash of the snapshot's tree is changed.",
            |b| {
                for at in 0..4 {
                    b[2 * TILE + 32 * at] ^= 1;
                }
            },
            "is not in the signed tree",
            differs,
        ),
        case(h, "snapshot-missing", "The snapshot is gone.", without(h, &path))
            .lookup("registry-missing", "does not exist")
            .verify(&path, "is missing")
            .sync_heals(6),
    ]
}
