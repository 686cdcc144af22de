//! The prefix: the folder that capgate was installed in, and the files of its state, each of them checked.
//!
//! A file counts only if it and every folder above it belong to root or this user, nobody else may write them, and no
//! link stands on the way. With that, only those two can change which file a path names between a check and its use.

use std::cell::RefCell;
use std::ffi::CString;
use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use capgate_registry::store::{Listed, ReadAt, Store, StoreError};

use crate::opened::{Opened, ReadError};
use crate::system;

/// What others could do to a state file, or that it is not there as what it should be.
#[derive(Debug, thiserror::Error)]
#[error("`{}` {what}", path.display())]
pub struct Unsafe {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// Whether it merely does not exist.
    pub missing: bool,
}

impl Unsafe {
    fn new(path: &Path, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), what: what.into(), missing: false }
    }

    fn io(path: &Path, error: &io::Error) -> Self {
        let missing = error.kind() == io::ErrorKind::NotFound;
        let what = if missing { "does not exist".to_owned() } else { format!("cannot be read: {error}") };
        Self { path: path.to_owned(), what, missing }
    }
}

/// The library's file name.
pub const LIBRARY: &str = if cfg!(target_os = "macos") { "libcapgate.dylib" } else { "libcapgate.so" };

/// A library that is to be loaded into a process: like a state file, it and every folder above it belong to root or
/// this user, nobody else may write them, and no link stands on the way.
pub fn check_library(path: &Path) -> Result<(), Unsafe> {
    check_plain(path)?;
    // The loader's variable has no way to quote them.
    let separators: &[u8] = if cfg!(target_os = "macos") { b":" } else { b": " };
    if path.as_os_str().as_bytes().iter().any(|byte| separators.contains(byte)) {
        return Err(Unsafe::new(path, "has a character in its path that separates libraries for the loader"));
    }
    check_folders(path.parent().unwrap_or(path))?;
    let metadata = fs::symlink_metadata(path).map_err(|e| Unsafe::io(path, &e))?;
    check(path, &metadata, metadata.is_file(), "is not a regular file")?;
    // Readable too: the loader ends a program whose inserted library it cannot open. What stands there may be something
    // else by now, which must not be waited for.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map(drop).map_err(|e| Unsafe::io(path, &e))
}

/// An installed prefix whose own folders passed every check.
#[derive(Debug, Clone)]
pub struct Prefix {
    root: PathBuf,
    /// Folders below it that passed, each asked once: only those who may write there could change them since.
    passed: RefCell<Vec<PathBuf>>,
}

impl Prefix {
    /// The prefix at an absolute path.
    pub fn at(path: &Path) -> Result<Self, Unsafe> {
        check_folders(path)?;
        Ok(Self { root: path.to_owned(), passed: RefCell::default() })
    }

    /// The prefix that a library was loaded from: `<prefix>/lib/<library>`, by the path that the loader gives.
    pub fn of_library(library: &Path) -> Result<Self, Unsafe> {
        let folder = library.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "lib"));
        let Some(root) = folder.and_then(Path::parent) else {
            return Err(Unsafe::new(library, "was not loaded from the folder `lib` of a prefix"));
        };
        check_library(library)?;
        Ok(Self { root: root.to_owned(), passed: RefCell::default() })
    }

    /// Where its library stands.
    pub fn library(&self) -> PathBuf {
        self.root.join("lib").join(LIBRARY)
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file of the state, such as `site.toml`.
    pub fn state(&self, name: &str) -> PathBuf {
        self.root.join("etc/capgate").join(name)
    }

    /// The decision log of a user. Where several users share a prefix, their logs' folder is one that all may write and
    /// in which nobody may move what is another's.
    pub fn log(&self, user: u32) -> Result<PathBuf, Unsafe> {
        let folder = self.root.join("var/log/capgate");
        check_folder(&self.root.join("var"))?;
        check_folder(&self.root.join("var/log"))?;
        let metadata = fs::symlink_metadata(&folder).map_err(|e| Unsafe::io(&folder, &e))?;
        let sticky = metadata.is_dir() && metadata.mode() & 0o1000 != 0 && metadata.uid() == 0;
        if !sticky {
            check(&folder, &metadata, metadata.is_dir(), "is not a folder")?;
        }
        Ok(folder.join(format!("{user}.jsonl")))
    }

    /// The whole of a state file of at most `cap` bytes.
    pub fn read(&self, name: &str, cap: u64) -> Result<Vec<u8>, Unsafe> {
        let path = self.state(name);
        self.open(&path)?.read(cap).map_err(|e| match e {
            ReadError::TooLarge(_) => {
                Unsafe::new(&path, format!("has more than the {cap} bytes that are accepted"))
            }
            ReadError::Io(e) => Unsafe::io(&path, &e),
        })
    }

    /// The registry that was synced into it.
    pub fn registry(&self) -> Registry<'_> {
        Registry { prefix: self, root: self.state("registry") }
    }

    /// Opens a regular file below the prefix without waiting for anything.
    fn open(&self, path: &Path) -> Result<Opened, Unsafe> {
        let parent = path.parent().unwrap_or(path);
        for folder in between(&self.root, parent) {
            if !self.passed.borrow().contains(&folder) {
                check_folder(&folder)?;
                self.passed.borrow_mut().push(folder);
            }
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|e| {
            let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
            if is_link { Unsafe::new(path, "is a link") } else { Unsafe::io(path, &e) }
        })?;
        let metadata = file.metadata().map_err(|e| Unsafe::io(path, &e))?;
        check(path, &metadata, metadata.is_file(), "is not a regular file")?;
        Ok(Opened::new(file, metadata.len()))
    }
}

