//! Output of llama.cpp's `test-backend-ops`.
//!
//! ```text
//! Testing 3 devices
//!
//! Backend 1/3: MTL0
//!   Device description: Apple Paravirtual device
//!   ABS(type=f16,ne_a=[128,2,2,2],v=0): OK
//!   MUL_MAT(type_a=bf16,…): not supported [MTL0]
//! [ADD] ERR = 0.500000000 > 0.000000100   ADD(type=f32,…): FAIL
//!   13/14 tests passed
//!
//! Failing tests:
//!   ADD(type=f32,…)
//!   Backend MTL0: FAIL
//! Backend 3/3: CPU
//!   Skipping CPU backend
//! 2/3 backends passed
//! FAIL
//! ```
//!
//! Only this form says how a run ended. `--output sql` says which operations were wrong, and stops in the middle
//! without a sign when the program is killed; `--output csv` does not even say which were wrong.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::evidence::codes::Code;
use crate::evidence::finding::{Finding, excerpt_of};
use crate::evidence::log_dialect;

/// Most bytes that are read of one output; the full run of a large backend prints about 3 MiB.
pub const MOST_BYTES: usize = 32 * 1024 * 1024;
/// Most operations that are kept as failed; beyond it they are counted only.
pub const MOST_NAMED: usize = 10_000;
/// Failed operations that one message names; [`BackendOps::failed`] has them all.
const MOST_SAID: usize = 12;
/// Most characters that are kept of an operation with its parameters.
const LONGEST_NAME: usize = 400;

/// How an output is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// For people; the only one that says how the run ended.
    #[default]
    Console,
    /// `--output sql`.
    Sql,
    /// `--output csv`.
    Csv,
}

/// One device that was tested, or left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Backend {
    /// Its name, such as `MTL0`.
    pub name: String,
    /// Operations that were right.
    pub passed: u64,
    /// Operations that were tried.
    pub tried: u64,
}

/// What `test-backend-ops` found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct BackendOps {
    /// How it is laid out.
    pub form: Form,
    /// The devices, in their order.
    pub backends: Vec<Backend>,
    /// Operations that were right.
    pub passed: u64,
    /// Operations that were tried.
    pub tried: u64,
    /// Operations that failed, each with its parameters, once: `ADD(type=f32,…)`.
    pub failed: Vec<String>,
    /// Operations that no device could do.
    pub unsupported: u64,
    /// Whether the run came to its end.
    pub is_complete: bool,
    /// Whether the program itself says that all is well.
    pub says_ok: bool,
}

impl BackendOps {
    /// Tells whether the run ended well and no operation was wrong.
    pub fn is_right(&self) -> bool {
        self.is_complete && self.says_ok && self.failed.is_empty() && self.passed == self.tried
    }

    /// Tells whether an operation was tried on something else than the processor, with which the others are compared.
    /// Where no device is named, nobody knows, and the operations count.
    pub fn tested_a_gpu(&self) -> bool {
        let of_the_processor = |backend: &&Backend| matches!(backend.name.as_str(), "CPU" | "BLAS");
        let tried: Vec<&Backend> = self.backends.iter().filter(|backend| backend.tried > 0).collect();
        self.tried > 0 && (tried.is_empty() || !tried.iter().all(of_the_processor))
    }

    /// Tells whether an operation was wrong, or the run did not end where it would have said so.
    pub fn is_wrong(&self) -> bool {
        !self.failed.is_empty() || (self.form == Form::Console && !self.is_right())
    }

    /// What is wrong, with every operation up to a limit and the names of the rest.
    pub fn wrong(&self) -> String {
        let right = format!("{} of {} operations are right", self.passed, self.tried);
        if self.failed.is_empty() {
            let why = if self.is_complete { "a device failed" } else { "the run did not finish" };
            return format!("{right}; {why}");
        }
        let names: Vec<&str> = self.failed.iter().take(MOST_SAID).map(String::as_str).collect();
        let more = match self.failed.len().saturating_sub(MOST_SAID) {
            0 => String::new(),
            more => format!(" and {more} more, of {}", self.failed_names().join(", ")),
        };
        format!("{right}; wrong: {}{more}", names.join(", "))
    }

