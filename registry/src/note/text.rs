//! Which characters a signed text may hold.

use crate::text;

/// A character that would make a text look other than it is, or split in other lines than it seems to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the character U+{:04X} at byte {offset} is not allowed in a signed text", u32::from(*character))]
pub struct TextProblem {
    /// Byte offset of the character.
    pub offset: usize,
    /// The character.
    pub character: char,
}

/// Refuses what [`text::first_forbidden`] finds. Stricter than C2SP signed-note, which bars only ASCII controls.
///
/// Errors: the first such character.
pub fn check_text(text: &str) -> Result<(), TextProblem> {
    match text::first_forbidden(text) {
        Some((offset, character)) => Err(TextProblem { offset, character }),
        None => Ok(()),
    }
}
