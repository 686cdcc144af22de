//! Problems of a document, their order and their place.

use std::cell::RefCell;
use std::ops::Range;

/// Says whether a document with this problem can still be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The document cannot be read as what it claims to be.
    Malformed,
    /// It can be read, but breaks a rule that `lint` enforces before anything is published.
    Rule,
}

/// One problem in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whether the document is unreadable or merely not publishable.
    pub severity: Severity,
    /// Bytes of the document that it is about.
    pub span: Range<usize>,
    /// What is wrong: lower case, no full stop, user input in backticks.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Most problems of one document that are kept; hostile input must not cost more than a reader can use.
pub const MOST_PROBLEMS: usize = 100;

/// Collects the problems of one document.
#[derive(Debug, Default)]
pub struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    /// Adds a problem that makes the document unreadable.
    pub fn malformed(&self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
        self.push(Severity::Malformed, span, message.into(), help);
    }

    /// Adds a broken rule.
    pub fn rule(&self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
        self.push(Severity::Rule, span, message.into(), help);
    }

    fn push(&self, severity: Severity, span: Range<usize>, message: String, help: Option<String>) {
        let mut all = self.0.borrow_mut();
        match all.len() {
            0..MOST_PROBLEMS => all.push(Problem { severity, span, message, help }),
            MOST_PROBLEMS => {
                let message = format!("has more than {MOST_PROBLEMS} problems; the rest is not listed");
                // It stands last, and counts as the worst there can be.
                let span = usize::MAX..usize::MAX;
                all.push(Problem { severity: Severity::Malformed, span, message, help: None });
            }
            _ => {}
        }
    }

    /// Tells whether further problems are no longer kept, so that nobody needs to word them.
    pub fn is_full(&self) -> bool {
        self.0.borrow().len() > MOST_PROBLEMS
    }

    /// Tells whether anything made the document unreadable so far.
    pub fn any_malformed(&self) -> bool {
        self.0.borrow().iter().any(|p| p.severity == Severity::Malformed)
    }

    /// The problems in order of their place.
    pub fn into_sorted(self) -> Vec<Problem> {
        let mut all = self.0.into_inner();
        all.sort_by(|a, b| {
            (a.span.start, a.span.end, &a.message).cmp(&(b.span.start, b.span.end, &b.message))
        });
        all.dedup();
        all
    }
}

/// The candidate that `word` was probably meant to be.
pub fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let lower = word.to_lowercase().replace('_', "-");
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.replace('_', "-")), candidate))
        .filter(|&(distance, candidate)| distance <= (candidate.len() / 3).max(1))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Line and column of a byte offset, both from 1; columns count characters.
pub fn position(text: &[u8], offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(before.get(start..).unwrap_or_default()).chars().count() + 1;
    (line, column)
}
