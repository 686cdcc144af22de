//! The text of a checkpoint (C2SP tlog-checkpoint, "Note text").
//!
//! ```text
//! example.org/gpu
//! 20852163
//! CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
//! ```
//!
//! It is signed as a note, but has no `# capgate` line: the first line is the origin, and no origin begins with `#`.

use super::MAX_SIZE;
use crate::merkle::{Hash, empty_root};
use crate::note::Origin;

/// What a log promises: whose it is, how many entries it has, and their root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Whose log it is.
    pub origin: Origin,
    /// Entries, at most [`MAX_SIZE`].
    pub size: u64,
    /// Root of the tree over them.
    pub root: Hash,
}

/// Says why text is no checkpoint of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Not exactly three lines; extension lines are refused too.
    #[error("a checkpoint is three lines: origin, size and root")]
    Lines,
    /// The first line is no origin.
    #[error("the checkpoint's first line is no origin")]
    Origin,
    /// The second line is no decimal number in its one spelling, or too large.
    #[error("the checkpoint's size is no decimal number up to {MAX_SIZE} without leading zeros")]
    Size,
    /// The third line is not the canonical base64 of 32 bytes.
    #[error("the checkpoint's root is not the canonical base64 of 32 bytes")]
    Root,
    /// Size 0 with a root other than that of the empty tree.
    #[error("the checkpoint of an empty log has another root than the empty tree")]
    EmptyRoot,
}

impl Checkpoint {
    /// The text to sign.
    pub fn to_text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, self.root.to_base64())
    }

    /// Parses what [`Checkpoint::to_text`] writes and nothing else. Who signed it is the note's business.
    ///
    /// Errors: [`CheckpointError`].
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        let text = text.strip_suffix('\n').ok_or(CheckpointError::Lines)?;
        let mut lines = text.split('\n');
        let (Some(origin), Some(size), Some(root), None) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(CheckpointError::Lines);
        };
        let origin = Origin::parse(origin).map_err(|_| CheckpointError::Origin)?;
        let size = parse_size(size).ok_or(CheckpointError::Size)?;
        let root = Hash::from_base64(root).map_err(|_| CheckpointError::Root)?;
        if size == 0 && root != empty_root() {
            return Err(CheckpointError::EmptyRoot);
        }
        Ok(Self { origin, size, root })
    }
}

/// A decimal number without sign or leading zeros.
fn parse_size(text: &str) -> Option<u64> {
    let size: u64 = text.parse().ok().filter(|&size| size <= MAX_SIZE)?;
    (size.to_string() == text).then_some(size)
}
