//! A whole registry fetched from where there is no listing, so that it can be read as often as an audit needs.

use std::fs;
use std::io;
use std::path::PathBuf;

use capgate_registry::combination::Hex;
use capgate_registry::latest::{self, Latest};
use capgate_registry::log::{CHECKPOINT, MAX_ENTRY, TILE_WIDTH, Tile};
use capgate_registry::merkle::Hash;
use capgate_registry::publish::{MAX_STAGED, staged_parts};
use capgate_registry::reader::{read_chain, read_latest, trust_path};
use capgate_registry::store::{ReadAt, Store, StoreError, StoreMut};

use super::opened;
use crate::exit::Failure;
use crate::ui::progress;
use crate::world::file;
use crate::world::folder::Folder;

/// Bytes of a snapshot that are fetched at once.
const PIECE: usize = 1 << 20;
/// Most bytes of any other file: a bundle of the longest entries.
const CAP: u64 = TILE_WIDTH * (MAX_ENTRY as u64 + 2);

/// How often it is fetched again because somebody published meanwhile.
const ATTEMPTS: usize = 5;

/// A folder that goes when it is dropped.
pub struct Spool {
    /// What was fetched.
    pub folder: Folder,
    root: PathBuf,
}

impl Drop for Spool {
    fn drop(&mut self) {
        // Left behind, it would only take room.
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Spool {
    /// Fetches every file that what is in force names. One that is missing stays missing: the audit says so. Where somebody
    /// publishes meanwhile, it is begun anew.
    pub fn fetch(source: &dyn Store, pin: &Hash, name: &str) -> Result<Self, Failure> {
        let failed = |e: StoreError| Failure::failed(format!("{name}: {e}"));
        for _ in 0..ATTEMPTS {
            let before = source.read(latest::PATH, latest::MAX_BYTES).ok();
            let spool = Self::fetch_once(source, pin, name)?;
            // What was fetched is of the version that stood before and still stands.
            let after = source.read(latest::PATH, latest::MAX_BYTES).map_err(failed)?;
            let fetched = spool.folder.read(latest::PATH, latest::MAX_BYTES).map_err(failed)?;
            if before.as_ref() == Some(&after) && fetched == after {
                return Ok(spool);
            }
        }
        Err(Failure::failed(format!("{name}: it was published to all the time")).help("try again later"))
    }

    fn fetch_once(source: &dyn Store, pin: &Hash, name: &str) -> Result<Self, Failure> {
        let spool =
            Self::new().map_err(|e| Failure::failed(format!("no temporary folder can be made: {e}")))?;
        let doubted = |doubt| opened::doubted_at(&doubt, name);
        let chain = read_chain(source, pin, None).map_err(doubted)?;
        let latest = read_latest(source, &chain).map_err(doubted)?;
        let bar = progress::counter("files fetched:");
        for path in names(&latest, chain.current().version) {
            spool.take(source, &path).map_err(|e| Failure::failed(format!("{name}: {e}")))?;
            bar.inc(1);
        }
        let staged = spool.folder.read(&latest.staged_path(), MAX_STAGED).unwrap_or_default();
        for path in staged_parts(&staged, &latest) {
            spool.take(source, &path).map_err(|e| Failure::failed(format!("{name}: {e}")))?;
        }
        bar.finish_and_clear();
        Ok(spool)
    }

    fn new() -> io::Result<Self> {
        let name = format!("capgate-{}", Hex::<16>(file::random()?));
        let root = std::env::temp_dir().join(name);
        fs::create_dir(&root)?;
        Ok(Self { folder: Folder::new(&root), root })
    }

    fn take(&self, source: &dyn Store, path: &str) -> Result<(), StoreError> {
        if !path.ends_with(".snap") {
            let cap = if path.starts_with("log/staged/") { MAX_STAGED } else { CAP };
            return match source.read(path, cap) {
                Ok(bytes) => self.folder.put(path, &bytes),
                Err(e) if e.is_not_found() => Ok(()),
                Err(e) => Err(e),
            };
        }
        let file = match source.open(path) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => return Ok(()),
            Err(e) => return Err(e),
        };
        self.folder.write(&mut |out| {
            copy(file.as_ref(), out)?;
            Ok(path.to_owned())
        })?;
        Ok(())
    }
}

fn copy(file: &dyn ReadAt, out: &mut dyn io::Write) -> io::Result<()> {
    let mut at = 0;
    while at < file.size() {
        let length = usize::try_from(file.size() - at).unwrap_or(PIECE).min(PIECE);
        let mut piece = vec![0; length];
        file.read_exact_at(&mut piece, at)?;
        out.write_all(&piece)?;
        at += length as u64;
    }
    Ok(())
}

fn names(latest: &Latest, trust: u64) -> impl Iterator<Item = String> {
    let fixed =
        [latest::PATH.to_owned(), CHECKPOINT.to_owned(), latest.staged_path(), latest.snapshot_path()];
    (1..=trust).map(trust_path).chain(fixed).chain(Tile::all(latest.log_size).map(Tile::path))
}
