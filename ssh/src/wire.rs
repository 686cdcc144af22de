//! Numbers and strings as SSH writes them: big-endian, each string behind its length (RFC 4251 §5).

/// The bytes end before what their own lengths promise, or go on behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short;

/// Takes fields off the front of bytes.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn byte(&mut self) -> Result<u8, Short> {
        let (&first, rest) = self.rest.split_first().ok_or(Short)?;
        self.rest = rest;
        Ok(first)
    }

    pub fn number(&mut self) -> Result<u32, Short> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(Short)?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*first))
    }

    pub fn string(&mut self) -> Result<&'a [u8], Short> {
        let length = usize::try_from(self.number()?).map_err(|_| Short)?;
        let (string, rest) = self.rest.split_at_checked(length).ok_or(Short)?;
        self.rest = rest;
        Ok(string)
    }

    /// What was not taken yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Nothing may be left.
    pub fn finish(&self) -> Result<(), Short> {
        if self.rest.is_empty() { Ok(()) } else { Err(Short) }
    }
}

/// Appends a string; one of 4 GiB or more is never made here.
pub fn put_string(to: &mut Vec<u8>, string: &[u8]) {
    let length = u32::try_from(string.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(string);
}
