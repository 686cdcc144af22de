//! `capgate host`: what a host says of itself to the guests that cannot see it.

mod accept;
mod attest;
mod statement;
mod verify;
mod watch;

use std::path::Path;

use capgate_registry::keys::VerifierKey;

use crate::exit::Failure;
use crate::world::file;

pub use attest::run as attest;
pub use verify::{carry, run as verify};

/// Largest file with one public key, in bytes.
const MAX_KEY: u64 = 1_000;

/// Reads a file with the public key of a host, the line that `capgate keygen` prints.
pub fn read_host_key(path: &Path) -> Result<VerifierKey, Failure> {
    let shown = path.display();
    let bytes = file::read(path, MAX_KEY)
        .map_err(|e| Failure::failed(format!("the host key `{shown}` cannot be read: {e}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.strip_suffix('\n').unwrap_or(&text);
    if line.starts_with("PRIVATE+KEY+") || line.contains("PRIVATE KEY-----") {
        return Err(Failure::invalid(format!("`{shown}` holds a private key, which must not leave its host"))
            .help("give a file with the line that `capgate keygen` printed; and make a new key, if this one left its host"));
    }
    VerifierKey::parse(line).map_err(|e| {
        Failure::invalid(format!("`{shown}` is no public key: {e}"))
            .help("give a file with the line that `capgate keygen` printed")
    })
}
