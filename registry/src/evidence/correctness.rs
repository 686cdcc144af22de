//! Output of tests of correctness: llama.cpp's `test-backend-ops`, or anything that must be the same in every arm.
//!
//! `test-backend-ops` names each operation with `OK`, `FAIL` or `not supported` and ends with `N/M backends passed`.
//! Any other file, such as greedy output with a fixed seed, is compared byte for byte with that of another arm.

use super::log_dialect;

/// What `test-backend-ops` found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackendOps {
    /// Operations that were right.
    pub passed: u64,
    /// Operations that were tried.
    pub tried: u64,
    /// Names of operations that failed, as printed.
    pub failed: Vec<String>,
    /// Whether the run came to its end.
    pub is_complete: bool,
}

impl BackendOps {
    /// Tells whether every operation was right.
    pub fn is_right(&self) -> bool {
        self.is_complete && self.failed.is_empty() && self.passed == self.tried && self.tried > 0
    }
}

/// Reads the output of `test-backend-ops`; none where it is something else.
pub fn backend_ops(bytes: &[u8]) -> Option<BackendOps> {
    let text = String::from_utf8_lossy(bytes);
    let mut ops = BackendOps::default();
    let mut is_ours = false;
    for line in text.lines().map(log_dialect::clean) {
        if let Some((passed, tried)) = counted(&line, " tests passed") {
            ops.passed = ops.passed.saturating_add(passed);
            ops.tried = ops.tried.saturating_add(tried);
            is_ours = true;
        } else if let Some((passed, tried)) = counted(&line, " backends passed") {
            ops.is_complete = passed == tried;
            is_ours = true;
        } else if line.ends_with("FAIL") && !line.starts_with("Backend ") && line != "FAIL" {
            let name = line.split(['(', ':']).next().unwrap_or_default();
            ops.failed.push(name.trim().to_owned());
        }
    }
    ops.failed.dedup();
    is_ours.then_some(ops)
}

/// `12/13 tests passed`
fn counted(line: &str, words: &str) -> Option<(u64, u64)> {
    let (passed, tried) = line.strip_suffix(words)?.trim().split_once('/')?;
    Some((passed.parse().ok()?, tried.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Testing 2 devices\n\nBackend 1/2: MTL0\n  ABS(type=f16): \u{1b}[1;32mOK\u{1b}[0m\n  X(a=1): not supported [MTL0]\n  \
                        2/2 tests passed\n  Backend MTL0: \u{1b}[1;32mOK\u{1b}[0m\nBackend 2/2: CPU\n  Skipping\n2/2 backends passed\nOK\n";

    #[test]
    fn right_wrong_and_unfinished() {
        let good = backend_ops(GOOD.as_bytes()).unwrap();
        assert!(good.is_right());
        let bad = GOOD
            .replace("\u{1b}[1;32mOK\u{1b}[0m\n  X", "[ABS] NMSE = 1 > 0 \u{1b}[1;31mFAIL\u{1b}[0m\n  X")
            .replace("2/2 tests", "1/2 tests");
        let bad = backend_ops(bad.as_bytes()).unwrap();
        assert_eq!((bad.is_right(), bad.failed), (false, vec!["ABS".to_owned()]));
        let cut = GOOD.split_once("2/2 backends").unwrap().0;
        assert!(!backend_ops(cut.as_bytes()).unwrap().is_right());
        assert_eq!(backend_ops(b"The capital of France is Paris\n"), None);
    }
}
