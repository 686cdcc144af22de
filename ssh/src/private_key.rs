//! Private key files that `ssh-keygen -t ed25519` writes, where they are not encrypted.
//!
//! ```text
//! -----BEGIN OPENSSH PRIVATE KEY-----      then base64, broken into lines, of:
//! "openssh-key-v1\0"                       then strings and numbers as SSH writes them:
//! string  cipher                           `none`
//! string  key derivation                   `none`
//! string  its options                      empty
//! number  keys                             1
//! string  public key                       `ssh-ed25519`, 32 public bytes
//! string  private part:
//!   number, number                         twice the same
//!   string  `ssh-ed25519`
//!   string  32 public bytes
//!   string  32 seed bytes || 32 public bytes
//!   string  comment
//!   bytes   1, 2, 3 … up to a multiple of 8
//! -----END OPENSSH PRIVATE KEY-----
//! ```
//!
//! Source: OpenSSH's `PROTOCOL.key`.

use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

use crate::wire::{Reader, Short};
use crate::{ED25519, ed25519_of};

/// The first line of such a file.
pub const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8] = b"openssh-key-v1\0";
/// Block length of the cipher `none`.
const BLOCK: usize = 8;

/// Says why a file cannot be used. No variant carries secret bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrivateKeyError {
    /// The lines around the base64 are not there.
    #[error("is no OpenSSH private key")]
    Armour,
    /// What is between them is no base64.
    #[error("does not hold canonical base64")]
    Base64,
    /// Its own lengths do not fit, or two places that must agree do not.
    #[error("is a malformed OpenSSH private key: {0}")]
    Malformed(&'static str),
    /// It is encrypted, and passphrases are never asked for here.
    #[error("is encrypted with a passphrase (`{}`)", cipher.escape_debug())]
    Encrypted {
        /// The cipher, cut to what an error shows.
        cipher: String,
    },
    /// It holds several keys, or none.
    #[error("holds {count} keys, exactly one is read")]
    Count {
        /// How many.
        count: u32,
    },
    /// It is a key of another kind.
    #[error("is a `{}` key, only `{ED25519}` is accepted", found.escape_debug())]
    Kind {
        /// The kind, cut to what an error shows.
        found: String,
    },
}

/// What a file holds.
pub struct PrivateKey {
    /// The 32 secret bytes of RFC 8032 §5.1.5; wiped when dropped.
    pub seed: Zeroizing<[u8; 32]>,
    /// The 32 public bytes as the file states them; whether they are those of the seed was not computed.
    pub public: [u8; 32],
    /// What its owner calls it.
    pub comment: String,
}

/// Reads a private key file.
pub fn read(text: &str) -> Result<PrivateKey, PrivateKeyError> {
    let bytes = decode(text)?;
    let bytes = bytes.strip_prefix(MAGIC).ok_or(PrivateKeyError::Malformed("its first bytes"))?;
    let mut reader = Reader::new(bytes);
    let cipher = reader.string().map_err(within("the cipher"))?;
    if cipher != b"none" {
        return Err(PrivateKeyError::Encrypted { cipher: shown(cipher) });
    }
    if reader.string().map_err(within("the key derivation"))? != b"none"
        || !reader.string().map_err(within("the key derivation"))?.is_empty()
    {
        return Err(PrivateKeyError::Malformed("the key derivation"));
    }
    let count = reader.number().map_err(within("the number of keys"))?;
    if count != 1 {
        return Err(PrivateKeyError::Count { count });
    }
    let (kind, public) =
        ed25519_of(reader.string().map_err(within("the public key"))?).map_err(within("the public key"))?;
    let public = public.ok_or_else(|| PrivateKeyError::Kind { found: shown(kind.as_bytes()) })?;
    let private = reader.string().map_err(within("the private part"))?;
    reader.finish().map_err(within("the end"))?;
    private_part(private, public)
}

fn private_part(bytes: &[u8], public: [u8; 32]) -> Result<PrivateKey, PrivateKeyError> {
    let part = within("the private part");
    let mut reader = Reader::new(bytes);
    if reader.number().map_err(part)? != reader.number().map_err(part)? {
        return Err(PrivateKeyError::Malformed("the numbers of the private part differ"));
    }
    let kind = reader.string().map_err(part)?;
    let same = reader.string().map_err(part)?;
    let pair = reader.string().map_err(part)?.split_first_chunk::<32>();
    let (seed, behind) = pair.ok_or(PrivateKeyError::Malformed("the private key"))?;
    if kind != ED25519.as_bytes() || same != public || behind != public {
        return Err(PrivateKeyError::Malformed("its private and public parts are of different keys"));
    }
    let comment = String::from_utf8_lossy(reader.string().map_err(part)?).into_owned();
    let padding = reader.rest();
    let counts = (1u8..).zip(padding).all(|(wanted, &found)| wanted == found);
    if !counts || padding.len() >= BLOCK || !bytes.len().is_multiple_of(BLOCK) {
        return Err(PrivateKeyError::Malformed("the padding"));
    }
    Ok(PrivateKey { seed: Zeroizing::new(*seed), public, comment })
}

/// The bytes between the two lines.
fn decode(text: &str) -> Result<Zeroizing<Vec<u8>>, PrivateKeyError> {
    let armour = || PrivateKeyError::Armour;
    let inner = text.trim_end().strip_prefix(BEGIN).ok_or_else(armour)?;
    let inner = inner.strip_suffix(END).ok_or_else(armour)?;
    let mut base64 = Zeroizing::new(String::with_capacity(inner.len()));
    inner.lines().for_each(|line| base64.push_str(line));
    Base64::decode_vec(&base64).map(Zeroizing::new).map_err(|_| PrivateKeyError::Base64)
}

fn within(what: &'static str) -> impl Fn(Short) -> PrivateKeyError + Copy {
    move |Short| PrivateKeyError::Malformed(what)
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(64).collect()
}
