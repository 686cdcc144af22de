//! Carries out a plan: folders, the copy of the registry, the list of what is coming, then file by file.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::judge::{Part, Plan, State, is_root, make_folder};
use super::parts::Content;
use super::registry::Staged;
use crate::cli::InstallArgs;
use crate::cmd::prefix;
use crate::exit::Failure;
use crate::installed::{LOGS, MANIFEST, Manifest, REGISTRY, STATE, WRITTEN_LATER, log_mode};
use crate::world::file;
use crate::world::place::{Place, leftovers};

pub fn apply(plan: &Plan, args: &InstallArgs) -> Result<(), Failure> {
    if plan.is_there() {
        return Ok(());
    }
    let made = make_folders(plan)?;
    let done = fill(plan, args);
    if done.is_err() {
        // Empty again: what holds something stays, and the list names it.
        for folder in made.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
    done
}

/// Makes the folders that are missing, those above the prefix too.
fn make_folders(plan: &Plan) -> Result<Vec<PathBuf>, Failure> {
    let above: Vec<_> = plan.root.ancestors().filter(|path| fs::symlink_metadata(path).is_err()).collect();
    let above = above.into_iter().rev().map(|path| (path.to_owned(), 0o755));
    let below = plan.folders.iter().map(|name| {
        let mode = if *name == LOGS { log_mode(is_root()) } else { 0o755 };
        (plan.root.join(name), mode)
    });
    let mut made = Vec::new();
    for (path, mode) in above.chain(below) {
        make_folder(&path, mode).map_err(|e| not_written(&path, &e))?;
        made.push(path);
    }
    Ok(made)
}

fn fill(plan: &Plan, args: &InstallArgs) -> Result<(), Failure> {
    let _lock = lock(&plan.root)?;
    sweep(&plan.root, plan.parts.iter().map(|part| part.path.as_str()));
    let staged = match &plan.registry {
        Some(source) if source.state == State::New => Some(Staged::copy(source, &plan.root, args)?),
        _ => None,
    };
    write_manifest(plan)?;
    if let Some(staged) = staged {
        staged.put(&plan.root)?;
    }
    for part in plan.parts.iter().filter(|part| part.state == State::New) {
        write_part(&plan.root, part)?;
    }
    // What was made must pass the checks that the library makes.
    prefix::open(&plan.root.join(STATE)).map(drop)
}

/// Removes the halves of files that an interrupted installation left. Nobody else writes here: the lock is held.
pub fn sweep<'a>(root: &Path, paths: impl Iterator<Item = &'a str>) {
    for path in paths.chain([MANIFEST]).map(|path| root.join(path)) {
        let (folder, name) = split(&path);
        for half in leftovers(folder, &name.to_string_lossy()) {
            // One that cannot be removed is in nobody's way.
            let _ = fs::remove_file(half);
        }
    }
}

/// Keeps another installation of the same prefix out.
pub fn lock(root: &Path) -> Result<fs::File, Failure> {
    let state = root.join(STATE);
    let locked = Place::open(&state).and_then(Place::lock);
    locked.map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => {
            Failure::failed(format!("another installation is running on `{}`", root.display()))
                .help("run this again when it is done")
        }
        _ => Failure::failed(format!("`{}` cannot be locked: {e}", state.display())),
    })
}

/// The list names what this installation and earlier ones wrote, and nothing that was there before.
fn write_manifest(plan: &Plan) -> Result<(), Failure> {
    let mut manifest: Manifest = plan.before.clone().unwrap_or_default();
    manifest.state.extend(WRITTEN_LATER.map(str::to_owned));
    manifest.folders.extend(plan.folders.iter().map(|name| (*name).to_owned()));
    for part in plan.parts.iter().filter(|part| part.state == State::New) {
        manifest.files.insert(part.path.clone(), part.digest);
    }
    if let Some(source) = plan.registry.as_ref().filter(|source| source.state == State::New) {
        for (name, digest) in &source.files {
            let path = format!("{REGISTRY}/{name}");
            for (at, _) in path.match_indices('/').filter(|(at, _)| *at >= REGISTRY.len()) {
                manifest.folders.extend(path.get(..at).map(str::to_owned));
            }
            manifest.files.insert(path, *digest);
        }
    }
    let path = plan.root.join(MANIFEST);
    let (folder, name) = split(&path);
    let text = manifest.to_text();
    let written = Place::open(folder).and_then(|place| place.replace(name, text.as_bytes(), 0o644));
    written.map_err(|e| not_written(&path, &e))
}

fn write_part(root: &Path, part: &Part) -> Result<(), Failure> {
    let path = root.join(&part.path);
    let (folder, name) = split(&path);
    let written = Place::open(folder).and_then(|place| match &part.content {
        Content::Bytes(bytes) => place.create(name, &mut bytes.as_slice(), part.mode),
        Content::File(from) => place.create(name, &mut file::open_regular(from)?, part.mode),
    });
    let digest = written.map_err(|e| not_written(&path, &e))?;
    if digest == part.digest {
        return Ok(());
    }
    // It was put there a moment ago, from something that changed meanwhile.
    let _ = fs::remove_file(&path);
    Err(Failure::failed(format!("what `{}` is made from changed while it was read", path.display()))
        .help("run this again"))
}

fn split(path: &Path) -> (&Path, &OsStr) {
    (path.parent().unwrap_or(path), path.file_name().unwrap_or_default())
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("`{}` cannot be written: {error}", path.display())).help(
        "what was written so far is listed; `capgate uninstall` takes it away, the same command completes it",
    )
}
