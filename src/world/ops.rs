//! The few operations by which a folder changes, so that tests can let each of them fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use tracing::debug;

/// What a [`Folder`](super::folder::Folder) does to the disk.
pub trait FileOps {
    /// Makes one folder whose parent exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a file that does not exist yet.
    fn create(&self, path: &Path) -> io::Result<File>;
    /// Writes all the bytes.
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()>;
    /// Waits until what was written is on the disk.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Gives a file its name, in place of whatever had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Waits until the names in a folder are on the disk.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The disk itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl FileOps for Disk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        debug!(path = %path.display(), "create folder");
        fs::create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        debug!(path = %path.display(), "create");
        OpenOptions::new().write(true).create_new(true).open(path)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        debug!(from = %from.display(), to = %to.display(), "rename");
        fs::rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        debug!(path = %path.display(), "remove");
        fs::remove_file(path)
    }
}
