//! One arm: its samples pooled by test, its logs and its probes.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::notes::Notes;
use crate::evidence::bundle::Contents;
use crate::evidence::codes::Code;
use crate::evidence::finding::Finding;
use crate::evidence::llama_bench::{self, Row, Test};
use crate::evidence::log_dialect::{self, Log};
use crate::evidence::manifest::{Arm, Role, Workload};
use crate::evidence::mlx::{self, MlxFile};
use crate::evidence::probe::{self, Probe};

/// One arm as far as its files could be read.
#[derive(Debug)]
pub(super) struct ArmData {
    /// Which.
    pub arm: Arm,
    /// Files that hold its samples, as many as it had processes.
    pub files: Vec<String>,
    /// Its tests, in the order of their first sample.
    pub tests: Vec<Measured>,
    /// Its logs.
    pub logs: Vec<(String, Log)>,
    /// Its probes.
    pub probes: Vec<(String, Probe)>,
    /// Whether a file of it could not be read whole, so that missing tests are no surprise.
    pub is_incomplete: bool,
}

/// All samples of one test in one arm.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// What work.
    pub test: Test,
    /// How it was run.
    pub settings: BTreeMap<String, String>,
    /// Which build ran it, as text.
    pub build: String,
    /// Which model, as text.
    pub model: String,
    /// The file name of the model, where one is known.
    pub model_file: Option<String>,
    /// The processor and GPU it names.
    pub machine: Vec<String>,
    /// Rates in tokens per second, in the order they were measured.
    pub rates: Vec<f64>,
    /// When the first and the last of its processes began the test.
    pub times: Option<(Timestamp, Timestamp)>,
    /// The files that the samples are from.
    pub files: Vec<String>,
}

impl Measured {
    fn of_row(row: &Row, path: &str) -> Self {
        let file = row.model.filename.rsplit(['/', '\\']).next().unwrap_or_default();
        Self {
            test: row.test,
            settings: row.settings.clone(),
            build: format!("b{} ({})", row.build.number, row.build.commit),
            model: format!("{}, {} bytes, {} parameters", row.model.kind, row.model.size, row.model.n_params),
            model_file: (!file.contains('\u{ffff}')).then(|| file.to_owned()),
            machine: [&row.cpu, &row.gpu].into_iter().flatten().cloned().collect(),
            rates: row.rates.clone(),
            times: Some((row.test_time, row.test_time)),
            files: vec![path.to_owned()],
        }
    }

    fn of_mlx(file: &MlxFile, test: Test, rates: &[f64], path: &str) -> Self {
        let versions: Vec<String> =
            file.runtime.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let mut settings = file.configuration.clone();
        // How often it was repeated is the number of samples, and no setting of the test.
        settings.remove("repeats");
        Self {
            test,
            settings,
            build: versions.join(", "),
            model: format!("{} at {}", file.model, file.revision.as_deref().unwrap_or("an unnamed revision")),
            model_file: None,
            machine: Vec::new(),
            rates: rates.to_vec(),
            times: None,
            files: vec![path.to_owned()],
        }
    }

    /// The first of the files, for findings about the test.
    pub(super) fn file(&self) -> &str {
        self.files.first().map_or("", String::as_str)
    }
}

/// Reads every file of an arm and pools the samples of equal tests.
pub(super) fn collect(arm: Arm, workload: &Workload, contents: &Contents, notes: &mut Notes) -> ArmData {
    let files: Vec<String> = workload.samples(arm).map(str::to_owned).collect();
    let mut data =
        ArmData { arm, files, tests: Vec::new(), logs: Vec::new(), probes: Vec::new(), is_incomplete: false };
    let mut measured = Vec::new();
    for path in data.files.clone() {
        match contents.get(&path) {
            Some(bytes) => measured.extend(data.read_samples(&path, bytes, workload, notes)),
            None => data.is_incomplete = true,
        }
    }
    data.pool(measured, notes);
    data.read_items(workload, contents, notes);
    data
}

impl ArmData {
    fn read_samples(
        &mut self,
        path: &str,
        bytes: &[u8],
        workload: &Workload,
        notes: &mut Notes,
    ) -> Vec<Measured> {
        let (measured, findings) = if let Some(file) = mlx::read(bytes) {
            let measured =
                file.tests.iter().map(|(test, rates)| Measured::of_mlx(&file, *test, rates, path)).collect();
            (measured, [file.findings.clone(), other_program(&file, workload)].concat())
        } else if let Some(file) = llama_bench::read(bytes) {
            let rows = file.rows.iter().filter(|row| !row.rates.is_empty());
            let measured = rows.map(|row| Measured::of_row(row, path)).collect();
            (measured, [file.findings.clone(), other_build(&file.rows, workload)].concat())
        } else {
            (Vec::new(), vec![no_samples(bytes)])
        };
        for finding in findings {
            self.is_incomplete |= finding.refuses();
            notes.of_file(self.arm, path, finding);
        }
        measured
    }

