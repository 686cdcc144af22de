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
    /// `None` where nothing is kept.
    folder: Option<PathBuf>,
    has_served: Cell<bool>,
}

impl<'a> Resumed<'a> {
    /// Keeps what is fetched from `source` in the folder of its copy, if one is given.
    pub fn new(source: &'a dyn Store, copy: Option<&Path>) -> Self {
        let folder = copy.map(|copy| copy.join(FOLDER));
        Self { source, folder, has_served: Cell::new(false) }
    }

    /// Whether anything came from an earlier synchronisation.
    pub fn has_served(&self) -> bool {
        self.has_served.get()
    }

    /// Forgets everything, since it is in the copy now or of no use. What cannot be removed only takes room.
    pub fn forget(&self) {
        self.has_served.set(false);
        let _ = self.folder.as_ref().map(fs::remove_dir_all);
    }

    /// The folder and the file of a full bundle in it. Its name was parsed, so it leads nowhere else.
    fn place(&self, path: &str) -> Option<(&Path, PathBuf)> {
        let tile = Tile::parse(path).filter(|tile| tile.is_full() && tile.row() == Row::Entries)?;
        let folder = self.folder.as_deref()?;
        Some((folder, folder.join(tile.path())))
    }
}

/// Not synced to the disk: one that a power cut damaged is fetched anew.
fn keep(folder: &Path, place: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    if !fs::symlink_metadata(folder)?.is_dir() {
        return Err(io::Error::other("is no folder"));
    }
    fs::create_dir_all(place.parent().unwrap_or(folder))?;
    let part = place.with_extension("part");
    fs::write(&part, bytes)?;
    fs::rename(part, place)
}

impl Store for Resumed<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let Some((folder, place)) = self.place(path) else { return self.source.read(path, cap) };
        if let Ok(bytes) = file::read_shared(&place, cap) {
            self.has_served.set(true);
            return Ok(bytes);
        }
        let bytes = self.source.read(path, cap)?;
        if let Err(e) = keep(folder, &place, &bytes) {
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
