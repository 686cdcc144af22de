//! Bundles for tests: a folder on disk, and one in memory that tests can change.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

pub mod sound;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use capgate_registry::evidence::bundle::BundleFiles;
use capgate_registry::store::StoreError;

/// A folder on disk.
pub struct Folder(pub PathBuf);

/// A folder in memory.
#[derive(Default, Clone)]
pub struct Memory {
    /// Contents by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Paths that are links.
    pub links: Vec<String>,
}

impl Folder {
    /// Reads everything in it.
    pub fn into_memory(self) -> Memory {
        let paths = self.list().unwrap_or_default();
        let files = paths
            .into_iter()
            .filter_map(|path| Some((path.clone(), std::fs::read(self.0.join(&path)).ok()?)));
        Memory { files: files.collect(), links: Vec::new() }
    }
}

impl BundleFiles for Folder {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        let entries = std::fs::read_dir(&self.0).map_err(|error| StoreError::io(".", error))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.collect())
    }

    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let bytes = std::fs::read(self.0.join(path)).map_err(|error| StoreError::io(path, error))?;
        within(path, bytes, cap)
    }

    fn is_link(&self, path: &str) -> bool {
        Path::is_symlink(&self.0.join(path))
    }
}

impl BundleFiles for Memory {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.files.keys().chain(&self.links).cloned().collect())
    }

    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let bytes =
            self.files.get(path).cloned().ok_or_else(|| StoreError::NotFound { path: path.to_owned() })?;
        within(path, bytes, cap)
    }

    fn is_link(&self, path: &str) -> bool {
        self.links.iter().any(|link| link == path)
    }
}

fn within(path: &str, bytes: Vec<u8>, cap: u64) -> Result<Vec<u8>, StoreError> {
    let size = bytes.len() as u64;
    if size > cap { Err(StoreError::TooLarge { path: path.to_owned(), size, cap }) } else { Ok(bytes) }
}
