//! Key files that a command was given.

use std::path::{Path, PathBuf};

use capgate_registry::keys::{SigningKey, VerifierKey};
use capgate_registry::trust::Role;

use crate::exit::Failure;
use crate::world::keyfile::{self, KeyFileError};

/// Reads a private key.
pub fn read(path: &Path, known: &[VerifierKey]) -> Result<SigningKey, Failure> {
    keyfile::read(path, known).map_err(|e| unusable(&e))
}

/// What is wrong with a key file, and what fixes it.
pub fn unusable(error: &KeyFileError) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error {
        KeyFileError::Open { path, .. } => failure.help(format!("chmod 600 {}", path.display())),
        KeyFileError::Nameless { path } => failure
            .help(format!("give it a name: capgate keygen NAME --import {} --out FILE", path.display())),
        KeyFileError::Key { .. } => {
            failure.help("give a file that `capgate keygen` wrote, or an unencrypted PKCS#8 PEM")
        }
        KeyFileError::Read { .. } => failure,
    }
}

/// Reads the private keys of a role; one that is not of the role is an error, since its signature would count for
/// nothing.
pub fn of_role(paths: &[PathBuf], role: &Role, name: &str) -> Result<Vec<SigningKey>, Failure> {
    let mut keys: Vec<SigningKey> = Vec::new();
    for path in paths {
        let key = read(path, &role.keys)?;
        if !role.keys.contains(key.verifier()) {
            let names: Vec<String> = role.keys.iter().map(|key| format!("`{}`", key.name())).collect();
            let shown = path.display();
            let message = format!("the key `{}` in `{shown}` is no {name} key here", key.verifier().name());
            return Err(Failure::failed(message).help(format!("the {name} keys are {}", names.join(", "))));
        }
        if keys.iter().all(|known| known.verifier() != key.verifier()) {
            keys.push(key);
        }
    }
    if keys.len() < role.threshold {
        let message = format!(
            "{} of {} {name} keys are given, {} must sign",
            keys.len(),
            role.keys.len(),
            role.threshold
        );
        let option = if name == "registry" { "--registry-key" } else { "--key" };
        return Err(Failure::failed(message).help(format!("give `{option} FILE` once for each")));
    }
    Ok(keys)
}

/// A public key, or the public half of a key file.
pub fn public(text: &str) -> Result<VerifierKey, Failure> {
    let path = Path::new(text);
    if path.exists() {
        return read(path, &[]).map(|key| key.verifier().clone());
    }
    VerifierKey::parse(text).map_err(|e| {
        Failure::usage(format!("`{text}` is neither a file nor a public key: {e}"))
            .help("a public key is the line that `capgate keygen` prints")
    })
}
