//! The code signature: a blob of blobs, of which the best code directory gives the hash that the kernel knows.

mod directory;

pub use directory::{CodeDirectory, Flags, HashKind};

use crate::MachoError;
use crate::number::{be32, bytes, index};

/// Largest code signature that is read, in bytes: the hashes of a program of two gigabytes, and what else is there.
pub const MAX_SIGNATURE: u32 = 32 << 20;
const MOST_BLOBS: u32 = 64;
const EMBEDDED_SIGNATURE: u32 = 0xfade_0cc0;
const ENTITLEMENTS: u32 = 0xfade_7171;
/// Slots: the code directory, further ones with other hashes, entitlements as a property list and as DER.
const DIRECTORY_SLOT: u32 = 0;
const ALTERNATE_SLOTS: std::ops::Range<u32> = 0x1000..0x1005;
const ENTITLEMENTS_SLOT: u32 = 5;
const DER_SLOT: u32 = 7;

/// The code directory hash of a program: the first 20 bytes of the hash of its best code directory.
pub type CdHash = [u8; 20];

/// What a code signature says. It is read, not verified: that is the kernel's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature<'a> {
    /// The code directories, each with another hash.
    pub directories: Vec<CodeDirectory>,
    /// What the program is allowed to, as an XML property list.
    pub entitlements: Option<&'a [u8]>,
    /// Whether entitlements are there as DER too.
    pub has_der_entitlements: bool,
}

impl<'a> Signature<'a> {
    /// Reads the bytes of `LC_CODE_SIGNATURE`.
    pub fn parse(signature: &'a [u8]) -> Result<Self, MachoError> {
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
        let mut parsed = Self { directories: Vec::new(), entitlements: None, has_der_entitlements: false };
        let mut slots = Vec::new();
        for at in 0..index(count) {
            let slot = be32(all, 12 + at * 8, WITHIN)?;
            // A slot counts once, so that no byte is hashed again and again.
            if slots.contains(&slot) {
                return Err(MachoError::Malformed("has two parts of its signature in one place"));
            }
            slots.push(slot);
            parsed.take(all, slot, index(be32(all, 16 + at * 8, WITHIN)?))?;
        }
        Ok(parsed)
    }

    fn take(&mut self, all: &'a [u8], slot: u32, offset: usize) -> Result<(), MachoError> {
        match slot {
            ENTITLEMENTS_SLOT => {
                let blob = blob(all, offset, "its entitlements")?;
                if be32(blob, 0, "its entitlements")? != ENTITLEMENTS {
                    return Err(MachoError::Malformed("has entitlements that do not begin as such"));
                }
                self.entitlements = blob.get(8..);
            }
            DER_SLOT => self.has_der_entitlements = true,
            _ if slot == DIRECTORY_SLOT || ALTERNATE_SLOTS.contains(&slot) => {
                let directory = CodeDirectory::parse(blob(all, offset, "a code directory")?)?;
                if self.directories.iter().any(|other| other.hash == directory.hash) {
                    return Err(MachoError::Malformed("has two code directories of one kind"));
                }
                self.directories.push(directory);
            }
            _ => {}
        }
        Ok(())
    }

    /// The code directory that counts, as the kernel ranks them: SHA-384, SHA-256, SHA-256 cut short.
    pub fn best(&self) -> Option<&CodeDirectory> {
        self.directories.iter().filter(|d| d.cdhash.is_some()).max_by_key(|directory| directory.hash.rank())
    }
}

/// A part of the signature that begins with its kind and its length.
fn blob<'a>(all: &'a [u8], offset: usize, within: &'static str) -> Result<&'a [u8], MachoError> {
    let rest = all.get(offset..).ok_or(MachoError::Truncated(within))?;
    let length = index(be32(rest, 4, within)?);
    if length < 8 {
        return Err(MachoError::Malformed("has a part of its signature without length"));
    }
    bytes(rest, 0, length, within)
}

/// The cdhash that a signature gives, as the kernel chooses it.
///
/// `signature` are the bytes of `LC_CODE_SIGNATURE`. The kernel still takes SHA-1 where there is nothing else; here that
/// is no identity, since two programs can be made to share one. Source: XNU, `cs_blobs.h` and `cs_validate_csblob`.
pub fn cdhash(signature: &[u8]) -> Result<CdHash, MachoError> {
    Signature::parse(signature)?.best().and_then(|directory| directory.cdhash).ok_or(MachoError::Unsigned)
}
