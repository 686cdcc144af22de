//! What was found: one line a check, each with what mends it, or with why nothing does.

use serde::Serialize;
use serde_json::{Map, Value};

use super::findings::Findings;
use crate::exit::Exit;
use crate::ui::{BAD, ERROR, GOOD, Ui, styled, visible};

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing stops on it.
    Warning,
    /// The program stays stock, does not start, or should not go on.
    Failed,
}

/// What mends it.
#[derive(Debug, Clone)]
pub enum Fix {
    /// What to do: a command, where one does.
    Do(String),
    /// There is nothing to do, and why.
    Nothing(String),
}

/// One line.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What was looked at: the words of docs/doctor.md.
    pub name: &'static str,
    /// How it stands.
    pub level: Level,
    /// What was found.
    pub text: String,
    /// What mends it, or `none: ` and why nothing does.
    pub fix: Option<String>,
}

/// Everything that was found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// What the program is.
    pub program: Option<Findings>,
    /// The checks, in the order in which they were made.
    pub checks: Vec<Check>,
    /// The images that a profile has to list, ready to paste into it.
    pub profile_lines: Option<String>,
    /// The decision about the program, with the keys that `capgate lookup` has.
    pub decision: Option<Map<String, Value>>,
    /// Whether a binary on the way is malformed.
    #[serde(skip)]
    pub malformed: bool,
}

impl Report {
    /// As it should be.
    pub fn ok(&mut self, name: &'static str, text: impl Into<String>) {
        self.checks.push(Check { name, level: Level::Ok, text: text.into(), fix: None });
    }

    /// Worth knowing.
    pub fn warn(&mut self, name: &'static str, text: impl Into<String>, fix: Fix) {
        self.add(name, Level::Warning, text.into(), fix);
    }

    /// Not as it must be.
    pub fn fail(&mut self, name: &'static str, text: impl Into<String>, fix: Fix) {
        self.add(name, Level::Failed, text.into(), fix);
    }

    fn add(&mut self, name: &'static str, level: Level, text: String, fix: Fix) {
        let fix = match fix {
            Fix::Do(fix) => fix,
            Fix::Nothing(why) => format!("none: {why}"),
        };
        self.checks.push(Check { name, level, text, fix: Some(fix) });
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        if self.malformed {
            return Exit::Invalid;
        }
        let failed = self.checks.iter().any(|check| check.level == Level::Failed);
        if failed { Exit::Refused } else { Exit::Done }
    }

    /// For people or for programs.
    pub fn print(&self, ui: &Ui) {
        if ui.is_json() {
            return ui.json(self);
        }
        for Check { name, level, text, fix } in &self.checks {
            let (style, word) = match level {
                Level::Ok => (GOOD, "ok"),
                Level::Warning => (BAD, "warning"),
                Level::Failed => (ERROR, "failed"),
            };
            ui.line(format!("{} {name:<18} {}", styled(style, format!("{word:<8}")), one_line(text)));
            if let Some(fix) = fix {
                ui.line(format!("{:<27} fix: {}", "", one_line(fix)));
            }
        }
        if let Some(lines) = &self.profile_lines {
            ui.line("\nimages for a profile:\n");
            ui.stdout(lines);
        }
    }
}

fn one_line(text: &str) -> String {
    visible(text).replace('\n', " ")
}
