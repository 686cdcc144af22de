//! Which characters a signed text may hold.

/// A character that would make a text look other than it is, or split in other lines than it seems to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the character U+{:04X} at byte {offset} is not allowed in a signed text", u32::from(*character))]
pub struct TextProblem {
    /// Byte offset of the character.
    pub offset: usize,
    /// The character.
    pub character: char,
}

/// Refuses every control character but LF (tab, CR, NUL, DEL and C1 included), bidirectional controls, the Unicode line
/// and paragraph separators and the byte order mark.
///
/// Errors: the first such character. Stricter than C2SP signed-note, which bars only ASCII controls.
pub fn check_text(text: &str) -> Result<(), TextProblem> {
    let found = text.char_indices().find(|&(_, character)| character != '\n' && is_refused(character));
    match found {
        Some((offset, character)) => Err(TextProblem { offset, character }),
        None => Ok(()),
    }
}

/// Tells whether a character is refused by [`check_text`]; LF, which is refused in names only, counts as refused here.
pub fn is_refused(character: char) -> bool {
    let bidi = matches!(character,
        '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    let separator = matches!(character, '\u{2028}' | '\u{2029}' | '\u{FEFF}');
    character.is_control() || bidi || separator
}
