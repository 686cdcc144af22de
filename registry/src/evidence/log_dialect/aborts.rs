//! Signs that a program did not end well.

use serde::Serialize;

use crate::evidence::codes::Code;
use crate::evidence::finding::{Finding, excerpt};

/// One sign that the program crashed, was killed or gave up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Abort {
    /// Line of the log, from 1.
    pub line: usize,
    /// The beginning of what it says.
    pub text: String,
}

impl Abort {
    /// The same as a finding.
    pub fn finding(&self) -> Finding {
        Finding::new(Code::Aborted, format!("line {}: `{}`", self.line, self.text))
    }
}

/// Words that only programs that failed print, in lower case.
const SIGNS: [&str; 23] = [
    "segmentation fault",
    "core dumped",
    "abort trap",
    "bus error",
    "illegal instruction",
    "killed: 9",
    "trace/breakpoint trap",
    "terminating due to uncaught exception",
    "terminating with uncaught exception",
    "terminate called after throwing",
    "traceback (most recent call last)",
    "runtimeerror:",
    "ggml_abort(",
    "unsupported op",
    "fatal python error",
    "fatal error",
    "error loading model",
    "failed to load model",
    "llama_bench: error:",
    "main: error:",
    "failed with status",
    "library not loaded",
    "symbol not found",
];

/// Tells whether a cleaned line is such a sign.
pub(super) fn read(line: &str, number: usize) -> Option<Abort> {
    let lower = line.to_ascii_lowercase();
    let is_sign = SIGNS.iter().any(|sign| lower.contains(sign))
        || (lower.contains("ggml_assert(") && lower.contains("failed"))
        || ends_as_killed(&lower)
        || exit_status(&lower).is_some_and(|status| status != 0);
    is_sign.then(|| Abort { line: number, text: excerpt(line) })
}

/// A shell's notice: `zsh: killed  ./llama-bench`, `[1]  11372 killed  …`, `Killed`.
fn ends_as_killed(lower: &str) -> bool {
    lower == "killed"
        || lower.split_once(": ").is_some_and(|(shell, rest)| {
            matches!(shell, "zsh" | "bash" | "sh")
                && (rest.starts_with("killed") || rest.starts_with("abort"))
        })
        || (lower.starts_with('[')
            && lower
                .split_whitespace()
                .skip(1)
                .take(3)
                .any(|word| matches!(word, "killed" | "abort" | "terminated")))
}

/// The number after `exit code` or `exit status`.
fn exit_status(lower: &str) -> Option<i64> {
    ["exit code", "exit status", "exited with status", "exited with code"].iter().find_map(|words| {
        let (_, after) = lower.split_once(words)?;
        let number = after.trim_start_matches([' ', ':', '=']);
        let end = number.find(|character: char| !character.is_ascii_digit() && character != '-');
        number.get(..end.unwrap_or(number.len()))?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_failure() {
        for line in [
            "##[error]Process completed with exit code 134.",
            "[1]    11372 segmentation fault (core dumped)  ./llama-bench -o json",
            "zsh: killed     ./llama-bench",
            "[1]  + 11372 killed     ./llama-bench",
            "libc++abi: terminating due to uncaught exception of type std::runtime_error: x",
            "RuntimeError: [metal::Device] Unable to construct residency set.",
            "GGML_ASSERT(x != NULL) failed",
            "/src/ggml-metal-ops.cpp:204: unsupported op",
            "llama_bench: error: failed to load model 'x'",
            "ggml_metal_synchronize: error: command buffer 0 failed with status 5",
            "exit status: 1",
            "dyld[33]: Library not loaded: /x.dylib",
        ] {
            assert!(read(line, 1).is_some(), "{line}");
        }
    }

    #[test]
    fn what_is_no_failure() {
        for line in [
            "exit code 0",
            "Process completed with exit code: 0",
            "ggml_metal_init: skipping kernel_x (not supported)",
            "system has 98% memory free, nothing killed it",
            "[LumeMetalCapabilities] Enabled for x (a=1)",
            "exit code",
        ] {
            assert_eq!(read(line, 1), None, "{line}");
        }
    }
}
