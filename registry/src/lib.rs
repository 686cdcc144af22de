//! What capgate publishes and how it is trusted.
//!
//! Everything here is pure: bytes, clocks and stores arrive as arguments, nothing is opened, read or printed.

pub mod carry;
pub mod combination;
pub mod document;
#[cfg(feature = "evidence")]
pub mod evidence;
pub mod keys;
pub mod latest;
pub mod log;
pub mod merkle;
pub mod note;
pub mod os;
pub mod profile;
pub mod proof;
pub mod publish;
pub mod reader;
pub mod record;
pub mod seen;
pub mod snapshot;
pub mod store;
pub mod sync;
pub mod text;
pub mod trust;
pub mod verify;
pub mod witness;
