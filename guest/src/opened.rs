//! A regular file that is open: read at places, or as a whole up to a cap.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use capgate_registry::store::ReadAt;

/// An open file, and its length when it was opened.
#[derive(Debug)]
pub struct Opened {
    file: File,
    size: u64,
}

/// Says why a whole file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It has more bytes than are accepted.
    #[error("has {0} bytes or more")]
    TooLarge(u64),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Opened {
    /// Takes an open file that is known to be a regular one.
    pub fn new(file: File, size: u64) -> Self {
        Self { file, size }
    }

    /// All of it, at most `cap` bytes.
    pub fn read(self, cap: u64) -> Result<Vec<u8>, ReadError> {
        if self.size > cap {
            return Err(ReadError::TooLarge(self.size));
        }
        let mut bytes = Vec::new();
        self.file.take(cap.saturating_add(1)).read_to_end(&mut bytes)?;
        // It may have grown since its size was asked.
        let size = bytes.len() as u64;
        if size > cap { Err(ReadError::TooLarge(size)) } else { Ok(bytes) }
    }
}

impl ReadAt for Opened {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn size(&self) -> u64 {
        self.size
    }
}
