//! A bundle of evidence in a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use capgate_registry::evidence::bundle::{BundleFiles, MOST_FILES};
use capgate_registry::store::StoreError;

use super::file;

/// The folder of a bundle.
#[derive(Debug)]
pub struct BundleFolder {
    root: PathBuf,
    progress: indicatif::ProgressBar,
}

impl BundleFolder {
    /// The bundle in that folder; `progress` counts the files that were read.
    pub fn new(root: &Path, progress: indicatif::ProgressBar) -> Self {
        Self { root: root.to_owned(), progress }
    }

    fn list_into(&self, folder: &Path, prefix: &str, paths: &mut Vec<String>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.list_into(&entry.path(), &format!("{path}/"), paths)?;
            } else {
                paths.push(path);
            }
            // One more than is accepted is enough to refuse.
            if paths.len() > MOST_FILES {
                break;
            }
        }
        Ok(())
    }
}

impl BundleFiles for BundleFolder {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        let mut paths = Vec::new();
        let listed = self.list_into(&self.root, "", &mut paths);
        listed.map_err(|source| StoreError::io(&self.root.display().to_string(), source))?;
        paths.sort();
        Ok(paths)
    }

    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        self.progress.inc(1);
        let full = self.root.join(path);
        let error = |source| StoreError::io(path, source);
        let size = fs::metadata(&full).map_err(error)?.len();
        if size > cap {
            return Err(StoreError::TooLarge { path: path.to_owned(), size, cap });
        }
        file::read(&full, cap).map_err(error)
    }

    fn is_link(&self, path: &str) -> bool {
        let mut at = self.root.clone();
        path.split('/').any(|part| {
            at.push(part);
            fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_symlink())
        })
    }
}
