//! A registry in a folder: whole files that appear at once, and one conditional replace.
//!
//! A file is written under `.tmp`, synced, renamed to its name, and its folder synced. Whoever changes the registry
//! holds the lock on `.lock`. Names that begin with a dot are the folder's own and are never part of the registry.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use capgate_guest::opened::{Opened, ReadError};
use capgate_registry::store::{Fill, Listed, ReadAt, Store, StoreError, StoreMut};

use super::file::careful;
use super::ops::{Disk, FileOps};

/// How long [`Folder::lock`] waits for another publication.
pub const PATIENCE: Duration = Duration::from_secs(20);

const TEMPORARY: &str = ".tmp";
const LOCK: &str = ".lock";

/// A registry in a folder.
#[derive(Debug)]
pub struct Folder<O = Disk> {
    root: PathBuf,
    ops: O,
}

/// Says why the lock was not got.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else held it all the time.
    #[error("another publication is running on `{}`", .0.display())]
    Busy(PathBuf),
    /// The lock file cannot be used.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// The lock file, or what an earlier publication left.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct Lock(#[allow(dead_code, reason = "closing the file gives the lock back")] File);

impl Folder {
    /// The registry in that folder, which must exist by the time it is used.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with_ops(root, Disk)
    }
}

impl<O: FileOps> Folder<O> {
    /// The same, with other operations.
    pub fn with_ops(root: impl Into<PathBuf>, ops: O) -> Self {
        Self { root: root.into(), ops }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Waits until no other publication runs, removes the temporary files that an interrupted one left, and keeps
    /// others out.
    pub fn lock(&self, patience: Duration) -> Result<Lock, LockError> {
        let path = self.root.join(LOCK);
        let error = |source| LockError::Io { path: path.clone(), source };
        let open = || {
            OpenOptions::new().write(true).create(true).truncate(false).custom_flags(careful()).open(&path)
        };
        let file = open().map_err(error)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(e)) => return Err(error(e)),
                Err(TryLockError::WouldBlock) if start.elapsed() >= patience => {
                    return Err(LockError::Busy(self.root.clone()));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        self.sweep().map_err(error)?;
        Ok(Lock(file))
    }

    fn sweep(&self) -> io::Result<()> {
        self.refuse_link()?;
        let entries = match fs::read_dir(self.root.join(TEMPORARY)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            self.ops.remove(&entry?.path())?;
        }
        Ok(())
    }

    /// The file behind a name; `None` for a name that could lead out of the folder or into its hidden part.
    fn resolve(&self, path: &str) -> Result<PathBuf, StoreError> {
        if is_name(path) {
            Ok(self.root.join(path))
        } else {
            Err(StoreError::Io {
                path: path.to_owned(),
                source: io::Error::other("is no name inside a registry"),
            })
        }
    }

    /// Opens a regular file without following any link below the root.
    fn open_file(&self, path: &str) -> Result<Opened, StoreError> {
        let full = self.resolve(path)?;
        let error = |source| StoreError::io(path, source);
        for (at, _) in path.match_indices('/') {
            let folder = self.root.join(path.get(..at).unwrap_or_default());
            if fs::symlink_metadata(folder).map_err(error)?.is_symlink() {
                return Err(error(io::Error::other("lies behind a link")));
            }
        }
        let is_link = || fs::symlink_metadata(&full).is_ok_and(|metadata| metadata.is_symlink());
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(careful())
            .open(&full)
            .map_err(|e| if is_link() { error(io::Error::other("is a link")) } else { error(e) })?;
        let metadata = file.metadata().map_err(error)?;
        if !metadata.is_file() {
            return Err(error(io::Error::other("is not a regular file")));
        }
        Ok(Opened::new(file, metadata.len()))
    }

    /// Has the disk hold what its folders name, whoever made them and was killed before they were synced.
    pub fn settle(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                self.ops.sync_dir(&entry.path())?;
            }
        }
        self.ops.sync_dir(&self.root)
    }

    /// Makes the folders that lead to `path`, each synced into its parent.
    fn create_parents(&self, path: &str) -> io::Result<()> {
        for (at, _) in path.match_indices('/') {
            self.create_folder(&self.root.join(path.get(..at).unwrap_or_default()))?;
        }
        Ok(())
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        match fs::symlink_metadata(folder) {
            Ok(metadata) if metadata.is_dir() => return Ok(()),
            Ok(_) => {
                return Err(io::Error::other("a folder is needed here, and something else is in its place"));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        match self.ops.create_dir(folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        self.ops.sync_dir(folder.parent().unwrap_or(&self.root))
    }

    /// A link would lead what is removed, and what is written, to somewhere else.
    fn refuse_link(&self) -> io::Result<()> {
        match self.root.join(TEMPORARY).symlink_metadata() {
            Ok(metadata) if !metadata.is_dir() => {
                Err(io::Error::other(format!("`{TEMPORARY}` in it is no folder: remove it")))
            }
            _ => Ok(()),
        }
    }

    fn temporary(&self) -> io::Result<PathBuf> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        self.refuse_link()?;
        self.create_folder(&self.root.join(TEMPORARY))?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(self.root.join(TEMPORARY).join(format!("{}-{number}", std::process::id())))
    }

    fn fill(&self, file: File, fill: &mut Fill<'_>) -> io::Result<String> {
        let mut out = BufWriter::with_capacity(1 << 16, Through { file, ops: &self.ops });
        let name = fill(&mut out)?;
        out.flush()?;
        let through = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.ops.sync(&through.file)?;
        Ok(name)
    }

    fn place(&self, temporary: &Path, name: &str) -> Result<(), StoreError> {
        let full = self.resolve(name)?;
        let placed = self.create_parents(name).and_then(|()| {
            self.ops.rename(temporary, &full)?;
            self.ops.sync_dir(full.parent().unwrap_or(&self.root))
        });
        placed.map_err(|e| StoreError::io(name, e))
    }

    fn list_into(&self, folder: &Path, prefix: &str, listed: &mut Vec<Listed>) -> Result<(), StoreError> {
        let here = if prefix.is_empty() { "." } else { prefix.trim_end_matches('/') };
        let error = |source| StoreError::io(here, source);
        for entry in fs::read_dir(folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let name = entry.file_name();
            let name =
                name.to_str().ok_or_else(|| error(io::Error::other("holds a name that is not UTF-8")))?;
            if name.starts_with('.') {
                continue;
            }
            let path = format!("{prefix}{name}");
            let metadata = fs::symlink_metadata(entry.path()).map_err(|e| StoreError::io(&path, e))?;
            if metadata.is_dir() {
                self.list_into(&entry.path(), &format!("{path}/"), listed)?;
            } else if metadata.is_file() {
                listed.push(Listed { path, size: metadata.len() });
            } else {
                let what = if metadata.is_symlink() { "is a link" } else { "is not a regular file" };
                return Err(StoreError::Io { path, source: io::Error::other(what) });
            }
        }
        Ok(())
    }
}

/// Tells whether that is a name inside a registry: no part of it is empty, hidden, or could mean another place.
pub(crate) fn is_name(path: &str) -> bool {
    let good = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']);
    path.split('/').all(good)
}

/// Hands every write to the operations.
struct Through<'a, O> {
    file: File,
    ops: &'a O,
}

