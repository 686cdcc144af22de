//! How a command ends: its exit code, and what it says when it could not do what it was asked.

use std::process::ExitCode;

/// The exit codes that scripts rely on. The last four are those of `run` and `record`, as `env` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, or granted.
    Done,
    /// Could not run.
    Failed,
    /// Wrong usage.
    Usage,
    /// Refused: the program stays stock.
    Refused,
    /// What was given is invalid: a profile, evidence, a registry.
    Invalid,
    /// The program was not started: by `run` as it was told with `--require`, by `record` since nothing could be recorded.
    NotStarted,
    /// The program is there and cannot be started.
    NotExecutable,
    /// There is no such program.
    NotFound,
    /// What the program that was started ended with; 128 and the signal's number where one ended it.
    Program(u8),
}

impl Exit {
    /// The number that scripts see.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Invalid => 4,
            Self::NotStarted => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Program(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
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
