//! What a synchronisation fetched before it was interrupted, kept for the next one.
//!
//! Full bundles of entries never change, so they wait in a hidden folder of the copy until one synchronisation succeeds.
//! Nothing there is believed: entries lead to the signed root, or they are fetched anew.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use capgate_registry::log::{Row, Tile};
use capgate_registry::store::{Listed, ReadAt, Store, StoreError};

use super::file;

/// Its name in the copy.
const FOLDER: &str = ".fetched";

/// A source, of which full bundles are kept.
pub struct Resumed<'a> {
    source: &'a dyn Store,
    folder: PathBuf,
    has_served: Cell<bool>,
}

impl<'a> Resumed<'a> {
    /// Keeps what is fetched from `source` in the folder of its copy.
    pub fn new(source: &'a dyn Store, copy: &Path) -> Self {
        Self { source, folder: copy.join(FOLDER), has_served: Cell::new(false) }
    }

    /// Whether anything came from an earlier synchronisation.
    pub fn has_served(&self) -> bool {
        self.has_served.get()
    }

    /// Forgets everything, since it is in the copy now or of no use. What cannot be removed only takes room.
    pub fn forget(&self) {
        self.has_served.set(false);
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// The file of a full bundle. Its name was parsed, so it leads nowhere else.
    fn place(&self, path: &str) -> Option<PathBuf> {
        let tile = Tile::parse(path).filter(|tile| tile.is_full() && tile.row() == Row::Entries)?;
        Some(self.folder.join(tile.path()))
    }

    /// Not synced to the disk: one that a power cut damaged is fetched anew.
    fn keep(&self, place: &Path, bytes: &[u8]) -> io::Result<()> {
        match fs::create_dir(&self.folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        if !fs::symlink_metadata(&self.folder)?.is_dir() {
            return Err(io::Error::other("is no folder"));
        }
        fs::create_dir_all(place.parent().unwrap_or(&self.folder))?;
        let part = place.with_extension("part");
        fs::write(&part, bytes)?;
        fs::rename(part, place)
    }
}

impl Store for Resumed<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let Some(place) = self.place(path) else { return self.source.read(path, cap) };
        if let Ok(bytes) = file::read_shared(&place, cap) {
            self.has_served.set(true);
            return Ok(bytes);
        }
        let bytes = self.source.read(path, cap)?;
        if let Err(e) = self.keep(&place, &bytes) {
            tracing::debug!(path, "what was fetched cannot be kept: {e}");
        }
        Ok(bytes)
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.source.open(path)
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.source.list()
    }
}
