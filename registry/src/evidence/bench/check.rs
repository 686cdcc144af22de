//! A test of correctness that `capgate bench` ran once in each arm, beside the rounds.

use serde::{Deserialize, Serialize};

use super::label;
use super::state::{Ran, StateError};
use crate::evidence::manifest::{File, Part, Role, Tester};

/// What is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Each operation, by `test-backend-ops`.
    Operations,
    /// Greedy answers, by `llama-completion`.
    Answers,
    /// The model over a text, by `llama-perplexity`.
    Perplexity,
}

impl What {
    /// The program that tests it, as llama.cpp names it.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Operations => "test-backend-ops",
            Self::Answers => "llama-completion",
            Self::Perplexity => "llama-perplexity",
        }
    }
}

/// One test in every arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What is tested.
    pub what: What,
    /// File name of the program.
    pub program: String,
    /// SHA-256 of its file.
    pub sha256: String,
    /// Its start in each arm; of several, the last. The output is what counts, whatever it was made from.
    pub runs: Vec<Ran>,
}

impl Check {
    /// Its files in a manifest.
    ///
    /// Errors: [`StateError::Wrong`] where the digest is none.
    pub fn files(&self) -> Result<Vec<File>, StateError> {
        let sha256 = self.sha256.parse().map_err(|e| StateError::Wrong(format!("`sha256`: {e}")))?;
        let tester = Tester { name: self.program.clone(), version: None, sha256: Some(sha256) };
        let mut files = Vec::new();
        for run in &self.runs {
            let Some(arm) = label::arm(&run.arm) else { continue };
            let of = |role| Part::Item(role, Some(arm));
            let path = run.output.clone();
            files.push(File { path, part: of(Role::Correctness), program: Some(tester.clone()) });
            files.push(File { path: run.log.clone(), part: of(Role::Log), program: None });
        }
        Ok(files)
    }
}
