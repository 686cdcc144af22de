//! Reads TOML documents so that *all* their problems are found at once, each with its place.
//!
//! Every format of capgate that people write or sign is read through here: profiles, site policies, facts, trust,
//! `latest.note`, host statements, bundle manifests. A reader asks a [`Table`] for the keys it knows; [`Table::finish`]
//! then reports every key it did not ask for. Serde is not used because it stops at the first problem.

mod problem;
mod table;

use std::ops::Range;

use toml::de::DeTable;

pub use problem::{MOST_PROBLEMS, Problem, Problems, Severity, nearest, position};
pub use table::Table;

use crate::text;

/// A value and the bytes it was written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it stands in the document.
    pub span: Range<usize>,
}

impl<T> Spanned<T> {
    /// Converts the value and keeps the place.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned { value: f(self.value), span: self.span }
    }
}

/// Reads `input` as a TOML document of at most `cap` bytes and builds a value from its root table.
///
/// Returns what `build` made, when it made something, and every problem, sorted by place. The value is `None` whenever
/// anything was malformed.
pub fn read<T>(
    input: &[u8],
    cap: usize,
    build: impl FnOnce(&Table<'_>) -> Option<T>,
) -> (Option<T>, Vec<Problem>) {
    let problems = Problems::default();
    let value = decode(input, cap, &problems).and_then(|text| build_root(text, &problems, build));
    let value = if problems.any_malformed() { None } else { value };
    let mut problems = problems.into_sorted();
    for problem in &mut problems {
        problem.span.start = problem.span.start.min(input.len());
        problem.span.end = problem.span.end.min(input.len());
    }
    (value, problems)
}

fn decode<'i>(input: &'i [u8], cap: usize, problems: &Problems) -> Option<&'i str> {
    if input.len() > cap {
        let message = format!("has {} bytes, more than the {cap} that are accepted", input.len());
        problems.malformed(0..0, message, Some("shorten it; raw samples stay in the bundle".into()));
        return None;
    }
    let text = match std::str::from_utf8(input) {
        Ok(text) => text,
        Err(e) => {
            let at = e.valid_up_to();
            problems.malformed(at..at, "is not UTF-8 from here on", Some("save the file as UTF-8".into()));
            return None;
        }
    };
    if text::first_forbidden(text).is_some() {
        report_forbidden(text, problems);
        return None;
    }
    if !text.ends_with('\n') {
        let end = text.len();
        problems.malformed(end..end, "does not end in a newline", Some("add one at the end".into()));
    }
    Some(text)
}

fn report_forbidden(text: &str, problems: &Problems) {
    for (at, c) in text.char_indices().filter(|&(_, c)| c != '\n' && text::is_forbidden(c)).take(20) {
        let message = format!("the character U+{:04X} is not allowed", u32::from(c));
        problems.malformed(at..at + c.len_utf8(), message, Some(character_help(c)));
    }
}

fn character_help(c: char) -> String {
    match c {
        '\t' => "indent with spaces".into(),
        '\r' => "use LF line endings".into(),
        '\u{feff}' => "save the file without a byte order mark".into(),
        _ => "remove it: a reader would not see it".into(),
    }
}