    /// What keeps the run from showing that operations are right.
    pub fn findings(&self) -> Vec<Finding> {
        let finding = if self.is_wrong() {
            Finding::new(Code::CorrectnessFailed, self.wrong())
        } else if self.form != Form::Console {
            let message = "sql and csv do not say how the run ended; run without `--output`";
            Finding::new(Code::NothingTested, message)
        } else if !self.tested_a_gpu() {
            let message = "no operation was tried on a GPU, so nothing that an override changes";
            Finding::new(Code::NothingTested, message)
        } else {
            return Vec::new();
        };
        vec![finding]
    }

    /// The names of the failed operations without their parameters, each once.
    pub fn failed_names(&self) -> Vec<&str> {
        let names: BTreeSet<&str> =
            self.failed.iter().map(|name| name.split('(').next().unwrap_or_default()).collect();
        names.into_iter().collect()
    }
}

/// Reads the output of `test-backend-ops`; none where it is something else.
pub fn read(bytes: &[u8]) -> Option<BackendOps> {
    let is_cut = bytes.len() > MOST_BYTES;
    let text = String::from_utf8_lossy(bytes.get(..MOST_BYTES).unwrap_or(bytes));
    let mut reader = Reader::default();
    for raw in text.lines() {
        // Escapes and times go; what a failure prints before the operation stays.
        reader.hear(&log_dialect::clean(raw));
    }
    let mut ops = reader.ops;
    ops.is_complete &= !is_cut;
    (reader.is_ours).then_some(ops)
}

#[derive(Default)]
struct Reader {
    ops: BackendOps,
    is_ours: bool,
    in_list: bool,
    known: BTreeSet<String>,
}

impl Reader {
    fn hear(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        if self.in_list && self.listed(line) {
            return;
        }
        self.in_list = false;
        if let Some((passed, tried)) = counted(line, " backends passed") {
            self.is_ours = true;
            self.ops.is_complete = true;
            self.ops.says_ok = passed == tried;
        } else if let Some((passed, tried)) = counted(line, " tests passed") {
            self.is_ours = true;
            self.ops.passed = self.ops.passed.saturating_add(passed);
            self.ops.tried = self.ops.tried.saturating_add(tried);
            if let Some(backend) = self.ops.backends.last_mut() {
                (backend.passed, backend.tried) = (passed, tried);
            }
        } else if line == "Failing tests:" {
            self.in_list = true;
        } else if line == "FAIL" {
            self.ops.says_ok = false;
        } else if let Some(name) = device(line) {
            self.is_ours = true;
            self.ops.backends.push(Backend { name: shortened(name), ..Backend::default() });
        } else if let Some((_, statement)) = line.split_once("INSERT INTO test_backend_ops (") {
            self.is_ours = true;
            self.ops.form = Form::Sql;
            self.sql(statement);
        } else if line.starts_with('"') && line.contains("\"op_name\",\"op_params\"") {
            self.is_ours = true;
            self.ops.form = Form::Csv;
        } else if let Some((name, said)) = operation(line) {
            self.said(name, said);
        }
    }

    /// One line of the list of failed operations.
    fn listed(&mut self, line: &str) -> bool {
        let is_operation = line.ends_with(')') && name_at(line) == Some(0);
        if is_operation {
            self.fail(line);
        }
        is_operation
    }

    fn said(&mut self, name: &str, said: &str) {
        if said == "FAIL" || said.ends_with(" FAIL") {
            self.fail(name);
        } else if said.starts_with("not supported") {
            self.ops.unsupported = self.ops.unsupported.saturating_add(1);
        }
    }