/// Checks a folder and every folder above it.
fn check_folders(folder: &Path) -> Result<(), Unsafe> {
    check_plain(folder)?;
    let mut folders: Vec<&Path> = folder.ancestors().collect();
    folders.reverse();
    folders.into_iter().try_for_each(check_folder)
}

/// Only a resolved path is known to pass through the folders that it names.
fn check_plain(path: &Path) -> Result<(), Unsafe> {
    if !path.is_absolute() {
        return Err(Unsafe::new(path, "is not an absolute path"));
    }
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    // `components` drops `.` and doubled slashes silently.
    let length: usize = path.components().skip(1).map(|part| part.as_os_str().len() + 1).sum();
    if plain && length.max(1) == path.as_os_str().len() {
        Ok(())
    } else {
        Err(Unsafe::new(path, "is not a plain path: it has `.`, `..` or a doubled slash"))
    }
}

/// A file stands on its folder's volume, so that volumes are asked for here alone.
fn check_folder(folder: &Path) -> Result<(), Unsafe> {
    let metadata = fs::symlink_metadata(folder).map_err(|e| Unsafe::io(folder, &e))?;
    check(folder, &metadata, metadata.is_dir(), "is not a folder")?;
    if system::ignores_owners(&name_of(folder)?) {
        return Err(Unsafe::new(folder, "is on a volume that ignores who owns a file"));
    }
    Ok(())
}

fn name_of(path: &Path) -> Result<CString, Unsafe> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Unsafe::new(path, "has no proper name"))
}

fn check(path: &Path, metadata: &Metadata, is_kind: bool, other: &str) -> Result<(), Unsafe> {
    if metadata.is_symlink() {
        return Err(Unsafe::new(path, "is a link"));
    }
    if !is_kind {
        return Err(Unsafe::new(path, other));
    }
    let owner = metadata.uid();
    if owner != 0 && owner != system::user() {
        return Err(Unsafe::new(path, format!("belongs to user {owner}, neither root nor this user")));
    }
    if metadata.mode() & 0o022 != 0 {
        let mode = metadata.mode() & 0o7777;
        return Err(Unsafe::new(path, format!("can be written by others (mode {mode:o})")));
    }
    if system::acl_allows(&name_of(path)?) {
        return Err(Unsafe::new(path, "has an access control list that allows more than its mode"));
    }
    Ok(())
}

/// The folders from `root`, without it, down to `folder`.
fn between(root: &Path, folder: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        folder.ancestors().take_while(|path| *path != root).map(Path::to_owned).collect();
    folders.reverse();
    folders
}

/// The registry of a prefix, to be read only.
#[derive(Debug)]
pub struct Registry<'a> {
    prefix: &'a Prefix,
    root: PathBuf,
}

impl Registry<'_> {
    fn open_file(&self, path: &str) -> Result<Opened, StoreError> {
        let good = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']);
        if !path.split('/').all(good) {
            let source = io::Error::other("is no name inside a registry");
            return Err(StoreError::Io { path: path.to_owned(), source });
        }
        self.prefix.open(&self.root.join(path)).map_err(|e| {
            if e.missing {
                StoreError::NotFound { path: path.to_owned() }
            } else {
                StoreError::Io { path: path.to_owned(), source: io::Error::other(e.to_string()) }
            }
        })
    }
}

impl Store for Registry<'_> {
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
        let source = io::Error::other("a guest looks up what it needs and lists nothing");
        Err(StoreError::Io { path: ".".to_owned(), source })
    }
}
