//! The folder of a bundle that is being made: nobody else writes to it meanwhile, and what is there is marked incomplete
//! until it is whole.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use capgate_registry::combination::{Hex, Sha256Digest};
use capgate_registry::evidence::bench::state::{FILE_NAME, INCOMPLETE, MOST_BYTES, State};
use capgate_registry::evidence::bundle::{BundleFiles, SUMS_NAME};
use capgate_registry::evidence::manifest;

use crate::exit::Failure;
use crate::world::bundle::BundleFolder;
use crate::world::file;
use crate::world::place::Place;

/// Where the processes of a round write before it is known whether the round counts.
const CURRENT: &str = "round.unfinished";
/// Where drafts go: they name the digest of the list of digests, so they are in no list.
pub const DRAFTS: &str = "profiles";
const MARK: &str = "This bundle is not complete: `capgate bench --resume` goes on with it, and nothing of it counts before.\n";

/// A bundle's folder, locked.
#[derive(Debug)]
pub struct Bundle {
    root: PathBuf,
    _lock: File,
}

impl Bundle {
    /// Makes the folder, or takes an empty one.
    pub fn create(root: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(root).map_err(|e| not_written(root, &e))?;
        let bundle = Self::lock(root)?;
        let is_empty = fs::read_dir(root).map_err(|e| not_written(root, &e))?.next().is_none();
        if !is_empty {
            let message = format!("the folder `{}` is not empty", root.display());
            return Err(Failure::failed(message)
                .help("give the bundle a folder of its own, or go on with one by `--resume`"));
        }
        bundle.put(INCOMPLETE, MARK.as_bytes())?;
        Ok(bundle)
    }

    /// Opens a bundle that was begun, and says how far it came.
    pub fn resume(root: &Path) -> Result<(Self, State), Failure> {
        let shown = root.display();
        let state = read_state(root)?;
        if !is_incomplete(root) {
            return Err(Failure::failed(format!("`{shown}` is complete, so there is nothing to go on with"))
                .help(format!("capgate evidence check {shown}")));
        }
        let bundle = Self::lock(root)?;
        bundle.begin_round()?;
        Ok((bundle, state))
    }

    fn lock(root: &Path) -> Result<Self, Failure> {
        let lock = Place::open(root).and_then(Place::lock).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => {
                Failure::failed(format!("another bench is running on `{}`", root.display()))
            }
            _ => Failure::failed(format!("`{}` cannot be locked: {e}", root.display())),
        })?;
        Ok(Self { root: root.to_owned(), _lock: lock })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Says how far it came.
    pub fn save(&self, state: &State) -> Result<(), Failure> {
        let json = state.to_json().map_err(|e| Failure::failed(format!("`{FILE_NAME}` {e}")))?;
        self.put(FILE_NAME, json.as_bytes())
    }

    /// Empties the folder in which a round runs.
    pub fn begin_round(&self) -> Result<(), Failure> {
        let current = self.root.join(CURRENT);
        match fs::remove_dir_all(&current) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(not_written(&current, &e)),
            _ => Ok(()),
        }
    }

    /// A new file of the round that runs.
    pub fn new_file(&self, name: &str) -> Result<File, Failure> {
        let current = self.root.join(CURRENT);
        let path = current.join(name);
        let made = fs::create_dir_all(&current).and_then(|()| File::create_new(&path));
        made.map_err(|e| not_written(&path, &e))
    }

    /// The path of a file of the round that runs.
    pub fn current(&self, name: &str) -> PathBuf {
        self.root.join(CURRENT).join(name)
    }

    /// Gives the round that ran its name, in place of one that was never said to count.
    pub fn keep_round(&self, name: &str) -> Result<(), Failure> {
        let to = self.root.join(name);
        let above = to.parent().unwrap_or(&self.root);
        fs::create_dir_all(above).map_err(|e| not_written(above, &e))?;
        match fs::remove_dir_all(&to) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(not_written(&to, &e)),
            _ => {}
        }
        fs::rename(self.root.join(CURRENT), &to).map_err(|e| not_written(&to, &e))?;
        let synced = File::open(above).and_then(|folder| folder.sync_all());
        synced.map_err(|e| not_written(above, &e))
    }

    /// Puts a file of the bundle there, in place of an older one.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let written = Place::open(&self.root).and_then(|place| place.replace(OsStr::new(name), bytes, 0o644));
        written.map_err(|e| not_written(&self.root.join(name), &e))
    }

    /// Removes the files of an arm in the round that runs.
    pub fn remove_current(&self, arm: &str) -> Result<(), Failure> {
        for path in ["json", "log", "record.json"].map(|end| self.current(&format!("{arm}.{end}"))) {
            fs::remove_file(&path).map_err(|e| not_written(&path, &e))?;
        }
        Ok(())
    }

    /// Writes the manifest, and completes it.
    pub fn complete(&self, manifest: &str) -> Result<(), Failure> {
        self.put(manifest::FILE_NAME, manifest.as_bytes())?;
        self.complete_part()
    }

    /// Lists the digests of everything in it, and takes the mark away.
    pub fn complete_part(&self) -> Result<(), Failure> {
        self.begin_round()?;
        self.put(SUMS_NAME, sums(&self.root)?.as_bytes())?;
        let mark = self.root.join(INCOMPLETE);
        match fs::remove_file(&mark) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(not_written(&mark, &e)),
            _ => Ok(()),
        }
    }
}

/// Tells whether a bundle is still being made, or its making was interrupted.
pub fn is_incomplete(root: &Path) -> bool {
    root.join(INCOMPLETE).symlink_metadata().is_ok()
}

/// What a bundle's `bench.json` says.
pub fn read_state(root: &Path) -> Result<State, Failure> {
    let path = root.join(FILE_NAME);
    let shown = path.display();
    let bytes = file::read_shared(&path, MOST_BYTES as u64).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Failure::failed(format!("`{}` holds no `{FILE_NAME}`", root.display()))
            .help("name the folder of a bundle that `capgate bench` made"),
        _ => Failure::failed(format!("`{shown}` cannot be read: {e}")),
    })?;
    State::parse(&bytes).map_err(|e| Failure::invalid(format!("`{shown}` {e}")))
}

/// The list of digests of every file, but for itself, the mark and drafts.
pub fn sums(root: &Path) -> Result<String, Failure> {
    let unreadable = |e: &dyn std::fmt::Display| {
        Failure::failed(format!("the bundle `{}` cannot be read: {e}", root.display()))
    };
    let folder = BundleFolder::new(root, indicatif::ProgressBar::hidden());
    let mut text = String::new();
    for path in folder.list().map_err(|e| unreadable(&e))? {
        let is_draft = path.split('/').next() == Some(DRAFTS);
        if is_draft || path == INCOMPLETE || path == SUMS_NAME {
            continue;
        }
        let digest = file::sha256(&root.join(&path), &mut |_| {}).map_err(|e| unreadable(&e))?;
        let digest: Sha256Digest = Hex(digest);
        text += &format!("{digest}  {path}\n");
    }
    Ok(text)
}

/// What could not be written, and that nothing is lost.
pub fn not_written(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("`{}` cannot be written: {error}", path.display()))
}
