//! A folder gives nothing that lies outside it, and takes nothing for a file that is none.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::cell::RefCell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use capgate::world::folder::Folder;
use capgate::world::ops::{Disk, FileOps};
use capgate_registry::store::{Store, StoreError, StoreMut};

fn folder() -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    (dir, folder)
}

#[test]
fn names_that_lead_out_or_into_the_hidden_part_are_refused() {
    let (_dir, folder) = folder();
    for name in ["", "/etc/passwd", "../x", "a/../b", "a//b", ".lock", "a/.tmp", "a\\b", "a\0b", "a/", "."] {
        for error in [folder.read(name, 10).unwrap_err(), folder.put(name, b"x").unwrap_err()] {
            assert_eq!(error.to_string(), format!("`{name}`: is no name inside a registry"));
        }
        assert!(folder.remove(name).is_err() && folder.swap(name, None, b"x").is_err());
    }
}

#[test]
fn links_pipes_and_folders_are_no_files() {
    let (dir, folder) = folder();
    fs::create_dir(dir.path().join("real")).unwrap();
    fs::write(dir.path().join("real/file"), "x").unwrap();
    symlink("real/file", dir.path().join("link")).unwrap();
    symlink("real", dir.path().join("folder-link")).unwrap();
    assert_eq!(folder.read("real/file", 10).unwrap(), b"x");
    assert_eq!(folder.read("link", 10).unwrap_err().to_string(), "`link`: is a link");
    let behind = folder.read("folder-link/file", 10).unwrap_err().to_string();
    assert_eq!(behind, "`folder-link/file`: lies behind a link");
    assert!(folder.put("folder-link/other", b"x").is_err());
    assert_eq!(folder.read("real", 10).unwrap_err().to_string(), "`real`: is not a regular file");
    let listed = folder.list().unwrap_err().to_string();
    assert!(listed.ends_with("is a link"), "{listed}");
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(folder.read("pipe", 10).unwrap_err().to_string(), "`pipe`: is not a regular file");
}

#[test]
fn more_bytes_than_a_reader_accepts_are_refused() {
    let (_dir, folder) = folder();
    folder.put("a", b"12345").unwrap();
    assert!(matches!(folder.read("a", 4), Err(StoreError::TooLarge { size: 5, cap: 4, .. })));
    assert_eq!(folder.read("a", 5).unwrap(), b"12345");
}

#[test]
fn a_swap_needs_what_it_expects() {
    let (_dir, folder) = folder();
    assert!(matches!(folder.swap("a", Some(b"1"), b"2"), Err(StoreError::Conflict { .. })));
    folder.swap("a", None, b"1").unwrap();
    for wrong in [None, Some(&b"2"[..]), Some(b"12"), Some(b"")] {
        assert!(matches!(folder.swap("a", wrong, b"2"), Err(StoreError::Conflict { .. })));
    }
    folder.swap("a", Some(b"1"), b"2").unwrap();
    assert_eq!(folder.read("a", 9).unwrap(), b"2");
    folder.remove("a").unwrap();
    folder.remove("a").unwrap();
    assert!(folder.read("a", 9).unwrap_err().is_not_found());
}

#[test]
fn the_lock_removes_what_an_interrupted_publication_left() {
    let (dir, folder) = folder();
    fs::create_dir(dir.path().join(".tmp")).unwrap();
    fs::write(dir.path().join(".tmp/1-1"), "half").unwrap();
    let lock = folder.lock(std::time::Duration::ZERO).unwrap();
    assert_eq!(fs::read_dir(dir.path().join(".tmp")).unwrap().count(), 0);
    assert!(Folder::new(dir.path()).lock(std::time::Duration::ZERO).is_err());
    drop(lock);
    let _again = Folder::new(dir.path()).lock(std::time::Duration::ZERO).unwrap();
    assert!(folder.list().unwrap().is_empty());
}

/// Writes down what is done, by file name.
#[derive(Default)]
struct Recording(RefCell<Vec<String>>);

impl Recording {
    fn note(&self, what: &str, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Temporary names hold the process.
        let name = if name.contains('-') { "temporary" } else { &name };
        self.0.borrow_mut().push(format!("{what} {name}").trim_end().to_owned());
    }
}

impl FileOps for &Recording {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.note("make", path);
        Disk.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        self.note("create", path);
        Disk.create(path)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        self.note("write", Path::new(""));
        Disk.write(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.note("sync", Path::new(""));
        Disk.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.note("rename to", to);
        Disk.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.note("sync folder", path);
        Disk.sync_dir(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.note("remove", path);
        Disk.remove(path)
    }
}

#[test]
fn content_is_on_the_disk_before_its_name_and_each_new_name_after() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let recording = Recording::default();
    Folder::with_ops(&root, &recording).put("a/b/c", b"x").unwrap();
    let steps = [
        "make .tmp",
        "sync folder root",
        "create temporary",
        "write",
        "sync",
        "make a",
        "sync folder root",
        "make b",
        "sync folder a",
        "rename to c",
        "sync folder b",
    ];
    assert_eq!(*recording.0.borrow(), steps);
}
