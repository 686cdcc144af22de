//! Keys of witnesses, and the cosignatures that they make.

use std::fmt;
use std::str::FromStr;

use base64ct::{Base64, Encoding};
use jiff::Timestamp;

use crate::keys::{COSIGNATURE, KeyError, SignError, SigningKey, VerifierKey};
use crate::note::{NoteKey, spell};

/// Bytes of a cosignature behind the key hash: time and signature.
pub(super) const COSIGNATURE_BYTES: usize = 8 + 64;

/// A witness's public key: `NAME+HASH8+BASE64(0x04 || 32 public bytes)`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WitnessKey {
    key: VerifierKey,
    hash: [u8; 4],
}

impl WitnessKey {
    /// The witness that signs with this key.
    pub fn new(key: VerifierKey) -> Self {
        Self { hash: key.hash_as(COSIGNATURE), key }
    }

    /// Parses the text form. A plain key is refused: it would be a key for another purpose.
    ///
    /// Errors: [`KeyError::NoWitness`] and those of [`VerifierKey::parse`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        VerifierKey::parse_cosigner(text).map(Self::new)
    }

    /// The Ed25519 key, as its owner's other roles know it.
    pub fn key(&self) -> &VerifierKey {
        &self.key
    }

    /// The name in signature lines.
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// The 32 public bytes.
    pub fn public(&self) -> &[u8; 32] {
        self.key.public()
    }
}

impl FromStr for WitnessKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

impl fmt::Display for WitnessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let material = [&[COSIGNATURE], self.public().as_slice()].concat();
        let hash = u32::from_be_bytes(self.hash);
        write!(f, "{}+{hash:08x}+{}", self.name(), Base64::encode_string(&material))
    }
}

impl NoteKey for WitnessKey {
    fn name(&self) -> &str {
        self.key.name()
    }

    fn hash(&self) -> [u8; 4] {
        self.hash
    }

    fn public(&self) -> &[u8; 32] {
        self.key.public()
    }

    fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        let Some((time, signature)) = signature.split_first_chunk::<8>() else { return false };
        let Ok(signature) = <&[u8; 64]>::try_from(signature) else { return false };
        let time = u64::from_be_bytes(*time);
        // The specification's bound.
        i64::try_from(time).is_ok() && self.key.verify(message(time, text).as_bytes(), signature)
    }
}

/// What is signed (C2SP tlog-cosignature, "Ed25519 signed message").
fn message(time: u64, text: &str) -> String {
    format!("cosignature/v1\ntime {time}\n{text}")
}

/// A witness's private key: any Ed25519 key. What it signs as a witness is nothing that another role signs.
#[derive(Debug)]
pub struct WitnessSigner {
    key: SigningKey,
    verifier: WitnessKey,
}

impl WitnessSigner {
    /// Makes a witness of a key.
    pub fn new(key: SigningKey) -> Self {
        Self { verifier: WitnessKey::new(key.verifier().clone()), key }
    }

    /// The public half.
    pub fn verifier(&self) -> &WitnessKey {
        &self.verifier
    }

    /// The cosignature of a checkpoint's text as a signature line with its LF. Whoever calls this has judged the checkpoint
    /// and put down, where it survives, that it was cosigned. A time before 1970 counts as 1970.
    ///
    /// Errors: the key cannot sign where it is kept.
    pub fn cosign(&self, text: &str, now: Timestamp) -> Result<String, SignError> {
        let time = u64::try_from(now.as_second()).unwrap_or_default();
        let signature = self.key.sign(message(time, text).as_bytes())?;
        let bytes = [time.to_be_bytes().as_slice(), &signature].concat();
        Ok(spell(self.verifier.name(), self.verifier.hash, &bytes))
    }
}