    /// Joins the samples of the same test with the same settings, in the order of time.
    fn pool(&mut self, mut measured: Vec<Measured>, notes: &mut Notes) {
        measured.sort_by_key(|one| one.times.map(|(first, _)| first));
        for one in measured {
            let same = |known: &&mut Measured| known.test == one.test && known.settings == one.settings;
            let Some(known) = self.tests.iter_mut().find(same) else {
                self.tests.push(one);
                continue;
            };
            let differs = [
                (Code::BuildDiffers, &known.build, &one.build),
                (Code::ModelDiffers, &known.model, &one.model),
            ];
            for (code, left, right) in differs.into_iter().filter(|(_, left, right)| left != right) {
                let message = format!("`{left}` and `{right}` in one arm");
                notes.of_file(self.arm, one.file(), Finding::new(code, message));
            }
            if one.rates.len() > 1
                && known.rates.windows(one.rates.len()).any(|window| window == one.rates.as_slice())
            {
                let message = format!("{}: holds the same samples as `{}`", one.test, known.file());
                notes.of_file(self.arm, one.file(), Finding::new(Code::DuplicateSamples, message));
            }
            known.rates.extend(one.rates);
            known.files.extend(one.files);
            known.times = known.times.zip(one.times).map(|((first, _), (_, last))| (first, last));
        }
    }

    fn read_items(&mut self, workload: &Workload, contents: &Contents, notes: &mut Notes) {
        for (path, of) in workload.items(Role::Log) {
            let Some(bytes) = contents.get(path).filter(|_| of == Some(self.arm)) else { continue };
            if bytes.trim_ascii().is_empty() {
                notes.of_file(
                    self.arm,
                    path,
                    Finding::new(Code::EmptyFile, "the log holds nothing").as_warning(),
                );
            }
            self.logs.push((path.to_owned(), log_dialect::read(bytes)));
        }
        for (path, of) in workload.items(Role::Probe) {
            let Some(bytes) = contents.get(path) else { continue };
            match probe::read(bytes) {
                Some(probe) => {
                    self.probes.extend(answers_for(self.arm, of, probe).map(|probe| (path.to_owned(), probe)))
                }
                None if of.is_none() || of == Some(self.arm) => {
                    notes.of_file(
                        self.arm,
                        path,
                        Finding::new(Code::UnknownKind, "is no capability probe's output"),
                    );
                }
                None => {}
            }
        }
    }
}

/// The answers of a probe that are about an arm: by the arm the file belongs to, or by its sections.
fn answers_for(arm: Arm, of: Option<Arm>, mut probe: Probe) -> Option<Probe> {
    if of.is_some() {
        return (of == Some(arm)).then_some(probe);
    }
    let wants_stock = match arm {
        Arm::Stock => true,
        Arm::Override(_) => false,
        Arm::Host | Arm::Cpu => return None,
    };
    probe.answers.retain(|answer| {
        answer
            .section
            .as_ref()
            .is_some_and(|section| section.to_ascii_lowercase().contains("stock") == wants_stock)
    });
    (!probe.answers.is_empty()).then_some(probe)
}

/// Findings where the build in the file is not the version that the manifest names.
fn other_build(rows: &[Row], workload: &Workload) -> Vec<Finding> {
    let named = workload.program.version.strip_prefix('b').and_then(|digits| digits.parse::<u64>().ok());
    let other = named.and_then(|named| rows.iter().find(|row| row.build.number != named));
    other.map_or_else(Vec::new, |row| {
        let message =
            format!("was made by b{}, the manifest names `{}`", row.build.number, workload.program.version);
        vec![Finding::new(Code::BuildDiffers, message)]
    })
}

fn other_program(file: &MlxFile, workload: &Workload) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(version) = file.runtime.get("mlx_lm").filter(|version| **version != workload.program.version)
    {
        let message =
            format!("was made by mlx_lm {version}, the manifest names `{}`", workload.program.version);
        findings.push(Finding::new(Code::BuildDiffers, message));
    }
    let is_other_revision = workload.model.revision.is_some() && workload.model.revision != file.revision;
    if file.model != workload.model.name || is_other_revision {
        let message = format!("measured `{}`, the manifest names `{}`", file.model, workload.model.name);
        findings.push(Finding::new(Code::ModelDiffers, message));
    }
    findings
}

fn no_samples(bytes: &[u8]) -> Finding {
    if bytes.trim_ascii().is_empty() {
        return Finding::new(Code::EmptyFile, "the file holds nothing");
    }
    match llama_bench::no_samples_format(&String::from_utf8_lossy(bytes)) {
        Some(format) => {
            let message = format!("{format} holds means without samples; rerun with -o json or jsonl");
            Finding::new(Code::NoSamplesFormat, message)
        }
        None => Finding::new(
            Code::UnknownKind,
            "is neither llama-bench's json or jsonl nor the MLX-LM harness's JSON",
        ),
    }
}
