//! `add-checkpoint`: what is asked of a witness, and what it answers (C2SP tlog-witness).
//!
//! ```text
//! old 20852014                                      what the witness is thought to have cosigned
//! PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=      consistency proof from there
//!                                                   an empty line
//! example.org/gpu                                   the signed checkpoint
//! …
//! ```

use std::fmt::Write;

use crate::log::{Checkpoint, CheckpointError, MAX_SIZE};
use crate::merkle::Hash;
use crate::note::{Note, NoteError, NoteSignature};

/// Most hashes in a proof.
pub const MAX_PROOF: usize = 63;
/// Most bytes of a signed checkpoint.
const MAX_CHECKPOINT: usize = 16 * 1024;
/// Most bytes of a request: the old size, the proof, the empty line, the checkpoint.
pub const MAX_REQUEST: usize = 24 + MAX_PROOF * 45 + 1 + MAX_CHECKPOINT;
/// Most bytes of an answer that are read.
pub const MAX_ANSWER: usize = 16 * 1024;

/// What is asked of a witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Size of the tree that the proof begins at.
    pub old: u64,
    /// Consistency proof from there to the checkpoint.
    pub proof: Vec<Hash>,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The same as it was signed.
    pub note: Note,
    /// The bytes of the signed checkpoint.
    pub bytes: Vec<u8>,
}

/// Says why bytes are no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// More than [`MAX_REQUEST`] bytes.
    #[error("the request has more than the {MAX_REQUEST} bytes that are accepted")]
    TooLarge,
    /// The first line is not `old SIZE`.
    #[error("the first line is not `old` and a size in decimal without leading zeros")]
    Old,
    /// A line of the proof is no hash, or there is no empty line behind the proof.
    #[error("line {0} is neither a hash in base64 nor empty")]
    Proof(usize),
    /// More than [`MAX_PROOF`] hashes.
    #[error("the proof has more than {MAX_PROOF} hashes")]
    LongProof,
    /// What follows is no signed note.
    #[error("the checkpoint: {0}")]
    Note(#[from] NoteError),
    /// What is signed is no checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl Request {
    /// Reads a request's body. Who signed the checkpoint is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, RequestError> {
        if bytes.len() > MAX_REQUEST {
            return Err(RequestError::TooLarge);
        }
        let (first, mut rest) = take_line(bytes).ok_or(RequestError::Old)?;
        let old = first.strip_prefix("old ").and_then(number).ok_or(RequestError::Old)?;
        let mut proof = Vec::new();
        loop {
            let at = RequestError::Proof(proof.len().saturating_add(2));
            let (line, behind) = take_line(rest).ok_or(at.clone())?;
            rest = behind;
            if line.is_empty() {
                break;
            }
            if proof.len() == MAX_PROOF {
                return Err(RequestError::LongProof);
            }
            proof.push(Hash::from_base64(line).map_err(|_| at)?);
        }
        let note = Note::parse(rest)?;
        let checkpoint = Checkpoint::parse(note.text())?;
        Ok(Self { old, proof, checkpoint, note, bytes: rest.to_vec() })
    }

    /// The body of a request about a signed checkpoint.
    pub fn encode(old: u64, proof: &[Hash], checkpoint: &[u8]) -> Vec<u8> {
        let mut text = format!("old {old}\n");
        for hash in proof {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", hash.to_base64());
        }
        text.push('\n');
        [text.as_bytes(), checkpoint].concat()
    }
}

/// The signature lines that a witness answered with; whose they are is not looked at.
///
/// Errors: those of [`Note::parse`] about signature lines.
pub fn parse_answer(lines: &[u8]) -> Result<Vec<NoteSignature>, NoteError> {
    if lines.len() > MAX_ANSWER {
        return Err(NoteError::TooLarge { size: lines.len() });
    }
    // A text of its own makes a note of them, so that they are held to a note's rules.
    let note = Note::parse(&[b"answer\n\n", lines].concat())?;
    if note.text() == "answer\n" { Ok(note.signatures().to_vec()) } else { Err(NoteError::OtherText) }
}

/// A line without its LF, and what follows it.
fn take_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    // No line in front of the checkpoint is longer.
    let end = bytes.iter().take(64).position(|&byte| byte == b'\n')?;
    let (line, rest) = bytes.split_at_checked(end)?;
    Some((std::str::from_utf8(line).ok()?, rest.get(1..)?))
}

fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok().filter(|&number| number <= MAX_SIZE)?;
    (number.to_string() == text).then_some(number)
}
