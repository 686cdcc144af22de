//! Universal files: several programs for different processors behind one header.

use crate::number::{be32, be64, index, le32};
use crate::{Cpu, MachoError};

/// Most slices of a universal file.
const MOST_SLICES: u32 = 16;
const FAT: u32 = 0xcafe_babe;
const FAT_64: u32 = 0xcafe_babf;
pub(crate) const MAGIC_64: u32 = 0xfeed_facf;
const OTHERS: [u32; 5] = [0xfeed_face, 0xcefa_edfe, 0xcffa_edfe, 0xbeba_feca, 0xbfba_feca];

/// One program in a file: the whole of it, or a part of a universal one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The processor it is for.
    pub cpu: Cpu,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// The slices of a file of `size` bytes that begins with `start` (4 KiB are enough for every file).
///
/// A class file of Java begins with the same four bytes as a universal file; its version makes for more slices than are
/// accepted.
pub fn slices(start: &[u8], size: u64) -> Result<Vec<Slice>, MachoError> {
    const WITHIN: &str = "the header";
    let big = be32(start, 0, WITHIN).map_err(|_| MachoError::NotMacho)?;
    let little = le32(start, 0, WITHIN)?;
    if little == MAGIC_64 {
        let cpu = Cpu::from_numbers(le32(start, 4, WITHIN)?, le32(start, 8, WITHIN)?);
        return Ok(vec![Slice { cpu, offset: 0, size }]);
    }
    if OTHERS.contains(&little) && big != FAT && big != FAT_64 {
        return Err(MachoError::Unsupported);
    }
    let row = match big {
        FAT => 20,
        FAT_64 => 32,
        _ => return Err(MachoError::NotMacho),
    };
    let count = be32(start, 4, WITHIN)?;
    if count == 0 || count > MOST_SLICES {
        return Err(MachoError::NotMacho);
    }
    let mut found: Vec<Slice> = Vec::new();
    for at in 0..index(count) {
        let at = 8 + at * row;
        let cpu = Cpu::from_numbers(be32(start, at, WITHIN)?, be32(start, at + 4, WITHIN)?);
        let (offset, length) = if big == FAT {
            (u64::from(be32(start, at + 8, WITHIN)?), u64::from(be32(start, at + 12, WITHIN)?))
        } else {
            (be64(start, at + 8, WITHIN)?, be64(start, at + 16, WITHIN)?)
        };
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(MachoError::Truncated("a slice"));
        }
        if found.iter().any(|other| other.cpu == cpu) {
            return Err(MachoError::Malformed("has two slices for one processor"));
        }
        found.push(Slice { cpu, offset, size: length });
    }
    Ok(found)
}
