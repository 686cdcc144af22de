//! What a witness does with a checkpoint, given what it holds. It touches nothing: who calls writes down what is to be
//! held, and only then signs.

use super::Request;
use crate::log::{Checkpoint, CheckpointError};
use crate::merkle::{Hash, ProofError, empty_root, verify_consistency};
use crate::note::{Note, NoteError};
use crate::trust::Role;

/// The newest checkpoint of a log that a witness cosigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What it says.
    pub checkpoint: Checkpoint,
    /// The signed note.
    pub bytes: Vec<u8>,
}

/// Says why bytes that a witness wrote down earlier are not what it wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeldError {
    /// No signed note.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// No checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Of another log than its name says.
    #[error("it is of `{0}`")]
    Origin(String),
}

impl Held {
    /// Reads what was written down for `origin`.
    pub fn parse(bytes: Vec<u8>, origin: &str) -> Result<Self, HeldError> {
        let held = Self::parse_any(bytes)?;
        if held.checkpoint.origin.as_str() != origin {
            return Err(HeldError::Origin(held.checkpoint.origin.to_string()));
        }
        Ok(held)
    }

    /// Reads what was written down for whatever log.
    pub fn parse_any(bytes: Vec<u8>) -> Result<Self, HeldError> {
        let checkpoint = Checkpoint::parse(Note::parse(&bytes)?.text())?;
        Ok(Self { checkpoint, bytes })
    }
}

/// Says why a witness does not cosign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The checkpoint is of a log that the witness does not watch.
    #[error("the log `{0}` is not watched here")]
    UnknownLog(String),
    /// Those who must sign for the log have not.
    #[error("the checkpoint is not signed by its log: {0}")]
    Unsigned(NoteError),
    /// The proof would begin behind the checkpoint.
    #[error("the old size {old} is larger than the checkpoint's {size}")]
    Backwards {
        /// Size that the proof begins at.
        old: u64,
        /// Size of the checkpoint.
        size: u64,
    },
    /// The proof begins elsewhere than at what is held.
    #[error("the old size is not {held}, which was cosigned last")]
    Stale {
        /// Size that is held.
        held: u64,
    },
    /// The log signed two trees of one size.
    #[error("the log signed two trees of {size} entries: {held} and {offered}; both are kept")]
    Split {
        /// Their size.
        size: u64,
        /// Root that is held.
        held: Hash,
        /// Root that is offered.
        offered: Hash,
    },
    /// The proof does not prove that what is held is a part of the checkpoint's tree.
    #[error("the checkpoint does not continue the {held} entries that were cosigned last: {problem}")]
    Inconsistent {
        /// Size that is held.
        held: u64,
        /// What is wrong.
        problem: ProofError,
    },
}

impl Refusal {
    /// The status of the answer (C2SP tlog-witness, "add-checkpoint").
    pub fn status(&self) -> u16 {
        match self {
            Self::UnknownLog(_) => 404,
            Self::Unsigned(_) => 403,
            Self::Backwards { .. } => 400,
            Self::Stale { .. } | Self::Split { .. } => 409,
            Self::Inconsistent { .. } => 422,
        }
    }

    /// The size that the asker should begin at, where that would help.
    pub fn held_size(&self) -> Option<u64> {
        match self {
            Self::Stale { held } => Some(*held),
            Self::Split { size, .. } => Some(*size),
            _ => None,
        }
    }
}

/// Judges a request about a log whose keys are `log`, of which `held` was cosigned last. `Ok` means: write the request's
/// checkpoint down in place of `held`, and then sign it.
///
/// Errors: [`Refusal`]; on [`Refusal::Split`] both checkpoints are evidence to be kept.
pub fn judge(request: &Request, log: &Role, held: Option<&Held>) -> Result<(), Refusal> {
    let Request { old, proof, checkpoint, note, .. } = request;
    log.verify(note).map_err(Refusal::Unsigned)?;
    let (held_size, held_root) =
        held.map_or_else(|| (0, empty_root()), |held| (held.checkpoint.size, held.checkpoint.root));
    if checkpoint.size == held_size && checkpoint.root != held_root {
        return Err(Refusal::Split { size: held_size, held: held_root, offered: checkpoint.root });
    }
    if *old > checkpoint.size {
        return Err(Refusal::Backwards { old: *old, size: checkpoint.size });
    }
    if *old != held_size {
        return Err(Refusal::Stale { held: held_size });
    }
    verify_consistency(held_size, checkpoint.size, &held_root, &checkpoint.root, proof)
        .map_err(|problem| Refusal::Inconsistent { held: held_size, problem })
}
