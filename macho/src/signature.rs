//! The code signature: a blob of blobs, of which the best code directory gives the hash that the kernel knows.

use sha2::{Digest, Sha256, Sha384};

use crate::MachoError;
use crate::number::{be32, bytes, index};

/// Largest code signature that is read, in bytes: the hashes of a program of two gigabytes, and what else is there.
pub const MAX_SIGNATURE: u32 = 32 << 20;
const MOST_BLOBS: u32 = 64;
const EMBEDDED_SIGNATURE: u32 = 0xfade_0cc0;
const CODE_DIRECTORY: u32 = 0xfade_0c02;
/// Slot of the code directory, and of further ones with other hashes.
const SLOT: u32 = 0;
const ALTERNATES: std::ops::Range<u32> = 0x1000..0x1005;

/// The code directory hash of a program: the first 20 bytes of the hash of its best code directory.
pub type CdHash = [u8; 20];

/// The cdhash that a signature gives, as the kernel chooses it: SHA-384 over SHA-256; SHA-1 alone is none.
///
/// `signature` are the bytes of `LC_CODE_SIGNATURE`. Source: XNU, `cs_blobs.h` and `cs_validate_csblob`.
pub fn cdhash(signature: &[u8]) -> Result<CdHash, MachoError> {
    const WITHIN: &str = "the code signature";
    if be32(signature, 0, WITHIN)? != EMBEDDED_SIGNATURE {
        return Err(MachoError::Malformed("has a code signature that does not begin as one"));
    }
    let all = bytes(signature, 0, index(be32(signature, 4, WITHIN)?), WITHIN)?;
    let count = be32(all, 8, WITHIN)?;
    if count > MOST_BLOBS {
        let (found, most) = (u64::from(count), u64::from(MOST_BLOBS));
        return Err(MachoError::TooLarge { what: "a number of parts in its signature", found, most });
    }
    let mut best: Option<(u8, CdHash)> = None;
    for at in 0..index(count) {
        let slot = be32(all, 12 + at * 8, WITHIN)?;
        if slot != SLOT && !ALTERNATES.contains(&slot) {
            continue;
        }
        let (rank, hash) = directory(all, index(be32(all, 16 + at * 8, WITHIN)?))?;
        match best {
            Some((other, _)) if other == rank && rank > 0 => {
                return Err(MachoError::Malformed("has two code directories of one kind"));
            }
            Some((other, _)) if other > rank => {}
            _ => best = Some((rank, hash)),
        }
    }
    best.filter(|(rank, _)| *rank > 0).map(|(_, hash)| hash).ok_or(MachoError::Unsigned)
}

/// Rank and hash of the code directory at `offset`; rank 0 for hashes that do not count.
fn directory(all: &[u8], offset: usize) -> Result<(u8, CdHash), MachoError> {
    const WITHIN: &str = "a code directory";
    let rest = all.get(offset..).ok_or(MachoError::Truncated(WITHIN))?;
    if be32(rest, 0, WITHIN)? != CODE_DIRECTORY {
        return Err(MachoError::Malformed("has a code directory that does not begin as one"));
    }
    let blob = bytes(rest, 0, index(be32(rest, 4, WITHIN)?), WITHIN)?;
    let kind = *blob.get(37).ok_or(MachoError::Truncated(WITHIN))?;
    let short = |digest: &[u8]| digest.first_chunk::<20>().copied().unwrap_or_default();
    Ok(match kind {
        // SHA-256, SHA-256 truncated, SHA-384: `CS_HASHTYPE_…`.
        2 => (3, short(&Sha256::digest(blob))),
        3 => (2, short(&Sha256::digest(blob))),
        4 => (4, short(&Sha384::digest(blob))),
        _ => (0, [0; 20]),
    })
}
