//! Whether answers are right: what tests of correctness print, read and compared.
//!
//! [`ops`] reads llama.cpp's `test-backend-ops`, which holds each operation of a backend against the processor's;
//! [`greedy`] reads answers to fixed prompts, token by token; [`perplexity`] reads `llama-perplexity`. Anything else is
//! text that must be the same in every arm. What two arms differ in is said exactly, and [`super::judge`] says what it
//! means.

pub mod completion;
pub mod greedy;
pub mod ops;
pub mod perplexity;

use super::codes::Code;
use super::finding::Finding;
use greedy::Greedy;
use ops::BackendOps;
use perplexity::Perplexity;

/// What a file with a test of correctness holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// What `test-backend-ops` found.
    Ops(BackendOps),
    /// Answers to prompts, token by token.
    Greedy(Greedy),
    /// What `llama-perplexity` found.
    Perplexity(Perplexity),
    /// Anything else: answers as text.
    Text(Greedy),
}

/// Reads a file with a test of correctness; a file that is one of ours and cannot be read is a finding.
pub fn read(bytes: &[u8]) -> Result<Output, Finding> {
    if let Some(answers) = greedy::read(bytes) {
        return answers.map(Output::Greedy);
    }
    if let Some(ops) = ops::read(bytes) {
        return Ok(Output::Ops(ops));
    }
    if let Some(perplexity) = perplexity::read(bytes) {
        return Ok(Output::Perplexity(perplexity));
    }
    Ok(Output::Text(greedy::of_text(bytes)))
}

impl Output {
    /// What is wrong with it, taken by itself.
    pub fn findings(&self) -> Vec<Finding> {
        match self {
            Self::Ops(ops) => ops.findings(),
            Self::Perplexity(found) => {
                found.wrong().into_iter().map(|why| Finding::new(Code::CorrectnessFailed, why)).collect()
            }
            _ => Vec::new(),
        }
    }
}
