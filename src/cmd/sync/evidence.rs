//! What both sides signed, when they contradict each other.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use capgate_registry::merkle::Hash;

use crate::world::file;

/// Keeps both sides' signatures beside the copy, under the digest of what the source signed. Kept once is enough.
pub fn keep(copy: &Path, latest: &[u8], checkpoint: &[u8]) -> io::Result<PathBuf> {
    let folder = copy.join(".evidence").join(Hash::of(latest).to_string());
    fs::create_dir_all(&folder)?;
    let ours = |name: &str| fs::read(copy.join(name)).unwrap_or_default();
    for (name, bytes) in [
        ("there-latest.note", latest.to_vec()),
        ("there-checkpoint", checkpoint.to_vec()),
        ("here-latest.note", ours("snapshot/latest.note")),
        ("here-checkpoint", ours("log/checkpoint")),
    ] {
        match file::create_new(&folder.join(name), &bytes, 0o644) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            done => done?,
        }
    }
    Ok(folder)
}
