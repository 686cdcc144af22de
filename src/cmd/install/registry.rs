//! The registry that is installed: verified where it is, copied beside its place, and verified there again.

use std::fs;
use std::path::{Path, PathBuf};

use capgate_registry::combination::Sha256Digest;
use capgate_registry::store::{Listed, Store};
use capgate_registry::verify::verify;

use super::judge::{State, digest, make_folder};
use crate::cli::InstallArgs;
use crate::cmd::{opened, prefix};
use crate::exit::Failure;
use crate::installed::REGISTRY;
use crate::ui::{Ui, count, progress};
use crate::world::clock;
use crate::world::file;
use crate::world::folder::Folder;
use crate::world::place::Place;

/// Parts of a registry that are copied; anything else in its folder is somebody's own.
const PARTS: [&str; 3] = ["trust/", "log/", "snapshot/"];
/// Folder in which a copy waits until it is whole.
const STAGE: &str = "etc/capgate/.installing";

/// A verified registry and what happens to it.
#[derive(Debug)]
pub struct Source {
    pub folder: PathBuf,
    /// Names inside the registry.
    pub files: Vec<(String, Sha256Digest)>,
    pub state: State,
}

/// Verifies a registry, byte for byte, against the pinned root.
pub fn verified(ui: &Ui, path: &Path, args: &InstallArgs) -> Result<Source, Failure> {
    let folder = opened::folder(path)?;
    let now = clock::now(args.now);
    let reader = opened::open(&folder, args.root, now).map_err(|doubt| opened::doubted(&doubt, path))?;
    opened::warn_of_expiry(ui, reader.latest(), now, path);
    let bar = progress::counter("entries and records verified:");
    let report = verify(&folder, &args.root, now, &mut |done| bar.set_position(done));
    bar.finish_and_clear();
    if let Some(first) = report.faults.first() {
        let faults = count(report.faults.len(), "fault");
        return Err(Failure::invalid(format!("the registry has {faults}: `{}`: {}", first.file, first.what))
            .help(format!("capgate verify {} --root sha256:{}", prefix::quoted(path), args.root)));
    }
    let unreadable = |e: &dyn std::fmt::Display| {
        Failure::failed(format!("the registry `{}` cannot be read: {e}", path.display()))
    };
    let mut files = Vec::new();
    for Listed { path: name, .. } in folder.list().map_err(|e| unreadable(&e))? {
        if PARTS.iter().any(|part| name.starts_with(part)) {
            let digest = digest(&folder.root().join(&name)).map_err(|e| unreadable(&e))?;
            files.push((name, digest));
        }
    }
    Ok(Source { folder: path.to_owned(), files, state: State::New })
}

/// Holds it against what the prefix has: nothing, the same, or something that is not replaced.
pub fn judge(source: &mut Source, root: &Path) -> Result<(), Failure> {
    let there = root.join(REGISTRY);
    let is_empty = match fs::read_dir(&there) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => true,
        Err(e) => return Err(Failure::failed(format!("`{}` cannot be read: {e}", there.display()))),
        Ok(mut entries) => entries.next().is_none(),
    };
    if is_empty {
        return Ok(());
    }
    let same = |(name, wanted): &(String, Sha256Digest)| {
        digest(&there.join(name)).is_ok_and(|found| found == *wanted)
    };
    if !source.files.iter().all(same) {
        let message = format!("`{}` holds another registry, or another version of this one", there.display());
        return Err(Failure::failed(message).help("leave `--registry` out to keep it, or move it away"));
    }
    source.state = State::Same;
    Ok(())
}

/// A copy that waits beside its place. It is removed unless it was put there.
pub struct Staged {
    stage: PathBuf,
}

impl Staged {
    /// Copies a registry into the prefix, and verifies that the copy is what was verified.
    pub fn copy(source: &Source, root: &Path, args: &InstallArgs) -> Result<Self, Failure> {
        let staged = Self { stage: root.join(STAGE) };
        clear(root).map_err(|e| not_written(&staged.stage, &e))?;
        make_folder(&staged.stage, 0o755).map_err(|e| not_written(&staged.stage, &e))?;
        for (name, digest) in &source.files {
            let (from, to) = (source.folder.join(name), staged.stage.join(name));
            let copied = staged.copy_file(&from, name).map_err(|e| not_written(&to, &e))?;
            if copied != *digest {
                let message = format!("`{}` changed while it was read", from.display());
                return Err(Failure::failed(message).help("run this again when nobody publishes there"));
            }
        }
        let folder = Folder::new(&staged.stage);
        let opened = opened::open(&folder, args.root, clock::now(args.now));
        opened.map_err(|doubt| opened::doubted(&doubt, &source.folder))?;
        Ok(staged)
    }

    fn copy_file(&self, from: &Path, name: &str) -> std::io::Result<Sha256Digest> {
        let mut folder = self.stage.clone();
        let (parents, last) = name.rsplit_once('/').unwrap_or(("", name));
        for part in parents.split('/').filter(|part| !part.is_empty()) {
            folder.push(part);
            if !folder.is_dir() {
                make_folder(&folder, 0o755)?;
            }
        }
        let mut file = file::open_regular(from)?;
        Place::open(&folder)?.create(last.as_ref(), &mut file, 0o644)
    }

    /// Puts it in the place of an empty folder.
    pub fn put(self, root: &Path) -> Result<(), Failure> {
        let place = root.join(REGISTRY);
        fs::rename(&self.stage, &place).map_err(|e| not_written(&place, &e))
    }
}

/// Removes the copy that an interrupted installation left.
pub fn clear(root: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(root.join(STAGE)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Where it was put in its place there is nothing left.
        let _ = fs::remove_dir_all(&self.stage);
    }
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("`{}` cannot be written: {error}", path.display()))
}
