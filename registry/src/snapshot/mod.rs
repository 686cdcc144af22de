//! The snapshot: everything in force, sorted by key, in one file that is searched by positioned reads.
//!
//! ```text
//! header    64 bytes: "capgate snapshot v1\n", zeros, then n and the bytes of all records (u64 each, big-endian)
//! records   one after another, in key order; zeros up to the next 16 KiB
//! index     16 KiB tiles of 372 entries: key (32), offset in the file (u64), length (u32)
//! fences    levels of 16 KiB tiles of 512 keys: the first key of each tile below; up to a level of one tile
//! hashes    16 KiB tiles of the RFC 6962 tree over the records: 256 hashes of one level, then the 128, 64, … 1 above
//! ```
//!
//! A record is everything under one key, so that its inclusion proves that nothing under that key was left out:
//!
//! ```text
//! key (32), count (u16), then per profile: log index (u64), note length (u16), note,
//!                                          1 if revoked else 0, and if revoked: log index (u64), length (u16), note
//! ```
//!
//! Only notes are trusted. Index and fences are hints: a wrong one finds a record that does not prove itself, or
//! neighbours that do not enclose the key. So presence is proven, and so is absence.
//! The file is a function of the log, byte for byte.

mod catalogue;
mod compile;
mod earlier;
mod encoding;
mod layout;
mod reader;
mod shares;
mod standing;

pub use catalogue::{Catalogue, CatalogueError, Change};
pub use compile::{CompileError, Compiled, Entries, compile, compile_beside, recompile};
pub use earlier::Earlier;
pub use encoding::{RawProfile, RawRecord};
pub use reader::{Snapshot, SnapshotError};
pub use standing::Standing;
