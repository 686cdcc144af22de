//! The code signature: a blob of blobs, of which the best code directory gives the hash that the kernel knows.

use sha2::{Digest, Sha256, Sha384};

use crate::MachoError;
use crate::number::{be32, bytes, index};

/// Run without the loader's variables, `dlopen` of others' libraries and debuggers: the hardened runtime.
pub const HARDENED: u32 = 0x0001_0000;
/// Loads only libraries of Apple and of its own team.
pub const LIBRARY_VALIDATION: u32 = 0x2000;
/// The loader ignores its variables.
pub const RESTRICT: u32 = 0x800;
/// Signed without a certificate.
pub const ADHOC: u32 = 0x2;
/// Signed by the linker.
pub const LINKER_SIGNED: u32 = 0x0002_0000;

/// Largest code signature that is read, in bytes: the hashes of a program of two gigabytes, and what else is there.
pub const MAX_SIGNATURE: u32 = 32 << 20;
const MOST_BLOBS: u32 = 64;
const EMBEDDED_SIGNATURE: u32 = 0xfade_0cc0;
const CODE_DIRECTORY: u32 = 0xfade_0c02;
/// Slot of the code directory, and of further ones with other hashes.
const SLOT: u32 = 0;
const ALTERNATES: std::ops::Range<u32> = 0x1000..0x1005;
const ENTITLEMENTS: u32 = 5;
const ENTITLEMENTS_MAGIC: u32 = 0xfade_7171;
const SHA384_RANK: u8 = 3;

/// The code directory hash of a program: the first 20 bytes of the hash of its best code directory.
pub type CdHash = [u8; 20];

/// What a code signature says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The code directory hash.
    pub cdhash: CdHash,
    /// Flags of the code directory: [`HARDENED`] and the others.
    pub flags: u32,
    /// What the program calls itself.
    pub identifier: String,
    /// The team that signed it.
    pub team: Option<String>,
    /// Whether it is a part of the system.
    pub is_platform: bool,
    /// Its entitlements: the bytes of a property list in XML.
    pub entitlements: Option<Vec<u8>>,
}

/// The cdhash that a signature gives, as the kernel chooses it: SHA-384 over SHA-256; SHA-1 alone is none.
///
/// `signature` are the bytes of `LC_CODE_SIGNATURE`. Source: XNU, `cs_blobs.h` and `cs_validate_csblob`.
pub fn cdhash(signature: &[u8]) -> Result<CdHash, MachoError> {
    best(&Parts::of(signature)?).map(|(_, hash)| hash)
}

impl Signature {
    /// Reads the bytes of `LC_CODE_SIGNATURE`.
    pub fn parse(signature: &[u8]) -> Result<Self, MachoError> {
        const WITHIN: &str = "a code directory";
        let parts = Parts::of(signature)?;
        let (blob, cdhash) = best(&parts)?;
        let version = be32(blob, 8, WITHIN)?;
        // Teams came with version 0x20200.
        let team = if version >= 0x2_0200 { text_at(blob, be32(blob, 48, WITHIN)?)? } else { None };
        let entitlements = parts.blob(ENTITLEMENTS, ENTITLEMENTS_MAGIC)?;
        Ok(Self {
            cdhash,
            flags: be32(blob, 12, WITHIN)?,
            identifier: text_at(blob, be32(blob, 20, WITHIN)?)?.unwrap_or_default(),
            team,
            is_platform: blob.get(38).is_some_and(|&platform| platform != 0),
            entitlements: entitlements.map(<[u8]>::to_vec),
        })
    }
}

/// The blobs of an embedded signature, each by its slot and offset.
struct Parts<'a> {
    all: &'a [u8],
    slots: Vec<(u32, usize)>,
}

impl<'a> Parts<'a> {
    fn of(signature: &'a [u8]) -> Result<Self, MachoError> {
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
        let slot = |at: usize| Ok((be32(all, 12 + at * 8, WITHIN)?, index(be32(all, 16 + at * 8, WITHIN)?)));
        Ok(Self { all, slots: (0..index(count)).map(slot).collect::<Result<_, MachoError>>()? })
    }

    /// The content of the blob in a slot, behind its magic number and length.
    fn blob(&self, slot: u32, magic: u32) -> Result<Option<&'a [u8]>, MachoError> {
        const WITHIN: &str = "a part of the signature";
        let Some((_, offset)) = self.slots.iter().find(|(other, _)| *other == slot) else { return Ok(None) };
        let rest = self.all.get(*offset..).ok_or(MachoError::Truncated(WITHIN))?;
        if be32(rest, 0, WITHIN)? != magic {
            return Err(MachoError::Malformed("has a part in its signature that does not begin as one"));
        }
        let blob = bytes(rest, 0, index(be32(rest, 4, WITHIN)?), WITHIN)?;
        Ok(blob.get(8..))
    }
}

/// The code directory that counts, and its hash.
fn best<'a>(parts: &Parts<'a>) -> Result<(&'a [u8], CdHash), MachoError> {
    let mut best: Option<(u8, &[u8])> = None;
    for &(slot, offset) in &parts.slots {
        if slot != SLOT && !ALTERNATES.contains(&slot) {
            continue;
        }
        let (rank, blob) = directory(parts.all, offset)?;
        match best {
            Some((other, _)) if other == rank && rank > 0 => {
                return Err(MachoError::Malformed("has two code directories of one kind"));
            }
            Some((other, _)) if other > rank => {}
            _ => best = Some((rank, blob)),
        }
    }
    let (rank, blob) = best.filter(|(rank, _)| *rank > 0).ok_or(MachoError::Unsigned)?;
    let short = |digest: &[u8]| digest.first_chunk::<20>().copied().unwrap_or_default();
    let hash = if rank == SHA384_RANK { short(&Sha384::digest(blob)) } else { short(&Sha256::digest(blob)) };
    Ok((blob, hash))
}

/// Rank and bytes of the code directory at `offset`; rank 0 for hashes that do not count.
fn directory(all: &[u8], offset: usize) -> Result<(u8, &[u8]), MachoError> {
    const WITHIN: &str = "a code directory";
    let rest = all.get(offset..).ok_or(MachoError::Truncated(WITHIN))?;
    if be32(rest, 0, WITHIN)? != CODE_DIRECTORY {
        return Err(MachoError::Malformed("has a code directory that does not begin as one"));
    }
    let blob = bytes(rest, 0, index(be32(rest, 4, WITHIN)?), WITHIN)?;
    let kind = *blob.get(37).ok_or(MachoError::Truncated(WITHIN))?;
    Ok(match kind {
        // `CS_HASHTYPE_…`: SHA-256, SHA-256 truncated, SHA-384.
        2 => (2, blob),
        3 => (1, blob),
        4 => (SHA384_RANK, blob),
        _ => (0, blob),
    })
}

/// The text at `offset`, where there is one, to the next zero byte.
fn text_at(blob: &[u8], offset: u32) -> Result<Option<String>, MachoError> {
    if offset == 0 {
        return Ok(None);
    }
    let rest = blob.get(index(offset)..).ok_or(MachoError::Truncated("a text of the code directory"))?;
    let text = rest.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(text).into_owned()))
}
