//! Which characters a signed or published text may hold.
//!
//! A reader must see what is signed: no character may move the cursor, hide text or reverse its direction.

/// Finds the first character that a text may not hold: every control character but LF, and every character that
/// changes direction, breaks lines or is invisible at the start of a file. Returns its byte offset.
pub fn first_forbidden(text: &str) -> Option<(usize, char)> {
    if all_bytes(text, |b| b == b'\n' || is_plain(b)) {
        return None;
    }
    text.char_indices().find(|&(_, c)| c != '\n' && is_forbidden(c))
}

/// Tells whether `c` may not stand in a single line of published text. LF counts as forbidden here.
pub fn is_forbidden(c: char) -> bool {
    c.is_control() || is_bidi_control(c) || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// The first character of a single line that may not stand there.
pub fn first_forbidden_in_line(line: &str) -> Option<char> {
    if all_bytes(line, is_plain) { None } else { line.chars().find(|&c| is_forbidden(c)) }
}

/// Looks at 64 bytes at a time without a branch for each, which the compiler turns into vector instructions.
fn all_bytes(text: &str, accept: impl Fn(u8) -> bool) -> bool {
    text.as_bytes().chunks(64).all(|chunk| chunk.iter().fold(true, |all, &byte| all & accept(byte)))
}

/// Printable ASCII, which nearly every text is made of and which needs no decoding.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// Unicode Bidi_Control, as listed in UAX #9 and PropList.txt.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_in_any_script_passes() {
        assert_eq!(first_forbidden("id = \"m1\"\n# größer, 東京\n"), None);
    }

    #[test]
    fn each_hidden_character_is_found_at_its_offset() {
        for c in
            ['\t', '\r', '\0', '\u{7f}', '\u{85}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}', '\u{feff}']
        {
            assert_eq!(first_forbidden(&format!("ab\n{c}")), Some((3, c)), "{c:?}");
        }
    }
}
