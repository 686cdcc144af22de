//! Signature lines that say something, and those that do not.

use std::fmt::Write;

use base64ct::{Base64, Encoding};

use super::{LINE_START, Note, NoteSignature};
use crate::keys::VerifierKey;

impl Note {
    /// The bytes of the note with no other signature lines than those that name one of `keys`, each once.
    ///
    /// No signature covers the lines of others, so anybody can add one: to what is kept, they are not taken along. A line
    /// has one spelling, so those that stay are what they were, byte for byte.
    pub fn only_known(&self, keys: &[VerifierKey]) -> Vec<u8> {
        let is_known = |line: &NoteSignature| {
            keys.iter().any(|key| line.name() == key.name() && line.hash() == key.hash())
        };
        let mut bytes = format!("{}\n", self.text());
        let lines = self.signatures();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_known(line)) {
            if lines.iter().take(at).any(|earlier| earlier == line) {
                continue;
            }
            let mut material = line.hash().to_vec();
            material.extend_from_slice(line.bytes());
            // Writing to a string cannot fail.
            let _ = writeln!(bytes, "{LINE_START}{} {}", line.name(), Base64::encode_string(&material));
        }
        bytes.into_bytes()
    }
}
