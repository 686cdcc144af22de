//! llama-bench's json and jsonl, of every generation.
//!
//! ```text
//! [ { "build_commit": "ee3d1b54c", "build_number": 10167, …, "n_prompt": 512, "n_gen": 0,
//!     "test_time": "2026-08-09T18:13:03Z", …, "samples_ns": [ 1180977334, … ], "samples_ts": [ 433.539, … ] }, … ]
//! ```
//!
//! The fields of a row changed often: 28 in 2023, 42 three years later. Ten are in all of them and are required; the
//! rest is kept as settings, whatever its type. Rates are computed from `samples_ns`, which is exact; `samples_ts` has
//! six significant digits and is only checked against them.

mod check;
mod fields;
mod framing;
mod names;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

pub use framing::no_samples_format;
pub use names::{name, varying};

use super::codes::Code;
use super::finding::{Finding, bytes_of};
use super::json::Json;
use super::log_dialect;

/// Most bytes of one file.
pub const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Most rows of one file.
pub const MOST_ROWS: usize = 2_000;
/// Most samples of one row.
pub const MOST_SAMPLES: usize = 10_000;

/// How the rows were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `-o json`: one list.
    Json,
    /// `-o jsonl`: one row a line.
    Jsonl,
}

/// A file as far as it could be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchFile {
    /// How the rows were written.
    pub format: Format,
    /// Every complete row, in the order of the file.
    pub rows: Vec<Row>,
    /// What is wrong with it.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// One test: some samples of one kind of work with one set of settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What work was measured.
    pub test: Test,
    /// The build of llama-bench.
    pub build: Build,
    /// The model.
    pub model: Model,
    /// When the test began.
    #[serde(serialize_with = "super::as_text")]
    pub test_time: Timestamp,
    /// Wall time of each sample, in nanoseconds.
    pub samples_ns: Vec<u64>,
    /// Rate of each sample, in tokens per second; empty where a sample is zero.
    pub rates: Vec<f64>,
    /// The processor as llama.cpp names it.
    pub cpu: Option<String>,
    /// The GPU as llama.cpp names it; empty where none was used.
    pub gpu: Option<String>,
    /// Every other field that says how the test was run, spelled one way for all generations.
    pub settings: BTreeMap<String, String>,
    /// How many fields the row has beside its samples.
    pub fields: usize,
    /// The year in which its set of fields was the newest.
    pub era: &'static str,
}

/// What work a test is. Together with the settings it identifies the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Test {
    /// Prompt tokens.
    pub n_prompt: u64,
    /// Generated tokens.
    pub n_gen: u64,
    /// Tokens already in the context.
    pub n_depth: u64,
}

/// Which build made a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Build {
    /// Commit, as far as the build knew it.
    pub commit: String,
    /// Build number, `10167` in `b10167`.
    pub number: u64,
}

/// Which model was loaded, as far as llama-bench says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Model {
    /// The path it was loaded from.
    pub filename: String,
    /// Architecture and quantisation, as text.
    pub kind: String,
    /// Bytes of the tensors.
    pub size: u64,
    /// Parameters.
    pub n_params: u64,
}

impl std::fmt::Display for Test {
    /// The name that llama-bench's own table uses: `pp512`, `tg128`, `pp16+tg8 @ d32`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.n_prompt, self.n_gen) {
            (prompt, 0) => write!(out, "pp{prompt}")?,
            (0, generated) => write!(out, "tg{generated}")?,
            (prompt, generated) => write!(out, "pp{prompt}+tg{generated}")?,
        }
        if self.n_depth > 0 {
            write!(out, " @ d{}", self.n_depth)?;
        }
        Ok(())
    }
}

impl Row {
    /// Which generation of llama-bench wrote it, by the fields that came and went.
    pub fn generation(&self) -> String {
        format!("{} ({} fields)", self.era, self.fields)
    }
}

/// Tells whether a JSON value is a row of llama-bench, complete or not.
pub fn is_row(value: &Json) -> bool {
    value.as_object().is_some_and(|row| row.get("samples_ns").is_some() || row.get("build_commit").is_some())
}

/// Reads a file. It never fails: what is wrong stands in the findings, beside every row that could be read.
///
/// Returns none where the bytes are nothing that llama-bench writes as json or jsonl.
pub fn read(bytes: &[u8]) -> Option<BenchFile> {
    if bytes.len() > MOST_BYTES {
        let message = format!("the file has {} bytes, more than {MOST_BYTES}", bytes.len());
        let findings = vec![Finding::new(Code::TooLarge, message)];
        return Some(BenchFile { format: Format::Json, rows: Vec::new(), findings });
    }
    let framed = framing::frame(bytes)?;
    let mut findings = around(bytes, &framed);
    let mut rows = Vec::new();
    for (index, value) in framed.rows.iter().enumerate() {
        match fields::row(value) {
            Ok(row) => {
                let said = format!("row {} ({})", index + 1, row.test);
                findings.extend(check::row(&row, value, &said));
                rows.push(row);
            }
            Err(wrong) => findings.extend(
                wrong.into_iter().map(|(code, why)| Finding::new(code, format!("row {}: {why}", index + 1))),
            ),
        }
    }
    findings.extend(unfinished(&framed));
    if framed.rows.is_empty() && findings.is_empty() {
        findings.push(Finding::new(Code::NoSamples, "the list has no rows"));
    }
    Some(BenchFile { format: framed.format, rows, findings })
}

fn around(bytes: &[u8], framed: &framing::Framed) -> Vec<Finding> {
    if framed.outside.is_empty() {
        return Vec::new();
    }
    let ranges: Vec<String> = framed.outside.iter().map(bytes_of).collect();
    let message = format!("text outside the JSON at {}; keep stdout and stderr apart", ranges.join(", "));
    let mut findings = vec![Finding::new(Code::TextAroundJson, message)];
    for range in &framed.outside {
        let text = String::from_utf8_lossy(bytes.get(range.clone()).unwrap_or_default());
        findings.extend(log_dialect::read_text(&text).aborts.iter().map(log_dialect::Abort::finding));
    }
    findings
}

fn unfinished(framed: &framing::Framed) -> Option<Finding> {
    let after = match (framed.rows.len(), framed.rows.last().and_then(fields::test)) {
        (0, _) => "before the first row".to_owned(),
        (count, Some(test)) => format!("after row {count} ({test})"),
        (count, None) => format!("after row {count}"),
    };
    match &framed.end {
        framing::RowsEnd::Complete => None,
        framing::RowsEnd::Early if framed.format == Format::Json => {
            Some(Finding::new(Code::Truncated, format!("truncated {after}, closing ] missing")))
        }
        framing::RowsEnd::Early => {
            Some(Finding::new(Code::Truncated, format!("truncated {after}, the last line is not complete")))
        }
        framing::RowsEnd::Malformed(why) => {
            Some(Finding::new(Code::MalformedJson, format!("{after}: {why}")))
        }
    }
}
