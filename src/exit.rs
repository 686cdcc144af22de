//! How a command ends: its exit code, and what it says when it could not do what it was asked.

use std::process::ExitCode;

/// The exit codes that scripts rely on. The last three are `run`'s alone, as `env` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, or granted.
    Done = 0,
    /// Could not run.
    Failed = 1,
    /// Wrong usage.
    Usage = 2,
    /// Refused: the program stays stock.
    Refused = 3,
    /// What was given is invalid: a profile, evidence, a registry.
    Invalid = 4,
    /// `run` did not start the program, as it was told with `--require`.
    NotStarted = 125,
    /// The program is there and cannot be started.
    NotExecutable = 126,
    /// There is no such program.
    NotFound = 127,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// Lower case, no full stop, user input in backticks.
    pub message: String,
    /// What fixes it: a command, where one does.
    pub help: Option<String>,
}

/// What a command returns.
pub type Outcome = Result<Exit, Failure>;

impl Failure {
    /// It could not run.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into(), help: None }
    }

    /// It was called wrongly.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::failed(message) }
    }

    /// What it was given is invalid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { exit: Exit::Invalid, ..Self::failed(message) }
    }

    /// The same with a hint.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}