impl<O: FileOps> Write for Through<'_, O> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.ops.write(&mut self.file, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<O: FileOps> Store for Folder<O> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        self.open_file(path)?.read(cap).map_err(|e| match e {
            ReadError::TooLarge(size) => StoreError::TooLarge { path: path.to_owned(), size, cap },
            ReadError::Io(e) => StoreError::io(path, e),
        })
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        Ok(Box::new(self.open_file(path)?))
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let mut listed = Vec::new();
        self.list_into(&self.root, "", &mut listed)?;
        listed.sort();
        Ok(listed)
    }
}

impl<O: FileOps> StoreMut for Folder<O> {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        let error = |source| StoreError::io("a temporary file", source);
        let temporary = self.temporary().map_err(error)?;
        let file = self.ops.create(&temporary).map_err(error)?;
        let placed = self.fill(file, fill).map_err(error).and_then(|name| {
            self.place(&temporary, &name)?;
            Ok(name)
        });
        if placed.is_err() {
            // What this cannot remove, the next holder of the lock does.
            let _ = self.ops.remove(&temporary);
        }
        placed
    }

    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        let cap = expected.map_or(0, |bytes| bytes.len() as u64);
        let found = match self.read(path, cap) {
            Ok(bytes) => Some(bytes),
            Err(e) if e.is_not_found() => None,
            Err(StoreError::TooLarge { .. }) => return Err(StoreError::Conflict { path: path.to_owned() }),
            Err(e) => return Err(e),
        };
        if found.as_deref() != expected {
            return Err(StoreError::Conflict { path: path.to_owned() });
        }
        self.put(path, new)
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        let full = self.resolve(path)?;
        match self.ops.remove(&full) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path, e)),
            _ => Ok(()),
        }
    }
}
