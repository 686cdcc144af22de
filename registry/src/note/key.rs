//! What a key must offer so that signatures can be counted under it.

use crate::keys::VerifierKey;

/// A public key whose signatures stand in notes: plain Ed25519, or a witness's.
///
/// The same 32 public bytes are one key, whatever the kind of signature.
pub trait NoteKey {
    /// The name in signature lines.
    fn name(&self) -> &str;
    /// The four bytes that, with the name, say which key made a signature.
    fn hash(&self) -> [u8; 4];
    /// The 32 public bytes: what makes two keys distinct.
    fn public(&self) -> &[u8; 32];
    /// Tells whether `signature`, what follows the hash in a line, is this key's over `text`.
    fn verifies(&self, text: &str, signature: &[u8]) -> bool;
}

impl NoteKey for VerifierKey {
    fn name(&self) -> &str {
        self.name()
    }

    fn hash(&self) -> [u8; 4] {
        self.hash()
    }

    fn public(&self) -> &[u8; 32] {
        self.public()
    }

    fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        <&[u8; 64]>::try_from(signature).is_ok_and(|bytes| self.verify(text.as_bytes(), bytes))
    }
}

impl<K: NoteKey> NoteKey for &K {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn hash(&self) -> [u8; 4] {
        (**self).hash()
    }

    fn public(&self) -> &[u8; 32] {
        (**self).public()
    }

    fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        (**self).verifies(text, signature)
    }
}
