//! How many witnesses a site demands, and whether a registry has them.

use super::WitnessKey;
use super::key::COSIGNATURE_BYTES;
use crate::latest::Latest;
use crate::log::Checkpoint;
use crate::note::{Note, NoteError, NoteSignature, Origin};

/// Witnesses of which some number must have cosigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quorum {
    keys: Vec<WitnessKey>,
    threshold: usize,
}

/// Says why a demand could never be met, or would demand nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuorumError {
    /// None, or more than there are.
    #[error("{threshold} of {keys} witnesses is no demand: at least 1 and at most all of them must cosign")]
    Threshold {
        /// How many must cosign.
        threshold: u64,
        /// How many there are.
        keys: usize,
    },
    /// The same 32 public bytes twice.
    #[error("the key of `{name}` is named twice")]
    Twice {
        /// Its name.
        name: String,
    },
}

impl Quorum {
    /// Demands that `threshold` of `keys` cosigned.
    pub fn new(keys: Vec<WitnessKey>, threshold: u64) -> Result<Self, QuorumError> {
        let twice = keys.iter().enumerate().find(|(at, key)| {
            let mut earlier = keys.iter().take(*at);
            earlier.any(|other| other.public() == key.public())
        });
        if let Some((_, key)) = twice {
            return Err(QuorumError::Twice { name: key.name().to_owned() });
        }
        match usize::try_from(threshold) {
            Ok(threshold) if (1..=keys.len()).contains(&threshold) => Ok(Self { keys, threshold }),
            _ => Err(QuorumError::Threshold { threshold, keys: keys.len() }),
        }
    }

    /// The witnesses.
    pub fn keys(&self) -> &[WitnessKey] {
        &self.keys
    }

    /// How many of them must have cosigned.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// Checks that enough of them cosigned what `latest` says of the log of `origin`; names them.
    ///
    /// `checkpoint` is believed in nothing but its signature lines: what they must be over follows from `latest`, so they
    /// bind exactly what is about to be used. A line that names one of the witnesses and does not verify spoils all.
    ///
    /// Errors: [`NoteError::OtherText`] for a checkpoint of another state, and those of [`Note::parse`] and
    /// [`Note::verify`].
    pub fn check(&self, checkpoint: &[u8], origin: &Origin, latest: &Latest) -> Result<Vec<&str>, NoteError> {
        let note = Note::parse(checkpoint)?;
        if note.text() != of_latest(origin, latest).to_text() {
            return Err(NoteError::OtherText);
        }
        Ok(note.verify(&self.keys, self.threshold)?.into_iter().map(WitnessKey::name).collect())
    }
}

/// The checkpoint of the log that `latest` speaks of: its text follows from `latest` alone.
pub fn of_latest(origin: &Origin, latest: &Latest) -> Checkpoint {
    Checkpoint { origin: origin.clone(), size: latest.log_size, root: latest.log_root }
}

/// The signature lines of a note that have the form of a cosignature: a witness's, or anybody's.
pub fn cosignatures(note: &Note) -> impl Iterator<Item = &NoteSignature> {
    note.signatures().iter().filter(|signature| is_cosignature(signature))
}

/// Tells whether a signature line has the form of a cosignature.
pub fn is_cosignature(signature: &NoteSignature) -> bool {
    signature.bytes().len() == COSIGNATURE_BYTES
}
