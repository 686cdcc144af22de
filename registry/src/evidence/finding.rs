//! One thing that is wrong, in a form both people and programs read.

use std::ops::Range;

use serde::Serialize;

use super::codes::{Code, Severity};
use crate::text;

/// One thing that reading or judging found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of thing it is.
    pub code: Code,
    /// Whether the evidence still counts.
    pub severity: Severity,
    /// What was found, with its figures.
    pub message: String,
    /// The file of the bundle it was found in; none where it concerns no single file.
    pub file: Option<String>,
    /// The workload it concerns; none where it concerns the whole bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
}

impl Finding {
    /// A finding with the weight its code has. What the message quotes is made harmless on a terminal.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into().replace(text::is_forbidden, "\u{fffd}");
        Self { code, severity: code.severity(), message, file: None, workload: None }
    }

    /// The same finding as a warning.
    pub fn as_warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// The same finding, said of a file; a file that is already named stays.
    pub fn in_file(mut self, path: &str) -> Self {
        self.file.get_or_insert_with(|| path.to_owned());
        self
    }

    /// The same finding, said of a workload.
    pub fn in_workload(mut self, name: &str) -> Self {
        self.workload.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Tells whether the evidence does not count because of it.
    pub fn refuses(&self) -> bool {
        self.severity == Severity::Refusal
    }
}

/// Writes a byte range as people and `dd` understand it: first byte and the one after the last.
pub(crate) fn bytes_of(range: &Range<usize>) -> String {
    format!("bytes {}..{}", range.start, range.end)
}

/// The beginning of a text that a stranger wrote, harmless on a terminal, at most 80 characters.
pub(crate) fn excerpt(said: &str) -> String {
    excerpt_of(said, 80)
}

/// The same with at most so many characters.
pub(crate) fn excerpt_of(said: &str, most: usize) -> String {
    let mut shown: String = said
        .trim()
        .chars()
        .take(most)
        .map(|character| if text::is_forbidden(character) { '\u{fffd}' } else { character })
        .collect();
    if said.trim().chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_stays() {
        let finding = Finding::new(Code::Aborted, "x").in_file("a").in_file("b");
        assert_eq!(finding.file.as_deref(), Some("a"));
        assert!(finding.refuses());
        assert!(!finding.as_warning().refuses());
    }

    #[test]
    fn excerpts_are_harmless_and_short() {
        assert_eq!(excerpt("  a\u{1b}[31mb\u{202e}c "), "a\u{fffd}[31mb\u{fffd}c");
        assert_eq!(excerpt(&"x".repeat(81)).chars().count(), 81);
    }
}
