//! What children inherit: the library takes itself, and shims that it knows, out of it.
#![allow(unsafe_code, reason = "changes the environment before `main`, while no other thread can read it")]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use capgate_guest::others;

/// The variable that inserts libraries, and what stands between its entries.
#[cfg(target_os = "macos")]
const INSERT: (&str, &[u8]) = ("DYLD_INSERT_LIBRARIES", b":");
/// The variable that inserts libraries, and what stands between its entries.
#[cfg(not(target_os = "macos"))]
const INSERT: (&str, &[u8]) = ("LD_PRELOAD", b": ");

/// Names the library of another shim that `capgate run` inserted beside this one.
const OTHER_SHIM: &str = "CAPGATE_SHIM";

/// Tells whether a variable is set to something.
pub fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// The libraries that were inserted into this process, this one among them.
pub struct Inserted<'a> {
    own: &'a Path,
    entries: Vec<OsString>,
}

impl<'a> Inserted<'a> {
    /// Reads the variable; `None` where it does not name this library, which was then only linked or opened.
    pub fn read(own: &'a Path) -> Option<Self> {
        let value = std::env::var_os(INSERT.0)?;
        let entries = value.as_bytes().split(|byte| INSERT.1.contains(byte));
        let entries: Vec<OsString> = entries
            .filter(|entry| !entry.is_empty())
            .map(|entry| OsString::from_vec(entry.to_vec()))
            .collect();
        let inserted = Self { own, entries };
        inserted.entries.iter().any(|entry| inserted.is_own(entry)).then_some(inserted)
    }

    /// Takes this library, known shims and their variables out of the environment, and leaves what others put there.
    /// Tells whether another shim was inserted by `capgate run`.
    pub fn clean(&self) -> bool {
        let other = std::env::var_os(OTHER_SHIM);
        let kept: Vec<&OsStr> = self
            .entries
            .iter()
            .filter(|entry| {
                !self.is_own(entry) && !others::is_library(entry) && other.as_ref() != Some(entry)
            })
            .map(OsString::as_os_str)
            .collect();
        let separator = OsStr::from_bytes(INSERT.1.get(..1).unwrap_or_default());
        // SAFETY: constructors run one after another before `main`; a thread that an earlier library started in its
        // own constructor would have to read the environment at this very moment.
        unsafe {
            if kept.is_empty() {
                std::env::remove_var(INSERT.0);
            } else {
                std::env::set_var(INSERT.0, kept.join(separator));
            }
            let known = std::env::vars_os().map(|(name, _)| name).filter(|name| others::is_variable(name));
            for name in known.collect::<Vec<_>>() {
                std::env::remove_var(name);
            }
            std::env::remove_var(OTHER_SHIM);
        }
        // A value that names nothing that was inserted was not set by `capgate run`.
        other.is_some_and(|other| self.entries.contains(&other))
    }

    /// The loader may have followed a link on the way here, so the same file by another name is this library, too.
    fn is_own(&self, entry: &OsStr) -> bool {
        let file =
            |path: &Path| std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        let entry = Path::new(entry);
        entry == self.own || file(entry).is_some_and(|found| Some(found) == file(self.own))
    }
}
