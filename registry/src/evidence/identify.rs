//! What a single file is, what it says, and whether it can serve as evidence.

use serde::Serialize;

use super::correctness::{Output, greedy, ops, perplexity};
use super::finding::Finding;
use super::samples::{self, Summary};
use super::{
    codes::Code, environment, judge, llama_bench, log_dialect, manifest, mlx, probe, run_record, sums,
};
use crate::document;

mod describe;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// llama-bench's json or jsonl.
    LlamaBench,
    /// llama-bench's csv, md or sql.
    LlamaBenchMeans,
    /// The JSON of the MLX-LM harness.
    MlxHarness,
    /// What `test-backend-ops` printed.
    BackendOps,
    /// Greedy answers, token by token.
    Greedy,
    /// What `llama-perplexity` printed.
    Perplexity,
    /// A program's stderr.
    Log,
    /// A capability probe's answers.
    Probe,
    /// A description of a machine.
    Environment,
    /// What a run was, as `capgate record` writes it.
    RunRecord,
    /// A list of digests.
    Sums,
    /// A bundle's manifest.
    Manifest,
    /// Nothing at all.
    Empty,
    /// Something else.
    Unknown,
}

impl Kind {
    /// The kind in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::LlamaBench => "llama-bench JSON",
            Self::LlamaBenchMeans => "llama-bench output without samples",
            Self::MlxHarness => "MLX-LM harness JSON",
            Self::BackendOps => "test-backend-ops output",
            Self::Greedy => "greedy answers",
            Self::Perplexity => "llama-perplexity output",
            Self::Log => "log",
            Self::Probe => "capability probe",
            Self::Environment => "environment record",
            Self::RunRecord => "run record",
            Self::Sums => "list of digests",
            Self::Manifest => "bundle manifest",
            Self::Empty => "empty file",
            Self::Unknown => "something else",
        }
    }
}

/// One thing that was read, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// What it is like.
    pub value: String,
}

/// A test that a file holds, in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestSummary {
    /// The test's name, with the settings that tell it from others of the file.
    pub test: String,
    /// Its samples.
    #[serde(flatten)]
    pub samples: Summary,
}

/// What a single file turned out to be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// The name it was given as.
    pub file: String,
    /// What it is.
    pub kind: Kind,
    /// Which generation or dialect of that.
    pub generation: Option<String>,
    /// What was read from it.
    pub facts: Vec<Fact>,
    /// The tests in it.
    pub rows: Vec<TestSummary>,
    /// What whoever relies on it has to know.
    pub warnings: Vec<Finding>,
    /// Why it cannot serve.
    pub refusals: Vec<Finding>,
    /// Whether it can serve as evidence.
    pub serves: bool,
}

/// Says what the file of that name and content is.
pub fn inspect(file: &str, bytes: &[u8]) -> Inspection {
    let mut inspection = Inspection {
        file: file.to_owned(),
        kind: Kind::Unknown,
        generation: None,
        facts: Vec::new(),
        rows: Vec::new(),
        warnings: Vec::new(),
        refusals: Vec::new(),
        serves: true,
    };
    let findings = inspection.fill(bytes);
    let (refusals, warnings) =
        findings.into_iter().map(|finding| finding.in_file(file)).partition(Finding::refuses);
    inspection.warnings = warnings;
    inspection.refusals = refusals;
    inspection.serves = inspection.refusals.is_empty();
    inspection
}

impl Inspection {
    /// Tries one reader after the other, the pickiest first.
    fn fill(&mut self, bytes: &[u8]) -> Vec<Finding> {
        if bytes.trim_ascii().is_empty() {
            self.kind = Kind::Empty;
            return vec![Finding::new(Code::EmptyFile, "the file holds nothing")];
        }
        if let Some(answers) = greedy::read(bytes) {
            self.kind = Kind::Greedy;
            return match answers {
                Ok(answers) => self.tested(Output::Greedy(answers)),
                Err(finding) => vec![finding],
            };
        }
        if run_record::is_one(bytes) {
            return self.run_record(bytes);
        }
        if let Some(file) = mlx::read(bytes) {
            return self.mlx(file);
        }
        if let Some(file) = llama_bench::read(bytes) {
            return self.llama_bench(file);
        }
        let text = String::from_utf8_lossy(bytes);
        if let Some(format) = llama_bench::no_samples_format(&text) {
            self.kind = Kind::LlamaBenchMeans;
            self.generation = Some(format.to_owned());
            let message = format!("{format} holds means without samples; rerun with -o json or jsonl");
            return vec![Finding::new(Code::NoSamplesFormat, message)];
        }
        if text.lines().any(|line| line.trim() == "[[workload]]") {
            return self.manifest(bytes);
        }
        let listed = sums::read(bytes);
        if !listed.files.is_empty() {
            self.kind = Kind::Sums;
            self.say("files", listed.files.len());
            return listed.findings;
        }
        if let Some(probe) = probe::read(bytes) {
            return self.probe(probe);
        }
        if let Some(ops) = ops::read(bytes) {
            self.kind = Kind::BackendOps;
            return self.tested(Output::Ops(ops));
        }
        if let Some(found) = perplexity::read(bytes) {
            self.kind = Kind::Perplexity;
            return self.tested(Output::Perplexity(found));
        }
        self.log_or_environment(bytes)
    }

