//! What the judge says, in the form that people's tables and machines' JSON are both made from.

use serde::{Serialize, Serializer};

use crate::evidence::correctness::{greedy::Divergence, perplexity::Difference};
use crate::evidence::finding::Finding;
use crate::evidence::ladder::Ladder;
use crate::profile::{OUTCOMES, Outcome, Values};

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
    /// Whether they are refused for wrong output and for nothing else: evidence that the program should stay stock.
    pub wrong_output: bool,
}

/// Whether the answers of one arm are right.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedCorrectness {
    /// The workload's name.
    pub workload: String,
    /// The arm: override, or another one that was compared with those before it and is not judged.
    pub arm: &'static str,
    /// The values of an override arm.
    #[serde(flatten)]
    pub values: Option<Values>,
    /// `pass` or `fail`; none where nothing that was run settles it, and for arms that are not judged.
    #[serde(serialize_with = "outcome")]
    pub outcome: Option<Outcome>,
    /// The programs that tested it, as the manifest names them, with their digests.
    pub programs: Vec<String>,
    /// Operations that `test-backend-ops` tried.
    pub operations_tried: u64,
    /// Those that were wrong, each with its parameters.
    pub operations_failed: Vec<String>,
    /// Greedy answers, compared with each other arm's.
    pub outputs: Vec<OutputsReport>,
    /// Perplexity, compared with each other arm's.
    pub perplexity: Vec<PerplexityReport>,
}

/// Greedy answers compared with those of one other arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputsReport {
    /// The other arm.
    pub reference: &'static str,
    /// How many prompts.
    pub prompts: usize,
    /// How many tokens the answers have.
    pub tokens: usize,
    /// How many answers are exactly the same.
    pub same: usize,
    /// Where the others begin to differ.
    pub divergences: Vec<Divergence>,
}

/// Perplexity compared with that of one other arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PerplexityReport {
    /// The other arm.
    pub reference: &'static str,
    /// What was found.
    pub estimate: f64,
    /// Its error over the text.
    pub error: Option<f64>,
    /// In what it differs from the other arm's.
    pub difference: Difference,
}

impl JudgedCorrectness {
    /// What was tested against what, in one line, as a profile keeps it.
    pub fn method(&self) -> String {
        let mut parts = Vec::new();
        if self.operations_tried > 0 {
            let wrong = match self.operations_failed.len() {
                0 => String::new(),
                count => format!(", {count} wrong"),
            };
            parts.push(format!("test-backend-ops: {} operations{wrong}", self.operations_tried));
        }
        for compared in &self.outputs {
            parts.push(format!(
                "greedy output: {} of {} prompts, {} tokens, as {}",
                compared.same, compared.prompts, compared.tokens, compared.reference
            ));
        }
        for compared in &self.perplexity {
            let Difference { relative, error, .. } = compared.difference;
            parts.push(format!(
                "perplexity {}: {:+.3} % ± {:.3} % to {}",
                compared.estimate,
                relative * 100.0,
                error * 100.0,
                compared.reference
            ));
        }
        if !self.programs.is_empty() {
            parts.push(format!("by {}", self.programs.join(", ")));
        }
        parts.join("; ")
    }

    /// The outcome in words.
    pub fn words(&self) -> &'static str {
        let none = if self.values.is_some() { "unsettled" } else { "compared" };
        self.outcome.map_or(none, outcome_word)
    }
}

fn outcome_word(outcome: Outcome) -> &'static str {
    OUTCOMES.iter().find(|(_, known)| *known == outcome).map_or("", |(word, _)| word)
}

fn outcome<S: Serializer>(outcome: &Option<Outcome>, serializer: S) -> Result<S::Ok, S::Error> {
    outcome.map(outcome_word).serialize(serializer)
}

/// One workload, judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// The sets compared with the best of them, where there are several that count and can be compared.
    pub ladder: Option<Ladder>,
}

fn as_text<S: Serializer>(date: &Option<jiff::civil::Date>, serializer: S) -> Result<S::Ok, S::Error> {
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
    /// Whether answers are right, for every set that was tested for it.
    pub correctness: Vec<JudgedCorrectness>,
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
