//! Private keys in files: nobody else may read them, and making one never replaces anything.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use capgate_registry::keys::{KeyError, SigningKey, VerifierKey};
use zeroize::Zeroizing;

use super::file;

/// Largest key file, in bytes.
const MAX_BYTES: u64 = 16 * 1024;
const PEM: &str = "-----BEGIN PRIVATE KEY-----";

/// Says why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read.
    #[error("the key file `{}` cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Others than its owner can read or write it.
    #[error("the key file `{}` can be used by others than its owner (mode {mode:03o})", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Its content is no key.
    #[error("the key file `{}`: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: KeyError,
    },
    /// A PEM holds no name, and none of the known keys is its public half.
    #[error("the PEM in `{}` is none of the keys that may sign here", path.display())]
    Nameless {
        /// The file.
        path: PathBuf,
    },
}

/// Reads a private key. A PEM has no name: it gets that of the key among `known` whose private half it is.
pub fn read(path: &Path, known: &[VerifierKey]) -> Result<SigningKey, KeyFileError> {
    let text = read_text(path)?;
    if text.contains(PEM) {
        return named_as_known(path, &text, known);
    }
    let line = text.strip_suffix('\n').unwrap_or(&text);
    SigningKey::parse(line).map_err(|source| KeyFileError::Key { path: path.to_owned(), source })
}

/// Reads a PKCS#8 PEM, or a private key in its text form, as the key of that name.
pub fn import(path: &Path, name: &str) -> Result<SigningKey, KeyFileError> {
    let text = read_text(path)?;
    let key = SigningKey::from_pkcs8_pem(name, &text);
    key.map_err(|source| KeyFileError::Key { path: path.to_owned(), source })
}

fn named_as_known(path: &Path, pem: &str, known: &[VerifierKey]) -> Result<SigningKey, KeyFileError> {
    for verifier in known {
        let key = SigningKey::from_pkcs8_pem(verifier.name(), pem);
        let key = key.map_err(|source| KeyFileError::Key { path: path.to_owned(), source })?;
        if key.verifier() == verifier {
            return Ok(key);
        }
    }
    Err(KeyFileError::Nameless { path: path.to_owned() })
}

/// The text of a key file, wiped when dropped, if nobody else can use the file.
fn read_text(path: &Path) -> Result<Zeroizing<String>, KeyFileError> {
    let error = |source| KeyFileError::Read { path: path.to_owned(), source };
    let file = file::open_regular(path).map_err(error)?;
    let mode = file.metadata().map_err(error)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Open { path: path.to_owned(), mode });
    }
    let bytes = Zeroizing::new(file::read_open(file, MAX_BYTES).map_err(error)?);
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(error(io::Error::other("is not text"))),
    }
}