    fn log_or_environment(&mut self, bytes: &[u8]) -> Vec<Finding> {
        let log = log_dialect::read(bytes);
        let has_device = !log.devices.is_empty() || !log.banners.is_empty();
        if !has_device && let Some(environment) = environment::read(bytes) {
            self.kind = Kind::Environment;
            describe::environment(&environment, &mut self.facts);
            return environment.findings();
        }
        if !log.says_something() {
            let message =
                "nothing that is known: no llama-bench or MLX-LM JSON, log, probe or environment record";
            return vec![Finding::new(Code::UnknownKind, message)];
        }
        self.kind = Kind::Log;
        describe::log(&log, &mut self.facts);
        log.findings()
    }

    fn mlx(&mut self, file: mlx::MlxFile) -> Vec<Finding> {
        self.kind = Kind::MlxHarness;
        self.generation = Some("schema 1".to_owned());
        describe::mlx(&file, &mut self.facts);
        let tests: Vec<(String, Vec<f64>)> =
            file.tests.into_iter().map(|(test, rates)| (test.to_string(), rates)).collect();
        let mut findings = file.findings;
        findings.extend(self.tests(tests));
        findings
    }

    fn llama_bench(&mut self, file: llama_bench::BenchFile) -> Vec<Finding> {
        self.kind = Kind::LlamaBench;
        self.generation = file.rows.first().map(llama_bench::Row::generation);
        describe::llama_bench(&file, &mut self.facts);
        let varying = llama_bench::varying(file.rows.iter().map(|row| &row.settings));
        let measured = file.rows.iter().filter(|row| !row.rates.is_empty());
        let named =
            measured.map(|row| (llama_bench::name(row.test, &row.settings, &varying), row.rates.clone()));
        let tests = named.collect();
        let mut findings = file.findings;
        findings.extend(self.tests(tests));
        findings
    }

    fn tests(&mut self, tests: Vec<(String, Vec<f64>)>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (test, rates) in tests {
            let samples = samples::summary(&rates);
            // Two samples are few for an arm, but other files of the arm may hold more; one has no spread at all.
            let judged = samples::findings(&samples, &test);
            findings.extend(judged.into_iter().map(|finding| {
                if finding.code == Code::TooFewSamples && samples.n > 1 {
                    finding.as_warning()
                } else {
                    finding
                }
            }));
            self.rows.push(TestSummary { test, samples });
        }
        findings
    }

    /// A test of correctness serves if it is right by itself; what it is worth beside others, the judge says.
    fn tested(&mut self, output: Output) -> Vec<Finding> {
        describe::correctness(&output, &mut self.facts);
        output.findings()
    }

    fn manifest(&mut self, bytes: &[u8]) -> Vec<Finding> {
        self.kind = Kind::Manifest;
        let problems = match manifest::Manifest::parse(bytes) {
            Ok(manifest) => {
                self.say("workloads", manifest.workloads.len());
                return Vec::new();
            }
            Err(problems) => problems,
        };
        let said = problems.iter().map(|problem| {
            let (line, column) = document::position(bytes, problem.span.start);
            Finding::new(
                Code::ManifestMalformed,
                format!("line {line}, column {column}: {}", problem.message),
            )
        });
        said.collect()
    }

    fn probe(&mut self, probe: probe::Probe) -> Vec<Finding> {
        self.kind = Kind::Probe;
        describe::probe(&probe, &mut self.facts);
        probe.findings
    }

    fn run_record(&mut self, bytes: &[u8]) -> Vec<Finding> {
        self.kind = Kind::RunRecord;
        self.generation = Some(run_record::SCHEMA.to_owned());
        match run_record::read(bytes) {
            Ok(record) => {
                describe::run_record(&record, &mut self.facts);
                judge::records::alone(&record)
            }
            Err(wrong) => vec![Finding::new(Code::RecordMalformed, wrong.to_string())],
        }
    }

    fn say(&mut self, name: &str, value: impl ToString) {
        self.facts.push(Fact { name: name.to_owned(), value: value.to_string() });
    }
}
