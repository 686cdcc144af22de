//! Whole files in a folder that others may see or write: each appears at once under its name, no link is followed, and
//! nothing but a regular file is ever replaced.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use capgate_registry::combination::{Hex, Sha256Digest};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use sha2::{Digest, Sha256};

use super::file::random;

/// An open folder. What is done in it stays in it, whatever its path comes to mean.
#[derive(Debug)]
pub struct Place {
    folder: OwnedFd,
}

/// A file under its temporary name; removed when it is dropped.
struct Temporary<'a> {
    place: &'a Place,
    name: String,
    digest: Sha256Digest,
}

impl Place {
    /// Opens a folder. A link in its place is an error.
    pub fn open(path: &Path) -> io::Result<Self> {
        // A slash at the end would make the system follow a link.
        let plain: PathBuf = path.components().collect();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(&plain, flags, Mode::empty()) {
            Ok(folder) => Ok(Self { folder }),
            Err(_) if plain.is_symlink() => Err(io::Error::other("is a link")),
            Err(e) if e == rustix::io::Errno::NOTDIR => Err(io::Error::other("is not a folder")),
            Err(e) => Err(e.into()),
        }
    }

    /// Opens a folder in it, and makes it first where there is none.
    pub fn within(&self, name: &OsStr) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.folder, name, raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, name, flags, Mode::empty()) {
            Ok(folder) => Ok(Self { folder }),
            Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
                Err(io::Error::other(format!("`{}` in it is a link, or no folder", name.to_string_lossy())))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Keeps others that lock it out until the folder is dropped; fails at once where it is locked already.
    pub fn lock(self) -> io::Result<File> {
        let file = File::from(self.folder);
        file.try_lock()?;
        Ok(file)
    }

    /// Puts a file there, in place of a regular file or of nothing.
    pub fn replace(&self, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.refuse_all_but_files(name)?;
        let temporary = self.fill(name, &mut &*bytes, mode)?;
        rustix::fs::renameat(&self.folder, &temporary.name, &self.folder, name)?;
        self.sync()
    }

    /// Puts a new file there and returns the digest of what was read; what is there already stays, and is an error.
    pub fn create(&self, name: &OsStr, from: &mut dyn Read, mode: u32) -> io::Result<Sha256Digest> {
        let temporary = self.fill(name, from, mode)?;
        // Unlike a rename, a link never replaces anything.
        rustix::fs::linkat(&self.folder, &temporary.name, &self.folder, name, AtFlags::empty())?;
        let digest = temporary.digest;
        drop(temporary);
        self.sync()?;
        Ok(digest)
    }

    fn refuse_all_but_files(&self, name: &OsStr) -> io::Result<()> {
        let found = match rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            found => found?,
        };
        let what = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => return Ok(()),
            FileType::Symlink => "is a link",
            FileType::Directory => "is a folder",
            _ => "is not a regular file",
        };
        Err(io::Error::other(format!("{what}, which is never replaced")))
    }

    fn fill(&self, name: &OsStr, from: &mut dyn Read, mode: u32) -> io::Result<Temporary<'_>> {
        let name = format!(".{}.{}", name.to_string_lossy(), Hex::<8>(random()?));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &name, flags, Mode::RUSR | Mode::WUSR)?;
        // From here on it is removed whatever happens.
        let mut temporary = Temporary { place: self, name, digest: Hex([0; 32]) };
        let mut file = File::from(file);
        temporary.digest = copy(from, &mut file)?;
        rustix::fs::fchmod(&file, raw_mode(mode))?;
        file.sync_all()?;
        Ok(temporary)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.folder)?)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = rustix::fs::unlinkat(&self.place.folder, &self.name, AtFlags::empty());
    }
}

/// Files under temporary names of `name` in a folder: somebody writes them right now, or was killed while doing so.
pub fn leftovers(folder: &Path, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_one = |path: &PathBuf| {
        let found = path.file_name().and_then(OsStr::to_str);
        let random = found.and_then(|found| found.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.'));
        random.is_some_and(|random| random.len() == 16 && random.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    entries.map(|entry| entry.path()).filter(is_one).collect()
}

/// Permission bits in the system's own width.
pub fn raw_mode(mode: u32) -> Mode {
    Mode::from_bits_truncate(rustix::fs::RawMode::try_from(mode & 0o7777).unwrap_or_default())
}

fn copy(from: &mut dyn Read, to: &mut File) -> io::Result<Sha256Digest> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0u8; 1 << 17];
    loop {
        let count = from.read(&mut piece)?;
        let part = piece.get(..count).unwrap_or_default();
        if part.is_empty() {
            return Ok(Hex(hasher.finalize().into()));
        }
        hasher.update(part);
        to.write_all(part)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_known_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            [".a.0123456789abcdef", ".a.0123456789abcde", ".ab.0123456789abcdef", "a", ".a.x123456789abcdef"]
        {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(leftovers(folder.path(), "a"), [folder.path().join(".a.0123456789abcdef")]);
        assert!(leftovers(&folder.path().join("none"), "a").is_empty());
    }
}
