//! Holds what is wanted against what is there. Anything that differs is a refusal, before anything was written.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use capgate_registry::combination::{Hex, Sha256Digest};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::parts::{Content, ROOT, SITE, Wanted};
use super::registry::{self, Source};
use crate::cmd::prefix::{self, quoted};
use crate::exit::Failure;
use crate::installed::{FOLDERS, LOGS, MANIFEST, MAX_BYTES, Manifest, log_mode};
use crate::world::file;

/// What happens to a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is written.
    New,
    /// It is there already.
    Same,
    /// Something of the operator's own is there, and stays.
    Kept,
}

impl State {
    /// The first word of its line.
    pub fn words(self, dry_run: bool) -> &'static str {
        match (self, dry_run) {
            (Self::New, false) => "written:",
            (Self::New, true) => "to write:",
            (Self::Same, _) => "the same:",
            (Self::Kept, _) => "kept:",
        }
    }
}

/// A part and what happens to it.
#[derive(Debug)]
pub struct Part {
    pub path: String,
    pub mode: u32,
    pub content: Content,
    pub digest: Sha256Digest,
    pub state: State,
}

/// Everything that is to be done.
#[derive(Debug)]
pub struct Plan {
    /// The prefix.
    pub root: PathBuf,
    /// Folders to make, each after the one that it is in.
    pub folders: Vec<&'static str>,
    pub parts: Vec<Part>,
    pub registry: Option<Source>,
    /// What an earlier installation wrote here.
    pub before: Option<Manifest>,
}

impl Plan {
    /// Whether nothing is left to do.
    pub fn is_there(&self) -> bool {
        let registry = self.registry.as_ref().is_none_or(|source| source.state != State::New);
        self.folders.is_empty() && registry && self.parts.iter().all(|part| part.state != State::New)
    }
}

/// Judges every folder and file.
pub fn judge(root: PathBuf, wanted: Vec<Wanted>, mut source: Option<Source>) -> Result<Plan, Failure> {
    let mut folders = Vec::new();
    for name in FOLDERS {
        if !folder_is_there(&root, name)? {
            folders.push(name);
        }
    }
    let before = read_manifest(&root)?;
    let parts = wanted.into_iter().map(|part| judge_part(&root, part)).collect::<Result<_, _>>()?;
    if let Some(source) = &mut source {
        registry::judge(source, &root)?;
    }
    Ok(Plan { root, folders, parts, registry: source, before })
}

/// The list that an earlier installation left.
pub fn read_manifest(root: &Path) -> Result<Option<Manifest>, Failure> {
    let path = root.join(MANIFEST);
    let shown = path.display();
    let bytes = match file::read_shared(&path, MAX_BYTES) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        bytes => bytes.map_err(|e| Failure::failed(format!("`{shown}` cannot be read: {e}")))?,
    };
    let manifest = Manifest::parse(&bytes).map_err(|e| {
        Failure::invalid(format!("`{shown}` is no list of what was installed: {e}"))
            .help("see who changed it; without it, nothing is known to be capgate's")
    })?;
    Ok(Some(manifest))
}

fn found(path: &Path) -> Result<Option<Metadata>, Failure> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Failure::failed(format!("`{}` cannot be read: {e}", path.display()))),
    }
}

fn folder_is_there(root: &Path, name: &str) -> Result<bool, Failure> {
    let path = root.join(name);
    let Some(metadata) = found(&path)? else { return Ok(false) };
    if name != LOGS {
        return prefix::open(&path).map(|_| true);
    }
    let shown = path.display();
    if !metadata.is_dir() {
        return Err(Failure::failed(format!("`{shown}` is not a folder")).help("move it away"));
    }
    let wanted = log_mode(is_root());
    let mode = metadata.mode() & 0o7777;
    if metadata.uid() != user() {
        let message = format!("`{shown}` belongs to user {}, not to this one", metadata.uid());
        return Err(Failure::failed(message).help(format!("sudo chown {} {}", user(), quoted(&path))));
    }
    if mode != wanted {
        let message = format!("`{shown}` has mode {mode:o}, and {wanted:o} is needed");
        return Err(Failure::failed(message).help(format!("chmod {wanted:o} {}", quoted(&path))));
    }
    Ok(true)
}

fn judge_part(root: &Path, part: Wanted) -> Result<Part, Failure> {
    let Wanted { path, mode, content } = part;
    let unreadable =
        |of: &Path, e: io::Error| Failure::failed(format!("`{}` cannot be read: {e}", of.display()));
    let wanted = match &content {
        Content::Bytes(bytes) => Hex(Sha256::digest(bytes).into()),
        Content::File(from) => digest(from).map_err(|e| unreadable(from, e))?,
    };
    let full = root.join(&path);
    let Some(metadata) = found(&full)? else {
        return Ok(Part { path, mode, content, digest: wanted, state: State::New });
    };
    let shown = full.display();
    if !metadata.is_file() {
        let what = if metadata.is_symlink() { "is a link" } else { "is not a regular file" };
        return Err(Failure::failed(format!("`{shown}` {what}")).help("move it away"));
    }
    if metadata.uid() != user() && metadata.uid() != 0 {
        let message = format!("`{shown}` belongs to user {}, neither root nor this user", metadata.uid());
        return Err(Failure::failed(message).help(format!("sudo chown {} {}", user(), quoted(&full))));
    }
    if metadata.mode() & 0o7777 != mode {
        let message = format!("`{shown}` has mode {:o}, and {mode:o} is needed", metadata.mode() & 0o7777);
        return Err(Failure::failed(message).help(format!("chmod {mode:o} {}", quoted(&full))));
    }
    let there = digest(&full).map_err(|e| unreadable(&full, e))?;
    let state = match there == wanted {
        true => State::Same,
        false if path == SITE => State::Kept,
        false => return Err(differs(root, &path)),
    };
    Ok(Part { path, mode, content, digest: wanted, state })
}

fn differs(root: &Path, path: &str) -> Failure {
    let shown = root.join(path);
    let shown = shown.display();
    if path == ROOT {
        return Failure::failed(format!("`{shown}` pins another root, and a pin is never overwritten"))
            .help("check the digest given with `--root`, or choose another prefix");
    }
    Failure::failed(format!("`{shown}` is there and differs, and nothing is overwritten"))
        .help(format!("capgate uninstall {}, then install again", quoted(root)))
}

/// SHA-256 of a regular file.
pub fn digest(path: &Path) -> io::Result<Sha256Digest> {
    file::sha256(path, &mut |_| {}).map(Hex)
}

/// Makes a folder with exactly that mode, whatever the user's mask is.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

pub fn is_root() -> bool {
    user() == 0
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}
