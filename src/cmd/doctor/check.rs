//! One thing that was looked at, and what came of it.

use serde::Serialize;

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Nothing is in the way, and somebody should know.
    Warning,
    /// The program stays stock.
    Failed,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it stands.
    pub level: Level,
    /// What was found.
    pub text: String,
    /// What mends it, or that nothing does. Every failed check has one.
    pub fix: Option<String>,
}

impl Check {
    /// As it should be.
    pub fn ok(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, text: text.into(), fix: None }
    }

    /// Somebody should know.
    pub fn warning(name: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, level: Level::Warning, text: text.into(), fix: Some(fix.into()) }
    }

    /// The program stays stock.
    pub fn failed(name: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, level: Level::Failed, text: text.into(), fix: Some(fix.into()) }
    }
}
