//! The append-only log: C2SP tlog-tiles under `log/`, with a C2SP tlog-checkpoint on top.
//!
//! ```text
//! log/checkpoint                    signed note: origin, size, root
//! log/tile/0/x001/234               256 leaf hashes, numbers 1234·256 and on, 32 bytes each
//! log/tile/1/000.p/5                the 5 hashes of complete level-0 tiles that there are so far
//! log/tile/entries/x001/234         256 entries, each after its length as two bytes, most significant first
//! ```
//!
//! An entry is the exact bytes of a signed note and is hashed as an RFC 6962 leaf. Tiles hold nothing that could not be
//! computed from the entries. Nothing that is read here is trusted for itself: compare with a root that was signed.

mod append;
mod bundle;
mod checkpoint;
mod reader;
mod tile;

use crate::merkle::{BuildError, ProofError};
use crate::store::StoreError;

pub use append::{Appender, Extension, append};
pub use bundle::{BundleError, MAX_ENTRY, decode_bundle, encode_bundle};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use reader::LogReader;
pub use tile::{Row, TILE_WIDTH, Tile, decode_hashes, encode_hashes};

/// Where the checkpoint stands.
pub const CHECKPOINT: &str = "log/checkpoint";
/// Most entries in a log; Go's `tlog` counts in signed 64-bit numbers.
pub const MAX_SIZE: u64 = i64::MAX as u64;

/// Says why the log could not be read or continued.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file is missing, too large or unreadable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A hash tile has another length than its width asks for.
    #[error("`{path}` has {found} bytes, {expected} are needed")]
    TileLength {
        /// Name of the tile.
        path: String,
        /// Bytes found.
        found: usize,
        /// Bytes needed.
        expected: usize,
    },
    /// An entry bundle is malformed.
    #[error("`{path}`: {problem}")]
    Bundle {
        /// Name of the bundle.
        path: String,
        /// What is wrong with it.
        problem: BundleError,
    },
    /// An entry that is asked for is not in the log.
    #[error("entry {index} is outside a log of {size} entries")]
    Range {
        /// Index of the entry, from 0.
        index: u64,
        /// Entries in the log.
        size: u64,
    },
    /// A subtree that is asked for is not complete in the log.
    #[error("subtree {index} on level {level} is not complete in a log of {size} entries")]
    Subtree {
        /// Level of the subtree.
        level: u8,
        /// Its index on that level.
        index: u64,
        /// Entries in the log.
        size: u64,
    },
    /// The tiles lead to another root than the one that was signed.
    #[error("the tiles of the log do not lead to the root {root} of its {size} entries")]
    Root {
        /// Entries in the log.
        size: u64,
        /// The root that is trusted.
        root: crate::merkle::Hash,
    },
    /// An entry is not what the log's hash of it says.
    #[error("entry {index} is not the one that the log's tiles say")]
    Entry {
        /// Index of the entry.
        index: u64,
    },
    /// An entry to append is too long for a bundle.
    #[error("an entry of {size} bytes is longer than the {MAX_ENTRY} that a bundle can hold")]
    TooLong {
        /// Bytes of the entry.
        size: usize,
    },
    /// The log would have more than [`MAX_SIZE`] entries.
    #[error("a log has at most {MAX_SIZE} entries")]
    Full,
    /// A proof over the tiles does not hold.
    #[error(transparent)]
    Proof(#[from] ProofError),
}

impl From<BuildError<LogError>> for LogError {
    fn from(error: BuildError<LogError>) -> Self {
        match error {
            BuildError::Proof(error) => Self::Proof(error),
            BuildError::Hashes(error) => error,
        }
    }
}
