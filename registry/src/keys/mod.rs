//! Ed25519 keys in the text forms of C2SP signed-note, which Go's `golang.org/x/mod/sumdb/note` also reads.
//!
//! ```text
//! verifier key   NAME+HASH8+BASE64(0x01 || 32 public bytes)
//! signing key    PRIVATE+KEY+NAME+HASH8+BASE64(0x01 || 32 seed bytes)
//! key hash       SHA-256(NAME || 0x0A || 0x01 || 32 public bytes)[..4], written as 8 lower-case hex digits
//! ```
//!
//! Each key has exactly one spelling here: padded base64 without stray bits, lower-case hex, no surrounding space.
//! Source: C2SP signed-note, sections "Signatures" and "Verifier keys"; RFC 8032 for Ed25519 itself.

mod signing;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use base64ct::{Base64, Encoding};
use ed25519_dalek::Signature;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

pub use signing::{SignError, Signer, SigningKey};

/// Longest key name, in bytes.
pub const MAX_NAME: usize = 256;

/// The signed-note algorithm byte of plain Ed25519.
const ED25519: u8 = 0x01;
/// That of Ed25519 cosignatures with a time (C2SP tlog-cosignature).
pub(crate) const COSIGNATURE: u8 = 0x04;

/// Says why text is no key that is accepted. No variant carries secret bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The name is empty, too long, or holds `+`, space or an invisible character.
    #[error("`{}` is no key name: one to 256 bytes without `+`, white space or control characters", name.escape_debug())]
    Name {
        /// The name as given, cut to what an error shows.
        name: String,
    },
    /// The parts are not `name+hash+base64`.
    #[error("the key has not the form `{expected}`")]
    Form {
        /// The form it should have.
        expected: &'static str,
    },
    /// The hash in the text is not the hash of the name and the public key.
    #[error("the key `{name}` says hash `{}`, its name and bytes give `{computed}`", found.escape_debug())]
    Hash {
        /// Name of the key.
        name: String,
        /// Hash as written.
        found: String,
        /// Hash as computed.
        computed: String,
    },
    /// The key material is not base64 in its one spelling, or not 33 bytes.
    #[error("the key `{name}` does not hold 33 bytes in canonical base64")]
    Base64 {
        /// Name of the key.
        name: String,
    },
    /// Another algorithm than plain Ed25519, for example 0x04, a cosignature key.
    #[error("the key `{name}` has algorithm 0x{algorithm:02x}, only Ed25519 (0x01) is accepted")]
    Algorithm {
        /// Name of the key.
        name: String,
        /// The algorithm byte found.
        algorithm: u8,
    },
    /// A key that stands where a witness's key is needed has not the algorithm of cosignatures.
    #[error("the key `{name}` has algorithm 0x{algorithm:02x}, a witness's key has 0x{COSIGNATURE:02x}")]
    NoWitness {
        /// Name of the key.
        name: String,
        /// The algorithm byte found.
        algorithm: u8,
    },
    /// The 32 bytes are no point of the curve, or not in their canonical spelling.
    #[error("the key `{name}` is no Ed25519 public key")]
    Point {
        /// Name of the key.
        name: String,
    },
    /// A point of small order: signatures under it can be made without any private key.
    #[error("the key `{name}` is a weak key of small order, which anyone could sign for")]
    Weak {
        /// Name of the key.
        name: String,
    },
    /// The PEM text holds no unencrypted Ed25519 private key.
    #[error("the key `{name}` is no unencrypted PKCS#8 PEM with an Ed25519 private key")]
    Pem {
        /// Name the key should get.
        name: String,
    },
}

/// A public key with the name it signs under.
///
/// Equality, order and hash are those of (name, public bytes).
#[derive(Clone)]
pub struct VerifierKey {
    name: String,
    hash: [u8; 4],
    point: ed25519_dalek::VerifyingKey,
}

impl VerifierKey {
    /// Names 32 public bytes (RFC 8032 §5.1.2, compressed point).
    ///
    /// Errors: [`KeyError::Name`], [`KeyError::Point`], [`KeyError::Weak`].
    pub fn new(name: &str, public: &[u8; 32]) -> Result<Self, KeyError> {
        check_name(name)?;
        let not_a_point = || KeyError::Point { name: name.to_owned() };
        let point = ed25519_dalek::VerifyingKey::from_bytes(public).map_err(|_| not_a_point())?;
        // Weakness first: small-order points have spellings that are not canonical, and it is the graver reason.
        if point.is_weak() {
            return Err(KeyError::Weak { name: name.to_owned() });
        }
        // A second spelling of one point would count as a second signer.
        if point.to_edwards().compress().as_bytes() != public {
            return Err(not_a_point());
        }
        Ok(Self { name: name.to_owned(), hash: key_hash(name, ED25519, public), point })
    }

