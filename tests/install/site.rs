//! What the tests install from, and where.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::support::{self, NOW, Run, World};

/// The start of a library, for a machine with the code 0x3e; nothing here loads it.
pub const LIBRARY: &str = "\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0 a library";

/// A registry, a library, a host key, and a place for a prefix that nobody else can write.
pub struct Site {
    pub world: World,
    pub place: tempfile::TempDir,
}

impl Site {
    pub fn new() -> Self {
        let site = Self { world: World::published(), place: support::private_folder() };
        site.world.put("libcapgate.so", LIBRARY);
        let host = site.world.run("keygen host-7 --out host.key").ok();
        site.world.put("host.pub", &host.out);
        site
    }

    pub fn prefix(&self) -> PathBuf {
        self.place.path().join("prefix")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.prefix().join(name)
    }

    pub fn run(&self, line: &str) -> Run {
        let mut command = self.world.command();
        Run::of(command.env("HOME", self.place.path()).args(support::words(line)))
    }

    /// Installs in the prefix, with the library.
    pub fn install(&self, rest: &str) -> Run {
        self.install_in(&self.prefix(), rest)
    }

    pub fn install_in(&self, prefix: &Path, rest: &str) -> Run {
        self.run(&format!("install '{}' --library libcapgate.so --now {NOW} {rest}", prefix.display()))
    }

    pub fn uninstall(&self, rest: &str) -> Run {
        self.run(&format!("uninstall {} {rest}", self.prefix().display()))
    }

    /// Every file below the prefix with its content, and every folder with nothing.
    pub fn tree(&self) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut tree = BTreeMap::new();
        if self.prefix().exists() {
            add(&self.prefix(), "", &mut tree);
        }
        tree
    }
}

fn add(folder: &Path, prefix: &str, tree: &mut BTreeMap<String, (u32, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        let metadata = fs::symlink_metadata(entry.path()).unwrap();
        let mode = metadata.mode() & 0o7777;
        if metadata.is_dir() {
            tree.insert(format!("{name}/"), (mode, Vec::new()));
            add(&entry.path(), &format!("{name}/"), tree);
        } else if metadata.is_file() {
            tree.insert(name, (mode, fs::read(entry.path()).unwrap()));
        } else {
            tree.insert(name, (mode, b"special".to_vec()));
        }
    }
}

pub fn is_root() -> bool {
    rustix::process::getuid().is_root()
}
