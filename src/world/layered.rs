//! A published registry, of which a folder holds what never changes: that much is not fetched again.

use std::cell::Cell;

use capgate_registry::latest;
use capgate_registry::log::Tile;
use capgate_registry::store::{Fill, Listed, ReadAt, Store, StoreError, StoreMut};

/// Reads files that never change from `near` where it has them; everything else, and every write, goes to `far`.
///
/// What is built on is `base`, the `latest.note` that its caller verified: whoever changes the file meanwhile makes the
/// commit fail, and is never built on.
///
/// What a file holds is checked against signed roots by whoever reads it, so a damaged one is an error and never believed.
pub struct Layered<'a> {
    far: &'a dyn StoreMut,
    near: &'a dyn Store,
    /// `None` where nothing was published yet.
    base: Option<Vec<u8>>,
    /// Whether something was committed on top of the base, so that the file counts again.
    committed: Cell<bool>,
}

impl<'a> Layered<'a> {
    /// `far` with `near` before it.
    pub fn new(far: &'a dyn StoreMut, near: &'a dyn Store, base: Option<Vec<u8>>) -> Self {
        Self { far, near, base, committed: Cell::new(false) }
    }
}

/// Full tiles, versions of the trust and snapshots: their names leave no choice of content.
fn never_changes(path: &str) -> bool {
    path.starts_with("trust/")
        || (path.starts_with("snapshot/") && path.ends_with(".snap"))
        || Tile::parse(path).is_some_and(Tile::is_full)
}

impl Store for Layered<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        if path == latest::PATH && !self.committed.get() {
            return self.base.clone().ok_or_else(|| StoreError::NotFound { path: path.to_owned() });
        }
        let near = never_changes(path).then(|| self.near.read(path, cap)).and_then(Result::ok);
        near.map_or_else(|| self.far.read(path, cap), Ok)
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        let near = never_changes(path).then(|| self.near.open(path)).and_then(Result::ok);
        near.map_or_else(|| self.far.open(path), Ok)
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.far.list()
    }
}

impl StoreMut for Layered<'_> {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        self.far.write(fill)
    }

    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        self.far.swap(path, expected, new)?;
        self.committed.set(self.committed.get() || path == latest::PATH);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.far.remove(path)
    }
}
