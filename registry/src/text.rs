//! Which characters a signed or published text may hold.
//!
//! A reader must see what is signed: no character may move the cursor, hide text or reverse its direction.

use std::borrow::Cow;

/// Finds the first character that a text may not hold: every control character but LF, and every character that
/// changes direction, breaks lines or is invisible at the start of a file. Returns its byte offset.
pub fn first_forbidden(text: &str) -> Option<(usize, char)> {
    // A note's only character beyond ASCII is the dash of its signatures, at its end.
    let rest = behind_plain(text, |b| b == b'\n' || is_plain(b));
    let start = text.len() - rest.len();
    rest.char_indices().find(|&(_, c)| c != '\n' && is_forbidden(c)).map(|(at, c)| (start + at, c))
}

/// Tells whether `c` may not stand in a single line of published text. LF counts as forbidden here.
pub fn is_forbidden(c: char) -> bool {
    c.is_control() || is_bidi_control(c) || is_invisible(c) || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Unicode Default_Ignorable_Code_Point (DerivedCoreProperties.txt): what is not drawn makes two texts look alike.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// A text for a message: what [`is_forbidden`] is escaped, and what is very long is cut.
pub fn visible(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 200;
    if text.len() <= LONGEST && first_forbidden_in_line(text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for c in text.chars() {
        if shown.len() > LONGEST {
            shown.push('…');
            break;
        }
        match is_forbidden(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// The first character of a single line that may not stand there.
pub fn first_forbidden_in_line(line: &str) -> Option<char> {
    behind_plain(line, is_plain).chars().find(|&c| is_forbidden(c))
}

/// What follows the ASCII bytes at the start of `text` that are surely accepted, in steps of 64: without a branch for
/// each byte the compiler makes vector instructions of it.
fn behind_plain(text: &str, accept: impl Fn(u8) -> bool) -> &str {
    let chunks = text.as_bytes().chunks(64);
    let plain = chunks.take_while(|chunk| chunk.iter().fold(true, |all, &byte| all & accept(byte)));
    text.get(plain.map(<[u8]>::len).sum()..).unwrap_or(text)
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
        for c in [
            '\t',
            '\r',
            '\0',
            '\u{7f}',
            '\u{85}',
            '\u{202e}',
            '\u{2066}',
            '\u{200f}',
            '\u{2028}',
            '\u{feff}',
            '\u{200b}',
            '\u{2060}',
            '\u{ad}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{e0041}',
        ] {
            assert_eq!(first_forbidden(&format!("ab\n{c}")), Some((3, c)), "{c:?}");
        }
    }

    #[test]
    fn what_is_hidden_is_found_behind_any_length_of_plain_text() {
        for length in [0, 1, 63, 64, 65, 127, 128, 200] {
            let plain = "a".repeat(length);
            assert_eq!(first_forbidden(&format!("{plain}é\u{202e}b")), Some((length + 2, '\u{202e}')));
            assert_eq!(first_forbidden_in_line(&format!("{plain}\n")), Some('\n'));
            assert_eq!(first_forbidden_in_line(&format!("{plain}é")), None);
        }
    }

    #[test]
    fn messages_show_what_they_quote() {
        assert_eq!(visible("größer"), "größer");
        assert_eq!(visible("\u{1b}[2J\u{202e}x"), "\\u{1b}[2J\\u{202e}x");
        assert!(visible(&"x".repeat(100_000)).chars().count() < 210);
    }
}
