//! Where a registry's files live, as the registry sees it: a flat set of named byte strings.
//!
//! A folder, a web server and an object store all fit. The traits say what publishing needs of them: whole files that
//! appear at once and one conditional replace. They do no I/O themselves; implementations arrive as arguments.

use std::io::{self, Write};

/// Says why a store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No file has that name.
    #[error("`{path}` is missing")]
    NotFound {
        /// The name inside the store.
        path: String,
    },
    /// The file is larger than a reader accepts.
    #[error("`{path}` has {size} bytes, more than the {cap} that are accepted")]
    TooLarge {
        /// The name inside the store.
        path: String,
        /// Bytes found.
        size: u64,
        /// Bytes accepted.
        cap: u64,
    },
    /// A conditional replace found other content than it expected: somebody else was first.
    #[error("`{path}` was changed by somebody else in the meantime")]
    Conflict {
        /// The name inside the store.
        path: String,
    },
    /// The medium failed.
    #[error("`{path}`: {source}")]
    Io {
        /// The name inside the store.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    /// Wraps a failure of the medium with the name it happened at.
    pub fn io(path: &str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound {
            return Self::NotFound { path: path.to_owned() };
        }
        Self::Io { path: path.to_owned(), source }
    }

    /// Tells whether the file simply does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// Reads one open file at chosen positions, into buffers the caller owns.
pub trait ReadAt {
    /// Fills `buffer` from byte `offset`; fewer bytes are an error.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Length in bytes when it was opened.
    fn size(&self) -> u64;
}

/// One file in a listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Name inside the store, parts separated by `/`.
    pub path: String,
    /// Bytes.
    pub size: u64,
}

/// Reads a registry.
pub trait Store {
    /// The whole file, refused when it has more than `cap` bytes.
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError>;
    /// The file, opened once, for positioned reads.
    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError>;
    /// Every file, sorted by name.
    fn list(&self) -> Result<Vec<Listed>, StoreError>;
}

/// Fills a file that is being written and then names it: names hold digests that are known only at the end.
pub type Fill<'a> = dyn FnMut(&mut dyn Write) -> io::Result<String> + 'a;

/// Writes a registry.
pub trait StoreMut: Store {
    /// Makes or replaces a file as a whole: after a failure at any point the old content, or none, is still there.
    /// On return the new content survives a crash. Returns the name that `fill` gave it.
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError>;
    /// Replaces a small file if it still holds `expected` (`None`: if it does not exist), else [`StoreError::Conflict`].
    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError>;
    /// Removes a file; one that is already gone is no error.
    fn remove(&self, path: &str) -> Result<(), StoreError>;

    /// Makes or replaces a file whose name and content are known.
    fn put(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.write(&mut |out| {
            out.write_all(bytes)?;
            Ok(path.to_owned())
        })?;
        Ok(())
    }
}
