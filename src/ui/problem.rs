//! Problems of TOML documents, with the lines they are about, or as data.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use capgate_registry::document::{Problem, Severity, position};
use serde::Serialize;

use super::visible;

/// A problem as data; lines and columns count from 1, columns in characters.
#[derive(Debug, Serialize)]
pub struct ProblemData<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    /// `malformed`: it cannot be read; `rule`: it cannot be published, or is worth knowing.
    severity: &'static str,
    message: &'a str,
    help: Option<&'a str>,
}

/// The problems of one file as data.
pub fn data<'a>(file: &'a str, bytes: &[u8], problems: &'a [Problem]) -> Vec<ProblemData<'a>> {
    let one = |problem: &'a Problem| {
        let (line, column) = position(bytes, problem.span.start);
        let (end_line, end_column) = position(bytes, problem.span.end);
        let severity = match problem.severity {
            Severity::Malformed => "malformed",
            Severity::Rule => "rule",
        };
        let (message, help) = (problem.message.as_str(), problem.help.as_deref());
        ProblemData { file, line, column, end_line, end_column, severity, message, help }
    };
    problems.iter().map(one).collect()
}

/// How grave the problems of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Something has to change.
    Error,
    /// It can be used as it is.
    Warning,
}

/// The problems of one file for people, each with its lines and what to do.
pub fn render(file: &str, bytes: &[u8], problems: &[Problem], weight: Weight) -> String {
    let text = std::str::from_utf8(bytes).ok();
    let mut rendered = String::new();
    for problem in problems {
        rendered += &match text {
            Some(text) => with_source(file, text, problem, weight),
            None => without_source(file, bytes, problem),
        };
        rendered += "\n\n";
    }
    rendered
}

fn with_source(file: &str, text: &str, problem: &Problem, weight: Weight) -> String {
    let level = match weight {
        Weight::Error => Level::ERROR,
        Weight::Warning => Level::WARNING,
    };
    let span = within(text, &problem.span);
    let snippet = Snippet::source(text).path(file).annotation(AnnotationKind::Primary.span(span));
    let mut group = level.primary_title(visible(&problem.message)).element(snippet);
    if let Some(help) = &problem.help {
        group = group.element(Level::HELP.message(visible(help)));
    }
    Renderer::styled().render(&[group])
}

/// A file that is not text has no lines to show.
fn without_source(file: &str, bytes: &[u8], problem: &Problem) -> String {
    let (line, column) = position(bytes, problem.span.start);
    let help = problem.help.as_ref().map_or_else(String::new, |help| format!("\nhelp: {}", visible(help)));
    format!("error: {}\n --> {file}:{line}:{column}{help}", visible(&problem.message))
}

/// The span, cut to whole characters of the text.
fn within(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start.min(text.len()));
    let end = text.ceil_char_boundary(span.end.min(text.len()).max(start));
    start..end
}
