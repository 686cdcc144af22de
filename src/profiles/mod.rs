//! Profiles in files: found, read, and linted alone and against each other.

mod together;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use capgate_registry::document::Problem;
use capgate_registry::profile::{self, MAX_BYTES, Profile};

use crate::world::file;

/// One profile's file.
#[derive(Debug)]
pub struct Linted {
    /// Its path as it is shown.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
    /// What it says, where it can be read at all.
    pub profile: Option<Profile>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
}

/// Profiles that were linted together.
#[derive(Debug)]
pub struct Profiles {
    /// The files, by name.
    pub files: Vec<Linted>,
    /// What may be intended, but is worth a look.
    pub hints: Vec<String>,
}

/// Says why profiles could not be read.
#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be read: {source}", path.display())]
pub struct ReadError {
    path: PathBuf,
    source: io::Error,
}

impl Profiles {
    /// Reads and lints files and folders of them.
    pub fn read(paths: &[PathBuf]) -> Result<Self, ReadError> {
        let mut found = Vec::new();
        for path in paths {
            find(path, &mut found).map_err(|source| ReadError { path: path.clone(), source })?;
        }
        found.sort();
        found.dedup();
        let files = found.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(together::lint(files))
    }

    /// The number of problems in all files.
    pub fn problems(&self) -> usize {
        self.files.iter().map(|file| file.problems.len()).sum()
    }
}

/// A folder's profiles are its `.toml` files; a file is taken as it is named.
fn find(path: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".toml") && !name.starts_with('.') {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn read(path: PathBuf) -> Result<Linted, ReadError> {
    // More than a profile may have, so that the linter can say how large it is.
    let cap = MAX_BYTES as u64 * 64;
    let bytes = file::read(&path, cap).map_err(|source| ReadError { path: path.clone(), source })?;
    let (profile, problems) = profile::lint(&bytes);
    Ok(Linted { name: path.display().to_string(), path, bytes, profile, problems })
}
