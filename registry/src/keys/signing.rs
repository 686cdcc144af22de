//! Private keys: here as a seed, or kept elsewhere by something that only hands out signatures.

use std::fmt;

use base64ct::{Base64, Encoding};
use ed25519_dalek::Signer as _;
use ed25519_dalek::pkcs8::DecodePrivateKey;
use zeroize::Zeroizing;

use super::{KeyError, Parts, VerifierKey, hash_hex, shown, tagged};

/// Base64 length of the algorithm byte and 32 key bytes; 33 is a multiple of three, so there is no padding.
const KEY_BASE64: usize = 44;
const PRIVATE_PREFIX: &str = "PRIVATE+KEY+";

/// Something that keeps a private key to itself and signs with it, such as an agent or a token.
pub trait Signer {
    /// Signs exactly `message` with plain Ed25519 (RFC 8032 §5.1.6). Returns R || S.
    ///
    /// Errors: why there is no signature, as a phrase without a full stop.
    fn sign(&self, message: &[u8]) -> Result<[u8; 64], String>;
}

/// Says why a key that is kept elsewhere gave no signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// What keeps the key did not sign.
    #[error("no signature of the key `{name}`: {reason}")]
    Refused {
        /// Name of the key.
        name: String,
        /// What it said.
        reason: String,
    },
    /// What came back is not this key's signature over what was to be signed.
    #[error("what keeps the key `{name}` answered with a signature that is not that key's over this text")]
    Wrong {
        /// Name of the key.
        name: String,
    },
}

/// A private key with the name it signs under. Its bytes are wiped when it is dropped and never shown by `Debug`.
pub struct SigningKey {
    verifier: VerifierKey,
    secret: Secret,
}

enum Secret {
    Here(Box<ed25519_dalek::SigningKey>),
    Elsewhere(Box<dyn Signer + Send + Sync>),
}

impl SigningKey {
    /// Makes a key from 32 secret bytes (RFC 8032 §5.1.5), which must come from the system's random source.
    ///
    /// Errors: [`KeyError::Name`].
    pub fn from_seed(name: &str, seed: [u8; 32]) -> Result<Self, KeyError> {
        let seed = Zeroizing::new(seed);
        Self::from_secret(name, ed25519_dalek::SigningKey::from_bytes(&seed))
    }

    /// Parses `PRIVATE+KEY+NAME+HASH8+BASE64`.
    ///
    /// Errors: any [`KeyError`] but [`KeyError::Pem`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let expected = "PRIVATE+KEY+NAME+HASH+BASE64";
        let rest = text.strip_prefix(PRIVATE_PREFIX).ok_or(KeyError::Form { expected })?;
        let parts = Parts::split(rest, expected)?;
        let key = Self::from_secret(
            parts.name,
            ed25519_dalek::SigningKey::from_bytes(&*parts.material(super::ED25519)?),
        )?;
        parts.check_hash(key.verifier.hash)?;
        Ok(key)
    }

    /// Reads an unencrypted PKCS#8 PEM, such as `openssl genpkey -algorithm ed25519` writes, and names it.
    ///
    /// Errors: [`KeyError::Name`], [`KeyError::Pem`]. Source: RFC 8410 §7.
    pub fn from_pkcs8_pem(name: &str, pem: &str) -> Result<Self, KeyError> {
        let secret = ed25519_dalek::SigningKey::from_pkcs8_pem(pem);
        Self::from_secret(name, secret.map_err(|_| KeyError::Pem { name: shown(name) })?)
    }

    /// Takes a key that is kept elsewhere. That `signer` holds the private half of `verifier` shows when it signs.
    pub fn elsewhere(verifier: VerifierKey, signer: Box<dyn Signer + Send + Sync>) -> Self {
        Self { verifier, secret: Secret::Elsewhere(signer) }
    }

    fn from_secret(name: &str, secret: ed25519_dalek::SigningKey) -> Result<Self, KeyError> {
        let verifier = VerifierKey::new(name, secret.verifying_key().as_bytes())?;
        Ok(Self { verifier, secret: Secret::Here(Box::new(secret)) })
    }

    /// The `PRIVATE+KEY+…` text, without a line end; wiped when dropped. There is none of a key that is kept elsewhere.
    pub fn encode(&self) -> Option<Zeroizing<String>> {
        let Secret::Here(secret) = &self.secret else { return None };
        let name = self.verifier.name();
        // Room for all of it at once: growing would leave copies of the secret behind.
        let mut text =
            Zeroizing::new(String::with_capacity(PRIVATE_PREFIX.len() + name.len() + 10 + KEY_BASE64));
        for part in [PRIVATE_PREFIX, name, "+", &hash_hex(self.verifier.hash), "+"] {
            text.push_str(part);
        }
        let material = tagged(secret.as_bytes());
        let mut buffer = Zeroizing::new([0u8; KEY_BASE64]);
        // The buffer has exactly the length that 33 bytes take, so encoding cannot fail.
        text.push_str(Base64::encode(&*material, &mut *buffer).unwrap_or_default());
        Some(text)
    }

    /// The public half.
    pub fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    /// Signs exactly `message`; deterministic, as Ed25519 is. Returns R || S.
    ///
    /// Errors: only of a key that is kept elsewhere. What comes back from there is verified before it is used.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; 64], SignError> {
        let name = || self.verifier.name().to_owned();
        let signature = match &self.secret {
            Secret::Here(secret) => return Ok(secret.sign(message).to_bytes()),
            Secret::Elsewhere(signer) => {
                signer.sign(message).map_err(|reason| SignError::Refused { name: name(), reason })?
            }
        };
        if !self.verifier.verify(message, &signature) {
            return Err(SignError::Wrong { name: name() });
        }
        Ok(signature)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(secret of {})", self.verifier)
    }
}