    fn fail(&mut self, name: &str) {
        let name = shortened(name);
        if self.ops.failed.len() < MOST_NAMED && self.known.insert(name.clone()) {
            self.ops.failed.push(name);
        }
    }

    /// `a, b, c) VALUES ('x', 'y', 'z');`, whose values are not escaped.
    fn sql(&mut self, statement: &str) {
        let Some((fields, values)) = statement.split_once(") VALUES (") else { return };
        let Some(values) = values.strip_prefix('\'').and_then(|rest| rest.strip_suffix("');")) else {
            return;
        };
        let fields: Vec<&str> = fields.split(", ").collect();
        let values: Vec<&str> = values.split("', '").collect();
        if fields.len() != values.len() {
            return;
        }
        let of = |wanted: &str| {
            fields.iter().position(|name| *name == wanted).and_then(|at| values.get(at).copied())
        };
        if of("test_mode") != Some("test") {
            return;
        }
        match (of("supported"), of("passed")) {
            (Some("1"), Some("1")) => {
                self.ops.tried = self.ops.tried.saturating_add(1);
                self.ops.passed = self.ops.passed.saturating_add(1);
            }
            (Some("1"), _) => {
                self.ops.tried = self.ops.tried.saturating_add(1);
                let (name, parameters) =
                    (of("op_name").unwrap_or_default(), of("op_params").unwrap_or_default());
                self.fail(&format!("{name}({parameters})"));
            }
            _ => self.ops.unsupported = self.ops.unsupported.saturating_add(1),
        }
    }
}

/// `12/13 tests passed`
fn counted(line: &str, words: &str) -> Option<(u64, u64)> {
    let (passed, tried) = line.strip_suffix(words)?.trim().split_once('/')?;
    Some((passed.parse().ok()?, tried.parse().ok()?))
}

/// `Backend 1/3: MTL0`, but not `Backend MTL0: OK`
fn device(line: &str) -> Option<&str> {
    let (place, name) = line.strip_prefix("Backend ")?.split_once(": ")?;
    let (index, count) = place.split_once('/')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(index) && is_number(count)).then_some(name)
}

/// An operation and what is said of it. What was wrong may stand before or behind the operation.
fn operation(line: &str) -> Option<(&str, &str)> {
    let (_, tail) = line.split_at_checked(name_at(line)?)?;
    let (head, said) = tail.split_once("): ")?;
    let (name, _) = tail.split_at_checked(head.len() + 1)?;
    Some((name, said.trim()))
}

/// Where an operation's name begins: letters, digits and lines right before a bracket.
fn name_at(line: &str) -> Option<usize> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
    line.match_indices('(').find_map(|(bracket, _)| {
        let (before, _) = line.split_at_checked(bracket)?;
        let start = before.trim_end_matches(is_part).len();
        before.get(start..)?.starts_with(|first: char| first.is_ascii_alphabetic()).then_some(start)
    })
}

