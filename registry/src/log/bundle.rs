//! Entry bundles: up to 256 entries, each after its length as two bytes, most significant first (C2SP tlog-tiles,
//! "Entry bundles").

use super::TILE_WIDTH;

/// Longest entry in bytes.
pub const MAX_ENTRY: usize = u16::MAX as usize;

/// Says why bytes are no entry bundle, or entries fit in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// The bytes end inside an entry or its length.
    #[error("the bundle is cut off inside entry {entry}")]
    CutOff {
        /// Which entry of the bundle, from 0.
        entry: usize,
    },
    /// Not the number of entries that the bundle's name says.
    #[error("the bundle holds {found} entries, its name says {expected}")]
    Count {
        /// Entries found; 257 stands for any more.
        found: usize,
        /// Entries that the name says.
        expected: usize,
    },
    /// An entry is longer than [`MAX_ENTRY`].
    #[error("entry {entry} has {size} bytes, more than the {MAX_ENTRY} that a bundle can hold")]
    TooLong {
        /// Which entry, from 0.
        entry: usize,
        /// Its bytes.
        size: usize,
    },
}

/// Joins entries to one bundle.
///
/// Errors: [`BundleError::TooLong`], [`BundleError::Count`] for none or more than 256.
pub fn encode_bundle<E: AsRef<[u8]>>(entries: &[E]) -> Result<Vec<u8>, BundleError> {
    let most = usize::try_from(TILE_WIDTH).unwrap_or(usize::MAX);
    if entries.is_empty() || entries.len() > most {
        return Err(BundleError::Count { found: entries.len(), expected: most });
    }
    let mut bytes = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        push(&mut bytes, entry.as_ref(), at)?;
    }
    Ok(bytes)
}

/// Appends one entry, number `at`, to a bundle that is being built.
fn push(bundle: &mut Vec<u8>, entry: &[u8], at: usize) -> Result<(), BundleError> {
    let too_long = |_| BundleError::TooLong { entry: at, size: entry.len() };
    let length = u16::try_from(entry.len()).map_err(too_long)?;
    bundle.extend_from_slice(&length.to_be_bytes());
    bundle.extend_from_slice(entry);
    Ok(())
}

/// Splits a bundle of exactly `width` entries; nothing may be left over.
///
/// Errors: [`BundleError::CutOff`], [`BundleError::Count`].
pub fn decode_bundle(bytes: &[u8], width: u64) -> Result<Vec<&[u8]>, BundleError> {
    let expected = usize::try_from(width).unwrap_or(usize::MAX);
    let mut entries = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() && entries.len() as u64 <= TILE_WIDTH {
        let cut_off = BundleError::CutOff { entry: entries.len() };
        let (length, behind) = rest.split_first_chunk::<2>().ok_or(cut_off)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (entry, behind) = behind.split_at_checked(length).ok_or(cut_off)?;
        entries.push(entry);
        rest = behind;
    }
    // Behind the 257th entry nothing was looked at, so not even a caller who asks for that many gets them.
    if entries.len() != expected || width > TILE_WIDTH {
        return Err(BundleError::Count { found: entries.len(), expected });
    }
    Ok(entries)
}
