//! Where a registry is published, as a command was told: a folder, or a URL.

use std::fs;

use capgate_registry::store::{Store, StoreMut};

use super::folder::{Lock, PATIENCE};
use super::remote::{self, Options, Remote};
use crate::exit::Failure;

/// A registry to be read.
pub struct Source {
    remote: Remote,
}

impl Source {
    /// Opens it; nothing is read yet.
    pub fn open(text: &str) -> Result<Self, Failure> {
        let remote = remote::open(text, &Options::of_environment()?)?;
        match &remote {
            Remote::Folder(folder) if !folder.root().is_dir() => {
                let path = folder.root().display();
                Err(Failure::failed(format!("there is no registry folder `{path}`"))
                    .help("make a registry with `capgate init`, or name the folder that holds one"))
            }
            _ => Ok(Self { remote }),
        }
    }

    /// What it holds.
    pub fn store(&self) -> &dyn Store {
        self.remote.store()
    }

    /// Whether it is behind a line that may break.
    pub fn is_remote(&self) -> bool {
        !matches!(self.remote, Remote::Folder(_))
    }

    /// Whether it can say which files it has.
    pub fn has_listing(&self) -> bool {
        !matches!(self.remote, Remote::Http(_))
    }
}

/// A registry that is published to.
pub struct Published {
    name: String,
    place: Place,
}

/// What can be written to.
enum Place {
    Folder(super::folder::Folder),
    #[cfg(feature = "cloud")]
    Cloud(remote::CloudStore),
}

impl Published {
    /// Opens it; a folder that does not exist is made.
    pub fn open(text: &str) -> Result<Self, Failure> {
        let place = match remote::open(text, &Options::of_environment()?)? {
            Remote::Folder(folder) => {
                let path = folder.root();
                fs::create_dir_all(path).map_err(|e| {
                    Failure::failed(format!("the folder `{}` cannot be made: {e}", path.display()))
                })?;
                Place::Folder(folder)
            }
            Remote::Http(_) => {
                return Err(Failure::usage(format!("`{text}` is a web server, which can only be read"))
                    .help("publish to the folder that it serves, or to a bucket: s3://BUCKET/PREFIX"));
            }
            #[cfg(feature = "cloud")]
            Remote::Cloud(cloud) => Place::Cloud(cloud),
        };
        Ok(Self { name: text.to_owned(), place })
    }

    /// As it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    pub fn store(&self) -> &dyn StoreMut {
        match &self.place {
            Place::Folder(folder) => folder,
            #[cfg(feature = "cloud")]
            Place::Cloud(cloud) => cloud,
        }
    }

    /// Keeps others out where the place itself cannot compare and swap.
    pub fn lock(&self) -> Result<Option<Lock>, Failure> {
        match &self.place {
            Place::Folder(folder) => {
                let lock = folder.lock(PATIENCE);
                lock.map(Some)
                    .map_err(|e| Failure::failed(e.to_string()).help("run this again when it is done"))
            }
            #[cfg(feature = "cloud")]
            Place::Cloud(_) => Ok(None),
        }
    }
}
