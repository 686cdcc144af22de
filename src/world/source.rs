//! Where a registry is published, as a command was told: a folder, or a URL.

use std::fs;
use std::path::Path;

use capgate_registry::store::{Store, StoreMut};

use super::folder::{Folder, Lock, PATIENCE};
use crate::exit::Failure;

/// A registry to be read.
pub struct Source {
    store: Box<dyn Store>,
}

impl Source {
    /// Opens it; nothing is read yet.
    pub fn open(text: &str) -> Result<Self, Failure> {
        let path = path_of(text)?;
        if !Path::new(path).is_dir() {
            return Err(Failure::failed(format!("there is no registry folder `{path}`"))
                .help("make a registry with `capgate init`, or name the folder that holds one"));
        }
        Ok(Self { store: Box::new(Folder::new(path)) })
    }

    /// What it holds.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Whether it can say which files it has.
    pub fn has_listing(&self) -> bool {
        true
    }
}

/// A registry that is published to.
pub struct Published {
    name: String,
    folder: Folder,
}

impl Published {
    /// Opens it; a folder that does not exist is made.
    pub fn open(text: &str) -> Result<Self, Failure> {
        let path = path_of(text)?;
        fs::create_dir_all(path)
            .map_err(|e| Failure::failed(format!("the folder `{path}` cannot be made: {e}")))?;
        Ok(Self { name: text.to_owned(), folder: Folder::new(path) })
    }

    /// As it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    pub fn store(&self) -> &dyn StoreMut {
        &self.folder
    }

    /// Keeps others out where the place itself cannot compare and swap.
    pub fn lock(&self) -> Result<Option<Lock>, Failure> {
        let lock = self.folder.lock(PATIENCE);
        lock.map(Some).map_err(|e| Failure::failed(e.to_string()).help("run this again when it is done"))
    }
}

fn path_of(text: &str) -> Result<&str, Failure> {
    match text.split_once("://") {
        None => Ok(text),
        Some(("file", rest)) => Ok(rest.strip_prefix("localhost").unwrap_or(rest)),
        Some((scheme, _)) => {
            Err(Failure::usage(format!("`{scheme}` is no way to a registry that is known here"))
                .help("give a folder, or a URL that begins with file://"))
        }
    }
}
