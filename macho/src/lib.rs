//! Reads Mach-O files: which slices a file has, what each loads, and the code directory hash that the kernel knows it by.
//!
//! Bytes come in, nothing is read from anywhere. A file is looked at in three steps, so that nobody needs the whole of
//! it: [`slices`] from its first bytes, [`Commands::parse`] from the start of a slice, [`cdhash`] or [`Signature::parse`]
//! from its signature. [`resolve()`] finds the file that a name in it means.
//! Every count, offset and size in a file is a claim: each is capped and checked before it is used.
//!
//! Sources: Apple's `mach-o/loader.h`, `mach-o/fat.h` and `kern/cs_blobs.h` (XNU).

mod commands;
mod cpu;
mod dylib;
mod fat;
mod number;
mod resolve;
mod signature;

pub use commands::{Commands, FileType, Linkedit, Range, Version, header_length};
pub use cpu::Cpu;
pub use dylib::{Dylib, DylibKind};
pub use fat::{Slice, slices};
pub use resolve::{Loader, Resolved, resolve};
pub use signature::{CdHash, CodeDirectory, Flags, HashKind, MAX_SIGNATURE, Signature, cdhash};

/// Says why bytes are no Mach-O file, or not one that is understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachoError {
    /// Another kind of file.
    #[error("is no Mach-O file")]
    NotMacho,
    /// A Mach-O file of a kind that no program here can be: 32 bits, or big-endian.
    #[error("is a Mach-O file of 32 bits or another byte order")]
    Unsupported,
    /// It ends before what its own numbers promise.
    #[error("ends within {0}")]
    Truncated(&'static str),
    /// A number in it is beyond what is accepted.
    #[error("has {what} of {found}, more than the {most} that are accepted")]
    TooLarge {
        /// What the number counts.
        what: &'static str,
        /// The number.
        found: u64,
        /// The most that is accepted.
        most: u64,
    },
    /// Two parts of it contradict each other.
    #[error("{0}")]
    Malformed(&'static str),
    /// It is not signed.
    #[error("has no code signature")]
    Unsigned,
}
