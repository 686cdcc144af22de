//! A code directory: the hashes of a program's pages, and what the program is signed as.

use sha2::{Digest, Sha256, Sha384};

use super::CdHash;
use crate::MachoError;
use crate::number::{be32, index, text_at};

const CODE_DIRECTORY: u32 = 0xfade_0c02;
/// Bytes of the oldest form; the team came with version 2.2.
const LEAST: usize = 44;
const WITH_TEAM: u32 = 0x2_0200;

/// The hash that a code directory is made with (`CS_HASHTYPE_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashKind {
    /// SHA-1, which identifies nothing any more.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-256, of which 20 bytes are kept.
    Sha256Truncated,
    /// SHA-384.
    Sha384,
    /// Another, by its number.
    Other(u8),
}

impl HashKind {
    fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Sha1,
            2 => Self::Sha256,
            3 => Self::Sha256Truncated,
            4 => Self::Sha384,
            other => Self::Other(other),
        }
    }

    /// The higher, the better; the kernel's own order.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Other(_) => 0,
            Self::Sha1 => 1,
            Self::Sha256Truncated => 2,
            Self::Sha256 => 3,
            Self::Sha384 => 4,
        }
    }

    fn cdhash(self, blob: &[u8]) -> Option<CdHash> {
        let short = |digest: &[u8]| digest.first_chunk::<20>().copied();
        match self {
            Self::Sha256 | Self::Sha256Truncated => short(&Sha256::digest(blob)),
            Self::Sha384 => short(&Sha384::digest(blob)),
            Self::Sha1 | Self::Other(_) => None,
        }
    }
}

impl std::fmt::Display for HashKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sha1 => f.write_str("SHA-1"),
            Self::Sha256 => f.write_str("SHA-256"),
            Self::Sha256Truncated => f.write_str("SHA-256 (truncated)"),
            Self::Sha384 => f.write_str("SHA-384"),
            Self::Other(number) => write!(f, "hash {number}"),
        }
    }
}

/// How a program is signed and what it lets be done to it (`CS_…` in `cs_blobs.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Signed by nobody: only the hashes are there.
    pub fn adhoc(self) -> bool {
        self.0 & 0x2 != 0
    }

    /// The loader ignores its variables.
    pub fn restrict(self) -> bool {
        self.0 & 0x800 != 0
    }

    /// Only libraries of Apple and of the same team are loaded.
    pub fn library_validation(self) -> bool {
        self.0 & 0x2000 != 0
    }

    /// Hardened runtime: the loader's variables and foreign libraries need entitlements.
    pub fn hardened_runtime(self) -> bool {
        self.0 & 0x1_0000 != 0
    }

    /// The linker signed it as it made it.
    pub fn linker_signed(self) -> bool {
        self.0 & 0x2_0000 != 0
    }
}

/// One code directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeDirectory {
    /// The hash that it is made with.
    pub hash: HashKind,
    /// Its first 20 bytes over this directory; none for a hash that identifies nothing.
    pub cdhash: Option<CdHash>,
    /// How the program is signed.
    pub flags: Flags,
    /// What the program calls itself.
    pub identifier: String,
    /// Whose it is, where a team signed it.
    pub team: Option<String>,
    /// Not 0 for the system's own programs.
    pub platform: u8,
}

impl CodeDirectory {
    pub(super) fn parse(blob: &[u8]) -> Result<Self, MachoError> {
        const WITHIN: &str = "a code directory";
        if be32(blob, 0, WITHIN)? != CODE_DIRECTORY {
            return Err(MachoError::Malformed("has a code directory that does not begin as one"));
        }
        if blob.len() < LEAST {
            return Err(MachoError::Truncated(WITHIN));
        }
        let byte = |at: usize| blob.get(at).copied().ok_or(MachoError::Truncated(WITHIN));
        let hash = HashKind::from_number(byte(37)?);
        let version = be32(blob, 8, WITHIN)?;
        let team = if version >= WITH_TEAM { be32(blob, 48, WITHIN)? } else { 0 };
        Ok(Self {
            hash,
            cdhash: hash.cdhash(blob),
            flags: Flags(be32(blob, 12, WITHIN)?),
            identifier: text_at(blob, index(be32(blob, 20, WITHIN)?), "the identifier of its signature")?,
            team: if team == 0 {
                None
            } else {
                Some(text_at(blob, index(team), "the team of its signature")?)
            },
            platform: byte(38)?,
        })
    }
}
