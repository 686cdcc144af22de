//! Numbers at places of a file, or the error that it ends there.

use crate::MachoError;

/// `length` bytes from `offset`.
pub fn bytes<'a>(
    from: &'a [u8],
    offset: usize,
    length: usize,
    within: &'static str,
) -> Result<&'a [u8], MachoError> {
    let end = offset.checked_add(length).ok_or(MachoError::Truncated(within))?;
    from.get(offset..end).ok_or(MachoError::Truncated(within))
}

fn array<const N: usize>(from: &[u8], offset: usize, within: &'static str) -> Result<[u8; N], MachoError> {
    bytes(from, offset, N, within)?.try_into().map_err(|_| MachoError::Truncated(within))
}

/// Little-endian, as in the headers and load commands of every Mac since 2006.
pub fn le32(from: &[u8], offset: usize, within: &'static str) -> Result<u32, MachoError> {
    array(from, offset, within).map(u32::from_le_bytes)
}

/// Little-endian.
pub fn le64(from: &[u8], offset: usize, within: &'static str) -> Result<u64, MachoError> {
    array(from, offset, within).map(u64::from_le_bytes)
}

/// Big-endian, as in universal headers and code signatures.
pub fn be32(from: &[u8], offset: usize, within: &'static str) -> Result<u32, MachoError> {
    array(from, offset, within).map(u32::from_be_bytes)
}

/// Big-endian.
pub fn be64(from: &[u8], offset: usize, within: &'static str) -> Result<u64, MachoError> {
    array(from, offset, within).map(u64::from_be_bytes)
}

/// As an index; a file of more bytes than memory can hold ends early.
pub fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The text from `offset` to the next zero byte or the end.
pub fn text_at(from: &[u8], offset: usize, within: &'static str) -> Result<String, MachoError> {
    let rest = from.get(offset..).ok_or(MachoError::Truncated(within))?;
    let text = rest.split(|&b| b == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}
