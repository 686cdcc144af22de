//! Where a registry is published, as a command was told: a folder, or a URL.

use std::path::Path;

use capgate_registry::store::Store;

use super::folder::Folder;
use crate::exit::Failure;

/// A registry to be read.
pub struct Source {
    store: Box<dyn Store>,
}

impl Source {
    /// Opens it; nothing is read yet.
    pub fn open(text: &str) -> Result<Self, Failure> {
        let path = match text.split_once("://") {
            None => text,
            Some(("file", rest)) => rest.strip_prefix("localhost").unwrap_or(rest),
            Some((scheme, _)) => {
                return Err(Failure::usage(format!("`{scheme}` is no way to a registry that is known here"))
                    .help("give a folder, or a URL that begins with file://"));
            }
        };
        if !Path::new(path).is_dir() {
            return Err(Failure::failed(format!("there is no registry folder `{path}`")));
        }
        Ok(Self { store: Box::new(Folder::new(path)) })
    }

    /// What it holds.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }
}