fn shortened(name: &str) -> String {
    excerpt_of(name, LONGEST_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Testing 2 devices\n\nBackend 1/2: MTL0\n  Device description: Apple M1\n  ABS(type=f16): \u{1b}[1;32mOK\u{1b}[0m\n  \
                        X(a=1): not supported [MTL0]\n  2/2 tests passed\n  Backend MTL0: \u{1b}[1;32mOK\u{1b}[0m\n\
                        Backend 2/2: CPU\n  Skipping CPU backend\n2/2 backends passed\n\u{1b}[1;32mOK\u{1b}[0m\n";

    #[test]
    fn a_run_that_is_right() {
        let good = read(GOOD.as_bytes()).unwrap();
        assert!(good.is_right() && good.tested_a_gpu());
        assert_eq!((good.passed, good.tried, good.unsupported), (2, 2, 1));
        let names: Vec<&str> = good.backends.iter().map(|backend| backend.name.as_str()).collect();
        assert_eq!((names, good.backends[0].tried), (vec!["MTL0", "CPU"], 2));
    }

    #[test]
    fn every_operation_that_failed_is_named_once_in_every_way_it_is_printed() {
        let bad = GOOD
            .replace("ABS(type=f16): \u{1b}[1;32mOK", "ABS(type=f16): [ABS] NMSE = 1 > 0 \u{1b}[1;31mFAIL")
            .replace(
                "  2/2 tests passed\n",
                "[ADD] NaN at index 3 (MTL0=nan CPU=1.0)   ADD(type=f32,ne=[1,2]): \u{1b}[1;31mFAIL\u{1b}[0m\n  \
                 ADD(type=f16): FAIL\n  1/4 tests passed\n\nFailing tests:\n  ABS(type=f16)\n  ADD(type=f32,ne=[1,2])\n  ADD(type=f16)\n",
            )
            .replace("Backend MTL0: \u{1b}[1;32mOK", "Backend MTL0: \u{1b}[1;31mFAIL")
            .replace("2/2 backends passed\n\u{1b}[1;32mOK", "1/2 backends passed\n\u{1b}[1;31mFAIL");
        let bad = read(bad.as_bytes()).unwrap();
        assert_eq!(bad.failed, ["ABS(type=f16)", "ADD(type=f32,ne=[1,2])", "ADD(type=f16)"]);
        assert_eq!((bad.is_right(), bad.is_complete, bad.failed_names()), (false, true, vec!["ABS", "ADD"]));
    }

    #[test]
    fn one_wrong_operation_outweighs_what_the_program_says_at_the_end() {
        let bad = GOOD.replace("\u{1b}[1;32mOK\u{1b}[0m\n  X", "FAIL\n  X");
        assert!(!read(bad.as_bytes()).unwrap().is_right());
        let bad = GOOD.replace("2/2 tests", "1/2 tests");
        assert!(!read(bad.as_bytes()).unwrap().is_right());
        let bad = GOOD.replace("2/2 backends", "1/2 backends");
        assert!(!read(bad.as_bytes()).unwrap().is_right());
    }

    #[test]
    fn a_run_that_was_cut_off_is_not_complete() {
        let cut = GOOD.split_once("2/2 backends").unwrap().0;
        assert!(!read(cut.as_bytes()).unwrap().is_right());
        assert_eq!(read(b"The capital of France is Paris (Seine): OK\n"), None);
    }

    #[test]
    fn a_run_that_left_the_gpu_out_tested_nothing() {
        let none = "Testing 1 devices\n\nBackend 1/1: CPU\n  Skipping CPU backend\n1/1 backends passed\nOK\n";
        let none = read(none.as_bytes()).unwrap();
        assert!(none.is_right() && !none.tested_a_gpu());
        let blas = GOOD.replace("Backend 1/2: MTL0", "Backend 1/2: BLAS");
        assert!(!read(blas.as_bytes()).unwrap().tested_a_gpu());
    }

    #[test]
    fn sql_names_what_failed_but_not_the_end() {
        let row = |op: &str, supported: u8, passed: u8| {
            format!(
                "INSERT INTO test_backend_ops (backend_name, op_name, op_params, test_mode, supported, passed) VALUES \
                 ('MTL0', '{op}', 'type=f32', 'test', '{supported}', '{passed}');\n"
            )
        };
        let text =
            [row("ADD", 1, 1), format!("[MUL] ERR = 1 > 0 {}", row("MUL", 1, 0)), row("SUB", 0, 0)].concat();
        let ops = read(text.as_bytes()).unwrap();
        assert_eq!((ops.form, ops.failed.as_slice()), (Form::Sql, &["MUL(type=f32)".to_owned()][..]));
        assert_eq!((ops.passed, ops.tried, ops.unsupported, ops.is_complete), (1, 2, 1, false));
        let csv =
            read(b"\"backend_name\",\"op_name\",\"op_params\"\n\"CPU\",\"ABS\",\"type=f16\"\n").unwrap();
        assert_eq!((csv.form, csv.is_right()), (Form::Csv, false));
    }
}
