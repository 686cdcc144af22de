//! Reads and writes what OpenSSH keeps Ed25519 keys in: messages to and from its agent, and its private key files.
//!
//! Bytes come in and go out, nothing is read from anywhere. Every length in a message or a file is a claim: each is capped
//! and checked before it is used, and what is left over is an error.
//!
//! Sources: draft-miller-ssh-agent (the agent), RFC 4251 §5 (strings and numbers), RFC 8709 (Ed25519 in SSH), OpenSSH's
//! `PROTOCOL.key` (private key files).

pub mod agent;
pub mod private_key;
mod wire;

use base64ct::{Base64Unpadded, Encoding};
use sha2::{Digest, Sha256};

/// The one kind of key that is of use here.
pub const ED25519: &str = "ssh-ed25519";

/// A public key as SSH writes it: the kind, then the 32 bytes of RFC 8032.
pub fn blob(public: &[u8; 32]) -> Vec<u8> {
    let mut blob = Vec::with_capacity(4 + ED25519.len() + 4 + public.len());
    wire::put_string(&mut blob, ED25519.as_bytes());
    wire::put_string(&mut blob, public);
    blob
}

/// The digest by which `ssh-add -l` and `ssh-keygen -l` name a key: `SHA256:` and base64 without padding.
pub fn fingerprint(blob: &[u8]) -> String {
    format!("SHA256:{}", Base64Unpadded::encode_string(&Sha256::digest(blob)))
}

/// The 32 bytes of an Ed25519 public key; `None` where it is of another kind, the error where it is malformed.
fn ed25519_of(blob: &[u8]) -> Result<(String, Option<[u8; 32]>), wire::Short> {
    let mut reader = wire::Reader::new(blob);
    let kind = reader.string()?;
    if kind != ED25519.as_bytes() {
        return Ok((String::from_utf8_lossy(kind).into_owned(), None));
    }
    let public = reader.string()?.try_into().map_err(|_| wire::Short)?;
    reader.finish()?;
    Ok((ED25519.to_owned(), Some(public)))
}
