//! A bundle's bytes: every file that is listed or used, checked against `SHA256SUMS` before anyone reads it.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::codes::Code;
use super::finding::Finding;
use super::sums::{self, Sums};
use crate::combination::{Hex, Sha256Digest};
use crate::store::StoreError;

/// The name of the list of digests.
pub const SUMS_NAME: &str = "SHA256SUMS";
/// Most bytes of one file.
pub const MOST_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Most bytes of all files together.
pub const MOST_BYTES: u64 = 1024 * 1024 * 1024;
/// Most files in the folder.
pub const MOST_FILES: usize = 10_000;

/// Reads a bundle's folder.
pub trait BundleFiles {
    /// Paths of all files, parts separated by `/`; links are listed, not followed.
    fn list(&self) -> Result<Vec<String>, StoreError>;
    /// The whole file, refused when it has more than `cap` bytes.
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError>;
    /// Tells whether the path, or a folder on the way to it, is a link.
    fn is_link(&self, path: &str) -> bool;
}

/// What was read of a bundle.
#[derive(Debug, Default)]
pub struct Contents {
    /// SHA-256 of `SHA256SUMS`, which identifies the bundle.
    pub digest: Option<Sha256Digest>,
    /// Bytes of the files that are used and are what the list says.
    files: BTreeMap<String, Vec<u8>>,
    /// What is wrong with the bundle as a whole.
    pub findings: Vec<Finding>,
}

impl Contents {
    /// The bytes of a file; none where it is missing or not what the list says.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }
}

/// Reads every file that is listed or in `used` and checks it.
pub fn load<'u>(folder: &dyn BundleFiles, used: impl Iterator<Item = &'u str>) -> Contents {
    let mut loader =
        Loader { folder, contents: Contents::default(), links: BTreeSet::new(), left: MOST_BYTES };
    loader.refuse_links();
    let listed = loader.sums();
    let used: BTreeSet<&str> = used.collect();
    for file in &listed.files {
        loader.listed(&file.path, &file.sha256, used.contains(file.path.as_str()));
    }
    for path in used.into_iter().filter(|path| listed.digest(path).is_none()) {
        loader.unlisted(path);
    }
    loader.contents
}

struct Loader<'f> {
    folder: &'f dyn BundleFiles,
    contents: Contents,
    links: BTreeSet<String>,
    left: u64,
}

impl Loader<'_> {
    fn say(&mut self, code: Code, message: impl Into<String>, path: &str) {
        self.contents.findings.push(Finding::new(code, message).in_file(path));
    }

    fn refuse_links(&mut self) {
        match self.folder.list() {
            Ok(paths) if paths.len() > MOST_FILES => {
                let message = format!("the folder has {} files, more than {MOST_FILES}", paths.len());
                self.contents.findings.push(Finding::new(Code::TooLarge, message));
            }
            Ok(paths) => paths.iter().for_each(|path| {
                self.is_link(path);
            }),
            Err(error) => {
                self.contents
                    .findings
                    .push(Finding::new(Code::FileMissing, format!("the folder cannot be read: {error}")));
            }
        }
    }

    fn is_link(&mut self, path: &str) -> bool {
        if !self.folder.is_link(path) {
            return false;
        }
        if self.links.insert(path.to_owned()) {
            self.say(Code::Link, "is a link, which a bundle may not hold", path);
        }
        true
    }

    fn sums(&mut self) -> Sums {
        let Some(bytes) = self.read(SUMS_NAME, sums::MOST_BYTES as u64, Code::SumsMissing) else {
            return Sums::default();
        };
        self.contents.digest = Some(Hex(Sha256::digest(&bytes).into()));
        let mut listed = sums::read(&bytes);
        let findings = std::mem::take(&mut listed.findings);
        self.contents.findings.extend(findings.into_iter().map(|finding| finding.in_file(SUMS_NAME)));
        listed
    }

    fn listed(&mut self, path: &str, digest: &str, is_used: bool) {
        let Some(bytes) = self.read(path, MOST_FILE_BYTES, Code::FileMissing) else { return };
        let found: Sha256Digest = Hex(Sha256::digest(&bytes).into());
        if found.to_string() != digest {
            return self.say(
                Code::DigestMismatch,
                format!("has SHA-256 {found}, {SUMS_NAME} lists {digest}"),
                path,
            );
        }
        if is_used {
            self.contents.files.insert(path.to_owned(), bytes);
        }
    }

    fn unlisted(&mut self, path: &str) {
        let Some(bytes) = self.read(path, MOST_FILE_BYTES, Code::FileMissing) else { return };
        self.say(Code::UnlistedFile, format!("is used, but {SUMS_NAME} does not list it"), path);
        self.contents.files.insert(path.to_owned(), bytes);
    }

    fn read(&mut self, path: &str, cap: u64, missing: Code) -> Option<Vec<u8>> {
        if self.is_link(path) {
            return None;
        }
        match self.folder.read(path, cap.min(self.left)) {
            Ok(bytes) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                Some(bytes)
            }
            Err(error @ StoreError::TooLarge { .. }) => {
                self.say(Code::TooLarge, error.to_string(), path);
                None
            }
            Err(error) => {
                self.say(missing, error.to_string(), path);
                None
            }
        }
    }
}
