//! Keys that a command was given: in files, or in the ssh-agent.

use std::path::Path;

use capgate_registry::keys::{SigningKey, VerifierKey};
use capgate_registry::note::NoteError;
use capgate_registry::trust::Role;
use capgate_ssh::private_key::PrivateKeyError;

use super::held;
use crate::cli::KeyArg;
use crate::exit::Failure;
use crate::world::keyfile::{self, KeyFileError};

/// Gets at a private key. One that has no name of its own gets that of the key among `known` whose private half it is.
pub fn read(given: &KeyArg, known: &[VerifierKey]) -> Result<SigningKey, Failure> {
    match given {
        KeyArg::File(path) => keyfile::read(path, known).map_err(|e| unusable(&e)),
        KeyArg::Named(name) => held::named(name, known),
        KeyArg::Whole(key) => held::one_of(std::slice::from_ref(key.as_ref())),
    }
}

/// What is wrong with a key file, and what fixes it.
pub fn unusable(error: &KeyFileError) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error {
        KeyFileError::Open { path, .. } => failure.help(format!("chmod 600 {}", path.display())),
        KeyFileError::Nameless { path } => failure
            .help(format!("give it a name: capgate keygen NAME --import {} --out FILE", path.display())),
        KeyFileError::Key { .. } => failure.help(
            "give a file that `capgate keygen` wrote, an unencrypted PKCS#8 PEM, or an unencrypted OpenSSH key",
        ),
        KeyFileError::OpenSsh { path, source: PrivateKeyError::Encrypted { .. } } => failure.help(format!(
            "put it into the agent, `ssh-add {}`, and give `agent:NAME` instead of the file",
            path.display()
        )),
        KeyFileError::OpenSsh { source: PrivateKeyError::Kind { .. }, .. } => {
            failure.help("make one with `capgate keygen`, or with `ssh-keygen -t ed25519`")
        }
        KeyFileError::OpenSsh { .. } | KeyFileError::Read { .. } => failure,
    }
}

/// Why something was not signed: a key that does not sign is no fault of what was to be signed.
pub fn not_signed(what: &str, error: &NoteError) -> Failure {
    let message = format!("{what} cannot be signed: {error}");
    match error {
        NoteError::Sign(_) => Failure::failed(message),
        _ => Failure::invalid(message),
    }
}

/// Reads the private keys of a role; one that is not of the role is an error, since its signature would count for
/// nothing.
pub fn some_of_role(given: &[KeyArg], role: &Role, name: &str) -> Result<Vec<SigningKey>, Failure> {
    let mut keys: Vec<SigningKey> = Vec::new();
    for given in given {
        let key = read(given, &role.keys)?;
        if !role.keys.contains(key.verifier()) {
            let names: Vec<String> = role.keys.iter().map(|key| format!("`{}`", key.name())).collect();
            let message = format!("the key `{}` in `{given}` is no {name} key here", key.verifier().name());
            return Err(Failure::failed(message).help(format!("the {name} keys are {}", names.join(", "))));
        }
        if keys.iter().all(|known| known.verifier() != key.verifier()) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// The same, and as many as must sign.
pub fn of_role(given: &[KeyArg], role: &Role, name: &str) -> Result<Vec<SigningKey>, Failure> {
    let keys = some_of_role(given, role, name)?;
    if keys.len() < role.threshold {
        let message = format!(
            "{} of {} {name} keys are given, {} must sign",
            keys.len(),
            role.keys.len(),
            role.threshold
        );
        let help = match name {
            "registry" => "give `--registry-key KEY` once for each",
            "publisher" => {
                "give `--key KEY` once for each, or sign apart: `capgate sign`, then `capgate publish --note`"
            }
            _ => "give `--key KEY` once for each",
        };
        return Err(Failure::failed(message).help(help));
    }
    Ok(keys)
}

/// A public key, or the public half of a key file.
pub fn public(text: &str) -> Result<VerifierKey, Failure> {
    let path = Path::new(text);
    if path.exists() {
        return read(&KeyArg::File(path.to_owned()), &[]).map(|key| key.verifier().clone());
    }
    VerifierKey::parse(text).map_err(|e| {
        Failure::usage(format!("`{text}` is neither a file nor a public key: {e}"))
            .help("a public key is the line that `capgate keygen` prints")
    })
}
