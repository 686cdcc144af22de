//! Private keys in files: nobody else may read them, and making one never replaces anything.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use capgate_registry::keys::{KeyError, SigningKey, VerifierKey};
use capgate_ssh::private_key::{self, PrivateKeyError};
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
    /// It is a file of ssh-keygen that cannot be used.
    #[error("the key file `{}` {source}", path.display())]
    OpenSsh {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: PrivateKeyError,
    },
    /// It holds no name, and none of the known keys is its public half.
    #[error("the key in `{}` is none of the keys that may sign here", path.display())]
    Nameless {
        /// The file.
        path: PathBuf,
    },
}

/// Reads a private key. A PEM, or a file of ssh-keygen, has no name: it gets that of the key among `known` whose private
/// half it is.
pub fn read(path: &Path, known: &[VerifierKey]) -> Result<SigningKey, KeyFileError> {
    let text = read_text(path)?;
    if text.contains(PEM) || is_openssh(&text) {
        return named_as_known(path, &text, known);
    }
    let line = text.strip_suffix('\n').unwrap_or(&text);
    SigningKey::parse(line).map_err(|source| KeyFileError::Key { path: path.to_owned(), source })
}

/// Reads a PKCS#8 PEM, or a file of ssh-keygen, as the key of that name.
pub fn import(path: &Path, name: &str) -> Result<SigningKey, KeyFileError> {
    nameless(path, &read_text(path)?, name)
}

fn is_openssh(text: &str) -> bool {
    text.starts_with(private_key::BEGIN)
}

/// A key whose file says everything but its name.
fn nameless(path: &Path, text: &str, name: &str) -> Result<SigningKey, KeyFileError> {
    let unusable = |source| KeyFileError::Key { path: path.to_owned(), source };
    if !is_openssh(text) {
        return SigningKey::from_pkcs8_pem(name, text).map_err(unusable);
    }
    let malformed = |source| KeyFileError::OpenSsh { path: path.to_owned(), source };
    let found = private_key::read(text).map_err(malformed)?;
    let key = SigningKey::from_seed(name, *found.seed).map_err(unusable)?;
    if *key.verifier().public() != found.public {
        return Err(malformed(PrivateKeyError::Malformed("its public key is not that of its secret")));
    }
    Ok(key)
}

fn named_as_known(path: &Path, text: &str, known: &[VerifierKey]) -> Result<SigningKey, KeyFileError> {
    for verifier in known {
        let key = nameless(path, text, verifier.name())?;
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