fn build_root<T>(text: &str, problems: &Problems, build: impl FnOnce(&Table<'_>) -> Option<T>) -> Option<T> {
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MOST_PROBLEMS) {
        let span = error.span().unwrap_or(text.len()..text.len());
        problems.malformed(span, format!("not TOML: {}", error.message()), None);
    }
    if !errors.is_empty() {
        return None;
    }
    build(&Table::root(root.get_ref(), 0..text.find('\n').unwrap_or(0), problems))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(input: &str) -> Vec<String> {
        let (_, problems) = read(input.as_bytes(), 1000, |table| {
            table.require_string("name");
            table.integer("count");
            table.word("mode", &[("enforce", 1), ("observe", 2)]);
            table.strings("models");
            if let Some(inner) = table.table("host") {
                inner.require_string("chip");
                inner.finish();
            }
            table.finish();
            Some(())
        });
        problems
            .iter()
            .map(|p| format!("{:?} {}", position(input.as_bytes(), p.span.start), p.message))
            .collect()
    }

    #[test]
    fn every_problem_is_reported_with_its_place() {
        let found = problems(
            "nmae = \"x\"\ncount = -1\nmode = \"enforced\"\nmodels = [\"a\", 3]\n[host]\nchip = \"\"\nos = 1\n",
        );
        assert_eq!(
            found,
            [
                "(1, 1) unknown key `nmae`",
                "(1, 1) `name` is missing",
                "(2, 9) `count` is out of range",
                "(3, 8) `mode` cannot be `enforced`",
                "(4, 16) `models` must be a list of strings, not a whole number",
                "(6, 8) `host.chip` is empty",
                "(7, 1) unknown key `host.os`",
            ]
        );
    }

    #[test]
    fn attack_a_number_has_one_spelling() {
        assert_eq!(problems("name = \"a\"\ncount = 1005\n"), [""; 0]);
        assert_eq!(problems("name = \"a\"\ncount = 0\n"), [""; 0]);
        for other in ["0x3ed", "0o1755", "0b1", "+1005", "1_005", "+0", "0x0"] {
            let found = problems(&format!("name = \"a\"\ncount = {other}\n"));
            assert_eq!(found, ["(2, 9) `count` is not written in decimal digits alone"], "{other}");
        }
        assert_eq!(problems("name = \"a\"\ncount = -0\n").len(), 1);
        assert!(problems("name = \"a\"\ncount = 007\n")[0].contains("not TOML"));
    }

    #[test]
    fn near_misses_name_the_word_that_was_meant() {
        let (_, found) = read(b"mode = \"enfroce\"\nnmae = \"a\"\n", 100, |table| {
            table.string("name");
            table.word("mode", &[("enforce", 1), ("observe", 2)]);
            table.finish();
            Some(())
        });
        let help: Vec<_> = found.iter().filter_map(|p| p.help.as_deref()).collect();
        assert_eq!(help, ["did you mean `enforce`?", "did you mean `name`?"]);
    }

    #[test]
    fn hidden_characters_are_refused_raw_and_escaped() {
        assert_eq!(problems("name = \"a\u{202e}b\"\n"), ["(1, 10) the character U+202E is not allowed"]);
        assert_eq!(problems("name = \"a\\u202Eb\"\n"), ["(1, 8) `name` holds the character U+202E"]);
        assert_eq!(problems("name = \"a\\nb\"\n"), ["(1, 8) `name` holds the character U+000A"]);
        assert_eq!(problems("name = \"a\"\r\n"), ["(1, 11) the character U+000D is not allowed"]);
    }

    #[test]
    fn size_encoding_syntax_and_the_last_newline_are_checked() {
        assert_eq!(
            problems(&"#".repeat(1001)),
            ["(1, 1) has 1001 bytes, more than the 1000 that are accepted"]
        );
        assert_eq!(problems("name = \"a\""), ["(1, 11) does not end in a newline"]);
        assert!(problems("name = \n[[[\n")[0].contains("not TOML"));
        let (value, found) = read(b"a = \"\xff\"\n", 100, |_| Some(()));
        assert!(value.is_none() && found[0].message.contains("UTF-8"));
    }

    /// Each of these was worth a walk through the whole document once: 28,000 took minutes.
    #[test]
    fn attack_a_document_of_problems_is_read_once() {
        let input = "[[deny]]\nmdoe = 1\n".repeat(28_000);
        let (value, problems) = read(input.as_bytes(), 1 << 20, |table| {
            for inner in table.tables("deny") {
                inner.require_string("name");
                inner.finish();
            }
            table.finish();
            Some(())
        });
        assert!(value.is_none());
        assert_eq!(problems.len(), MOST_PROBLEMS + 1);
        assert!(problems.last().unwrap().message.contains("more than 100 problems"));
    }

    #[test]
    fn attack_a_key_that_clears_the_screen_is_shown_escaped() {
        assert_eq!(
            problems("\"\\u001b[2J\\u202e\" = 1\nname = \"a\"\n"),
            ["(1, 1) unknown key `\\u{1b}[2J\\u{202e}`"]
        );
    }

    #[test]
    fn a_malformed_document_yields_no_value() {
        let (value, found) = read(b"count = true\n", 100, |table| {
            table.integer("count");
            table.finish();
            Some(())
        });
        assert!(value.is_none());
        assert_eq!(found.len(), 1);
    }
}