    /// Parses `NAME+HASH8+BASE64`.
    ///
    /// Errors: any [`KeyError`] but [`KeyError::Pem`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let parts = Parts::split(text, "NAME+HASH+BASE64")?;
        let key = Self::new(parts.name, &*parts.material(ED25519)?)?;
        parts.check_hash(key.hash)?;
        Ok(key)
    }

    /// Parses the same with the algorithm byte of cosignatures, over which its hash is, too. Returns the key as if it were
    /// a plain one.
    ///
    /// Errors: those of [`VerifierKey::parse`], with [`KeyError::NoWitness`] for another algorithm.
    pub(crate) fn parse_cosigner(text: &str) -> Result<Self, KeyError> {
        let parts = Parts::split(text, "NAME+HASH+BASE64")?;
        let key = Self::new(parts.name, &*parts.material(COSIGNATURE)?)?;
        parts.check_hash(key.hash_as(COSIGNATURE))?;
        Ok(key)
    }

    /// The hash that it has in signatures of another algorithm.
    pub(crate) fn hash_as(&self, algorithm: u8) -> [u8; 4] {
        key_hash(&self.name, algorithm, self.public())
    }

    /// The name in signature lines.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The four bytes that, with the name, say which key made a signature. Not collision resistant.
    pub fn hash(&self) -> [u8; 4] {
        self.hash
    }

    /// The 32 public bytes: what makes two keys distinct.
    pub fn public(&self) -> &[u8; 32] {
        self.point.as_bytes()
    }

    /// Tells whether `signature` (R || S) is this key's over exactly `message`.
    ///
    /// Strict: S below the group order, R not of small order, cofactorless equation.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.point.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tagged = tagged(self.public());
        write!(f, "{}+{}+{}", self.name, hash_hex(self.hash), Base64::encode_string(&*tagged))
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifierKey({self})")
    }
}

impl PartialEq for VerifierKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for VerifierKey {}

impl PartialOrd for VerifierKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for VerifierKey {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.name, self.public()).cmp(&(&other.name, other.public()))
    }
}

impl Hash for VerifierKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, self.public()).hash(state);
    }
}

/// The three parts of a key's text, base64 not yet decoded.
struct Parts<'a> {
    name: &'a str,
    hash: &'a str,
    base64: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str, expected: &'static str) -> Result<Self, KeyError> {
        let form = || KeyError::Form { expected };
        let (name, rest) = text.split_once('+').ok_or_else(form)?;
        // Base64 may hold `+` too, so only the first two separate.
        let (hash, base64) = rest.split_once('+').ok_or_else(form)?;
        check_name(name)?;
        Ok(Self { name, hash, base64 })
    }

    /// The 32 bytes behind the algorithm byte.
    fn material(&self, wanted: u8) -> Result<Zeroizing<[u8; 32]>, KeyError> {
        let not_base64 = || KeyError::Base64 { name: self.name.to_owned() };
        let mut buffer = Zeroizing::new([0u8; 33]);
        let decoded = Base64::decode(self.base64, &mut *buffer).map_err(|_| not_base64())?;
        let (&algorithm, material) = decoded.split_first().ok_or_else(not_base64)?;
        if algorithm != wanted {
            let name = self.name.to_owned();
            return Err(match wanted {
                COSIGNATURE => KeyError::NoWitness { name, algorithm },
                _ => KeyError::Algorithm { name, algorithm },
            });
        }
        let mut bytes = Zeroizing::new([0u8; 32]);
        if material.len() != bytes.len() {
            return Err(not_base64());
        }
        bytes.copy_from_slice(material);
        Ok(bytes)
    }

    fn check_hash(&self, computed: [u8; 4]) -> Result<(), KeyError> {
        let computed = hash_hex(computed);
        if self.hash == computed {
            return Ok(());
        }
        Err(KeyError::Hash { name: self.name.to_owned(), found: shown(self.hash), computed })
    }
}

/// Checks a key name: 1 to 256 printable ASCII characters but space and `+`.
///
/// C2SP signed-note allows more; a site demands signers by name, so no two names may look alike.
///
/// Errors: [`KeyError::Name`]. Source: C2SP signed-note, "Signatures".
pub fn check_name(name: &str) -> Result<(), KeyError> {
    let good = |c: char| c.is_ascii_graphic() && c != '+';
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(good) {
        return Err(KeyError::Name { name: shown(name) });
    }
    Ok(())
}

/// SHA-256 of name, LF, algorithm and public bytes, cut to four bytes (C2SP signed-note, "Signatures").
fn key_hash(name: &str, algorithm: u8, public: &[u8; 32]) -> [u8; 4] {
    let digest =
        Sha256::new().chain_update(name).chain_update([b'\n', algorithm]).chain_update(public).finalize();
    let mut hash = [0; 4];
    for (to, from) in hash.iter_mut().zip(digest) {
        *to = from;
    }
    hash
}

fn hash_hex(hash: [u8; 4]) -> String {
    format!("{:08x}", u32::from_be_bytes(hash))
}

/// The algorithm byte followed by the key bytes; wiped, as they may be secret.
fn tagged(bytes: &[u8; 32]) -> Zeroizing<[u8; 33]> {
    let mut tagged = Zeroizing::new([ED25519; 33]);
    for (to, from) in tagged.iter_mut().skip(1).zip(bytes) {
        *to = *from;
    }
    tagged
}

/// At most 64 characters of what somebody gave, for an error.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}
