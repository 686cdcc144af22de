//! A folder that goes with the process that made it, even if that one is killed: then the next one takes it away.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use capgate_registry::combination::Hex;

use super::file::random;

/// Held locked by its owner for as long as the folder is in use.
const LOCK: &str = "lock";
/// The part of it that the owner works in.
const INSIDE: &str = "inside";

/// A folder that nobody else can enter. It is removed when it is dropped.
#[derive(Debug)]
pub struct Throwaway {
    root: PathBuf,
    /// Nobody takes the folder away while this is locked.
    _lock: File,
}

impl Throwaway {
    /// Makes a folder `capgate-KIND-…` in `parent`, and first removes those of this kind and this user whose owner is gone.
    pub fn make(parent: &Path, kind: &str) -> io::Result<Self> {
        let prefix = format!("capgate-{kind}-");
        sweep(parent, &prefix);
        let name = format!("{prefix}{}", Hex::<16>(random()?));
        // Under its own name only once it is locked: before that, somebody who sweeps would take it for one left behind.
        let hidden = parent.join(format!(".{name}"));
        let made = Self::fill(&hidden).and_then(|lock| {
            let root = parent.join(name);
            fs::rename(&hidden, &root).map(|()| Self { root, _lock: lock })
        });
        if made.is_err() {
            let _ = fs::remove_dir_all(&hidden);
        }
        made
    }

    fn fill(root: &Path) -> io::Result<File> {
        let private = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        private(root)?;
        let lock = File::create_new(root.join(LOCK))?;
        lock.try_lock()?;
        private(&root.join(INSIDE))?;
        Ok(lock)
    }

    /// Where its owner works; empty at first.
    pub fn path(&self) -> PathBuf {
        self.root.join(INSIDE)
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next one.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Removes folders with such a name that this user owns and that nobody has locked. It is a courtesy: nothing that goes
/// wrong here is an error.
fn sweep(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(prefix)) && is_left(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_left(folder: &Path) -> bool {
    let is_ours = fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw());
    is_ours && File::open(folder.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let entries = fs::read_dir(parent).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn it_goes_with_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let made = Throwaway::make(parent.path(), "test").unwrap();
        fs::write(made.path().join("a"), "content").unwrap();
        assert_eq!(fs::metadata(made.path()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(names(parent.path()).len(), 1);
        drop(made);
        assert!(names(parent.path()).is_empty());
    }

    #[test]
    fn one_whose_owner_was_killed_goes_with_the_next_and_one_in_use_stays() {
        let parent = tempfile::tempdir().unwrap();
        let in_use = Throwaway::make(parent.path(), "test").unwrap();
        let other_kind = parent.path().join("capgate-other-1");
        let left = parent.path().join("capgate-test-0123");
        for folder in [&other_kind, &left] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(LOCK), "").unwrap();
            fs::write(folder.join("key"), "secret").unwrap();
        }
        let next = Throwaway::make(parent.path(), "test").unwrap();
        assert!(!left.exists());
        assert!(in_use.path().exists() && next.path().exists() && other_kind.exists());
    }

    #[test]
    fn a_link_with_such_a_name_is_left_alone() {
        let (parent, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join(LOCK), "").unwrap();
        let link = parent.path().join("capgate-test-link");
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        drop(Throwaway::make(parent.path(), "test").unwrap());
        assert!(link.is_symlink() && elsewhere.path().join(LOCK).exists());
    }
}
