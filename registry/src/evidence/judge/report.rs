//! What the judge says, in the form that people's tables and machines' JSON are both made from.

use serde::Serialize;

use crate::evidence::finding::Finding;
use crate::profile::Values;

/// What a bundle, a workload or a set of values amounts to. The later, the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The evidence supports a profile that grants the values.
    Publishable,
    /// The evidence supports a profile that advises stock.
    Stock,
    /// Measured well, and the values gain less than 5 % on every test.
    NoBenefit,
    /// The evidence does not count.
    Refused,
}

impl Verdict {
    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Publishable => "publishable",
            Self::Stock => "stock",
            Self::NoBenefit => "no benefit",
            Self::Refused => "refused",
        }
    }
}

/// One test in one arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The workload's name.
    pub workload: String,
    /// The test's name, with the settings that tell it from others of the arm.
    pub test: String,
    /// The arm: stock, override, host or cpu.
    pub arm: &'static str,
    /// The values that an override arm claims.
    #[serde(flatten)]
    pub values: Option<Values>,
    /// How many samples.
    pub n: usize,
    /// Median rate in tokens per second.
    pub median: f64,
    /// Sample standard deviation of the rates over their mean, as a fraction; none for one sample.
    pub cv: Option<f64>,
    /// Median over the stock arm's of the same test.
    pub ratio_to_stock: Option<f64>,
    /// Median over the host arm's of the same test.
    pub ratio_to_host: Option<f64>,
    /// The files that the samples are from.
    pub files: Vec<String>,
}

/// One set of values, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JudgedSet {
    /// The values.
    #[serde(flatten)]
    pub values: Values,
    /// What they amount to.
    pub verdict: Verdict,
}

/// One workload, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JudgedWorkload {
    /// Its name.
    pub workload: String,
    /// What it amounts to: the best of its sets, unless something that all share is refused.
    pub verdict: Verdict,
    /// Its sets, each judged by itself.
    pub sets: Vec<JudgedSet>,
    /// Day of the newest sample, as `2026-08-09`.
    #[serde(serialize_with = "as_text")]
    pub measured: Option<jiff::civil::Date>,
}

fn as_text<S: serde::Serializer>(date: &Option<jiff::civil::Date>, serializer: S) -> Result<S::Ok, S::Error> {
    date.map(|date| date.to_string()).serialize(serializer)
}

/// A bundle, judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// SHA-256 of the bundle's SHA256SUMS, as `sha256:…`.
    pub bundle: Option<String>,
    /// Where it can be read.
    pub source: Option<String>,
    /// Every test in every scored arm.
    pub rows: Vec<Row>,
    /// What whoever relies on it has to know.
    pub warnings: Vec<Finding>,
    /// Why it does not count.
    pub refusals: Vec<Finding>,
    /// Every workload.
    pub workloads: Vec<JudgedWorkload>,
    /// The worst of the workloads' verdicts.
    pub verdict: Verdict,
}

impl Judgement {
    /// The codes of the warnings that concern a workload, each once, by name.
    pub fn warning_codes(&self, workload: &str) -> Vec<&'static str> {
        let concerning = self
            .warnings
            .iter()
            .filter(|finding| finding.workload.as_deref().is_none_or(|name| name == workload));
        let mut names: Vec<&str> = concerning.map(|finding| finding.code.name()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
