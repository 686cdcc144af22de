//! What people and programs see.
//!
//! Rules:
//! - Results go to stdout; progress, hints, warnings and errors to stderr. With `--format json` stdout is one JSON value.
//! - An error says what is wrong: lower case, no full stop, user input in backticks, no name of a Rust type. Where
//!   something fixes it, a `help:` line names it, as a command if it is one.
//! - Text that others wrote is shown without its control and bidi characters.
//! - A reader that closes stdout early (`| head`) ends the output, quietly; the exit code stays that of the command.
//! - Colour only says again what words say, and only on a terminal unless `--color always`.

pub mod problem;
pub mod progress;
pub mod table;

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use capgate_registry::text::is_forbidden;
use serde::Serialize;

use crate::cli::{Color, Format};
use crate::exit::{Exit, Failure};

/// How a failure looks.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HELP: Style = AnsiColor::Cyan.on_default().bold();
/// How good news looks.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// How a refusal looks.
pub const BAD: Style = WARNING;

/// Where everything that is said goes.
#[derive(Debug)]
pub struct Ui {
    /// How results are written.
    pub format: Format,
    failed: RefCell<Option<io::Error>>,
}

impl Ui {
    /// Sets colour for the whole process.
    pub fn new(format: Format, color: Color) -> Self {
        let choice = match color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
        Self { format, failed: RefCell::default() }
    }

    /// Tells whether results are for programs.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Writes a line of the result.
    pub fn line(&self, line: impl Display) {
        self.stdout(&format!("{line}\n"));
    }

    /// Writes a part of the result as it is.
    pub fn stdout(&self, text: &str) {
        let mut failed = self.failed.borrow_mut();
        if failed.is_none() {
            let mut out = anstream::stdout().lock();
            *failed = out.write_all(text.as_bytes()).and_then(|()| out.flush()).err();
        }
    }

    /// Writes the result for programs.
    pub fn json(&self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(text),
            Err(e) => *self.failed.borrow_mut() = Some(io::Error::other(e)),
        }
    }

    /// Says something that the user should know although nothing failed.
    pub fn warn(&self, message: impl Display) {
        say("warning", WARNING, message);
    }

    /// Says what could be done next.
    pub fn hint(&self, message: impl Display) {
        say("hint", HELP, message);
    }

    /// Shows what a failure is about; the failure itself follows.
    pub fn details(&self, text: &str) {
        // Where even this cannot be written, nobody is listening.
        let _ = anstream::stderr().write_all(text.as_bytes());
    }

    /// Says what was wrong and what fixes it.
    pub fn failure(&self, failure: &Failure) {
        say("error", ERROR, &failure.message);
        if let Some(help) = &failure.help {
            say("help", HELP, help);
        }
    }

    /// The exit code after everything was said: a result that could not be written did not arrive.
    pub fn finish(self, exit: Exit) -> Exit {
        match self.failed.into_inner() {
            Some(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                say("error", ERROR, format!("the result could not be written: {e}"));
                Exit::Failed
            }
            _ => exit,
        }
    }
}

/// Says what an operator should know, from any thread.
pub fn warn(message: impl Display) {
    say("warning", WARNING, message);
}

fn say(word: &str, style: Style, message: impl Display) {
    let message = visible(&message.to_string());
    // Where even this cannot be written, nobody is listening.
    let _ = writeln!(anstream::stderr(), "{style}{word}:{style:#} {message}");
}

/// Text that others wrote, with what must not reach a terminal replaced.
pub fn visible(text: &str) -> String {
    text.chars().map(|c| if c != '\n' && is_forbidden(c) { '\u{fffd}' } else { c }).collect()
}

/// A word in a style.
pub fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A number with its thousands apart.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 file`, `2 files`.
pub fn count(number: usize, singular: &str) -> String {
    if number == 1 { format!("1 {singular}") } else { format!("{number} {singular}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_are_for_people() {
        assert_eq!(["0", "999", "65,536", "1,000,000"], [0, 999, 65_536, 1_000_000].map(number).as_slice());
        assert_eq!(count(1, "file") + &count(0, "file"), "1 file0 files");
        assert_eq!(visible("a\u{1b}[31m\u{202e}b\n"), "a\u{fffd}[31m\u{fffd}b\n");
    }
}
