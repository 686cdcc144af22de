//! The slices of a Mach-O file, read through one descriptor: only headers, load commands and signatures.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use capgate_macho::{Commands, MAX_SIGNATURE, MachoError, Range, Slice, header_length};

/// Bytes at a file's start that say which slices it has.
const START: u64 = 4_096;

/// Why a file or a slice of it could not be understood.
#[derive(Debug, thiserror::Error)]
pub enum SliceError {
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no Mach-O, or a malformed one.
    #[error(transparent)]
    Macho(#[from] MachoError),
}

/// The slices of a file of `size` bytes.
pub fn of(file: &File, size: u64) -> Result<Vec<Slice>, SliceError> {
    Ok(capgate_macho::slices(&read(file, 0, size.min(START))?, size)?)
}

/// What one slice says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Its load commands.
    pub commands: Commands,
    /// The bytes of its signature; none where it is not signed.
    pub signature: Option<Vec<u8>>,
}

impl Contents {
    /// Reads it from the file that the slice is of.
    pub fn read(file: &File, slice: &Slice) -> Result<Self, SliceError> {
        let length = header_length(&read(file, slice.offset, slice.size.min(32))?)?;
        if length as u64 > slice.size {
            return Err(MachoError::Truncated("the load commands").into());
        }
        let commands = Commands::parse(&read(file, slice.offset, length as u64)?)?;
        let signature = commands.signature.map(|range| signature(file, slice, range)).transpose()?;
        Ok(Self { commands, signature })
    }
}

fn signature(file: &File, slice: &Slice, range: Range) -> Result<Vec<u8>, SliceError> {
    if range.size > MAX_SIGNATURE {
        let (found, most) = (u64::from(range.size), u64::from(MAX_SIGNATURE));
        return Err(MachoError::TooLarge { what: "a code signature", found, most }.into());
    }
    let end = u64::from(range.offset) + u64::from(range.size);
    // The slice itself was checked to lie within the file.
    match slice.offset.checked_add(range.offset.into()) {
        Some(offset) if end <= slice.size => Ok(read(file, offset, range.size.into())?),
        _ => Err(MachoError::Truncated("the code signature").into()),
    }
}

fn read(file: &File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
