//! What both sides signed, when they contradict each other.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use capgate_registry::merkle::Hash;
use capgate_registry::note::Note;

use crate::world::file;
use crate::world::place::Place;

/// Where it is, in the folder of the copy.
const EVIDENCE: &str = ".evidence";
/// Most histories that are kept: one is enough to show that there are two, and whoever can sign one can sign many.
const MOST: usize = 16;
/// Largest file of ours that is kept.
const MAX: u64 = 16 * 1024;

/// What the two sides of a fork signed.
pub struct Sides<'f> {
    /// Entries of the smaller log.
    pub size: u64,
    /// Root of that many entries here.
    pub ours: Hash,
    /// The source's `latest.note`.
    pub latest: &'f [u8],
    /// The source's checkpoint.
    pub checkpoint: &'f [u8],
}

/// Keeps both sides' signatures beside the copy, under the digest of the text that the source signed: lines that no
/// signature covers make no second history. Kept once is enough.
pub fn keep(copy: &Path, sides: &Sides<'_>) -> io::Result<PathBuf> {
    let text = Note::parse(sides.latest).map_err(io::Error::other)?.text().to_owned();
    let name = Hash::of(text.as_bytes()).to_string();
    let (all, folder) = (copy.join(EVIDENCE), copy.join(EVIDENCE).join(&name));
    let place = Place::open(copy)?.within(OsStr::new(EVIDENCE))?;
    let known = fs::symlink_metadata(&folder).is_ok();
    if !known && fs::read_dir(&all)?.count() >= MOST {
        let what = format!("`{}` holds {MOST} histories already: move them elsewhere", all.display());
        return Err(io::Error::other(what));
    }
    let place = place.within(OsStr::new(&name))?;
    let ours = |name: &str| file::read_shared(&copy.join(name), MAX).unwrap_or_default();
    // A copy that is gone is known by what was seen of it.
    let seen = format!("log_size = {}\nlog_root = \"sha256:{}\"\n", sides.size, sides.ours);
    for (name, bytes) in [
        ("there-latest.note", sides.latest.to_vec()),
        ("there-checkpoint", sides.checkpoint.to_vec()),
        ("here-latest.note", ours("snapshot/latest.note")),
        ("here-checkpoint", ours("log/checkpoint")),
        ("here-seen", seen.into_bytes()),
    ] {
        match place.create(OsStr::new(name), &mut bytes.as_slice(), 0o644) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            done => drop(done?),
        }
    }
    Ok(folder)
}
