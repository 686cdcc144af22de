//! Says what a bundle proves.
//!
//! Samples, comparability and proof are judged apart: [`super::samples`] says whether a test was measured well,
//! `compare` whether two arms measured the same thing, `proof` whether logs and probes show what was active, `context`
//! what else is known or missing, `correct` whether the answers are right, `climb` which set is the least. One refusal anywhere, and the set of values it concerns is refused; one in what all
//! sets share refuses the workload. Warnings never change a verdict.

mod arm;
mod climb;
mod compare;
mod context;
mod correct;
mod notes;
mod proof;
pub mod records;
mod report;

use std::collections::BTreeSet;

use super::bundle::{self, BundleFiles, Contents};
use super::codes::Code;
use super::finding::Finding;
use super::llama_bench;
use super::manifest::{self, Arm, Manifest, Workload};
use super::samples;
use super::statistics;
use crate::document::Problem;
use crate::profile::{Outcome, Values, Verdict as Sought};
use crate::store::StoreError;

use arm::ArmData;
pub use correct::MOST_DIFFERENCE;
use notes::Notes;
pub use report::{
    JudgedCorrectness, JudgedSet, JudgedWorkload, Judgement, OutputsReport, PerplexityReport, Row, Verdict,
};

/// A gain below this on every test is none.
pub const LEAST_GAIN: f64 = 1.05;
/// A ratio to stock below this is a loss worth a warning.
const SOME_LOSS: f64 = 0.95;

/// Says why a bundle could not be judged at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// There is no manifest.
    #[error("the manifest cannot be read: {0}")]
    NoManifest(#[source] StoreError),
    /// The manifest is malformed; every problem in it.
    #[error("the manifest has {} problem(s)", .0.len())]
    Manifest(Vec<Problem>),
}

/// Judges a bundle by the manifest inside it, or by one that is given.
///
/// Returns the manifest that was used and what the bundle amounts to.
pub fn check(folder: &dyn BundleFiles, given: Option<&[u8]>) -> Result<(Manifest, Judgement), CheckError> {
    let inside = match given {
        Some(_) => None,
        None => {
            let bytes = folder
                .read(manifest::FILE_NAME, manifest::MOST_BYTES as u64)
                .map_err(CheckError::NoManifest)?;
            Some(bytes)
        }
    };
    let toml = given.or(inside.as_deref()).unwrap_or_default();
    let manifest = Manifest::parse(toml).map_err(CheckError::Manifest)?;
    let own = inside.is_some().then_some(manifest::FILE_NAME);
    let named = manifest.workloads.iter().flat_map(|workload| &workload.files).map(|file| file.path.as_str());
    let contents = bundle::load(folder, named.chain(own));
    let judgement = judge(&manifest, &contents);
    Ok((manifest, judgement))
}

/// Judges what was read of a bundle.
pub fn judge(manifest: &Manifest, contents: &Contents) -> Judgement {
    let is_sound = !contents.findings.iter().any(Finding::refuses);
    let (mut rows, mut correctness) = (Vec::new(), Vec::new());
    let mut findings = contents.findings.clone();
    let mut workloads = Vec::new();
    for workload in &manifest.workloads {
        let judged = judge_workload(workload, contents, is_sound);
        workloads.push(judged.workload);
        rows.extend(judged.rows);
        correctness.extend(judged.correctness);
        findings.extend(judged.findings);
    }
    let verdict = workloads.iter().map(|judged| judged.verdict).max().unwrap_or(Verdict::Refused);
    let (refusals, warnings) = findings.into_iter().partition(Finding::refuses);
    Judgement {
        bundle: contents.digest.map(|digest| format!("sha256:{digest}")),
        source: manifest.source.clone(),
        rows,
        correctness,
        warnings,
        refusals,
        workloads,
        verdict,
    }
}

/// A workload with what was found on the way.
struct Found {
    workload: JudgedWorkload,
    rows: Vec<Row>,
    correctness: Vec<JudgedCorrectness>,
    findings: Vec<Finding>,
}

fn judge_workload(workload: &Workload, contents: &Contents, is_sound: bool) -> Found {
    let mut notes = Notes::default();
    let output_only = workload.is_output_only();
    let arms = if output_only { workload.named_arms() } else { workload.arms() };
    let arms: Vec<ArmData> =
        arms.into_iter().map(|arm| arm::collect(arm, workload, contents, &mut notes)).collect();
    if output_only {
        check_output_only(workload, &arms, &mut notes);
    } else {
        check_arms(workload, &arms, &mut notes);
    }
    context::check(workload, &arms, contents, &mut notes);
    let correctness = correct::check(workload, contents, &mut notes);
    let rows = score(workload, &arms);
    gains(workload, &rows, &mut notes);
    records::check(workload, contents, &mut notes);
    let sets: Vec<JudgedSet> = workload
        .sets
        .iter()
        .map(|set| JudgedSet {
            values: set.values,
            verdict: verdict(workload, set.values, &rows, &correctness, &notes, is_sound),
            wrong_output: is_sound && !notes.refuses_all() && notes.refuses_only_output(set.values),
        })
        .collect();
    let judged = JudgedWorkload {
        workload: workload.name.clone(),
        verdict: overall(workload, &sets, &notes, is_sound),
        ladder: climb::ladder(&sets, &arms, &varying(&arms), &mut notes),
        sets,
        measured: workload.measured.or_else(|| newest(&arms)),
    };
    Found { workload: judged, rows, correctness, findings: notes.finish(&workload.name) }
}

fn check_arms(workload: &Workload, arms: &[ArmData], notes: &mut Notes) {
    let varying = varying(arms);
    for arm in arms {
        for test in &arm.tests {
            let said = format!("{} {}", arm.arm, llama_bench::name(test.test, &test.settings, &varying));
            for finding in samples::findings(&samples::summary(&test.rates), &said) {
                notes.of_file(arm.arm, test.file(), finding);
            }
        }
        compare::with_manifest(arm, workload, notes);
        proof::check(arm, workload, notes);
    }
    match arms.iter().find(|arm| arm.arm == Arm::Stock) {
        Some(stock) => {
            for other in arms.iter().filter(|arm| arm.arm != Arm::Stock) {
                compare::with_stock(stock, other, notes);
            }
        }
        None => notes.common(Code::NoStockArm, "no stock arm to compare with"),
    }
    if workload.sets.is_empty() {
        let finding = Finding::new(Code::NoOverrideArm, "no override arm, so no values were tested");
        notes.add(if workload.sought == Sought::Stock { finding.as_warning() } else { finding });
    }
}

/// Without samples, the logs have to show all the more that the values were active.
fn check_output_only(workload: &Workload, arms: &[ArmData], notes: &mut Notes) {
    for arm in arms {
        proof::check(arm, workload, notes);
        if matches!(arm.arm, Arm::Override(_)) && arm.logs.is_empty() {
            let message = "no log shows the shim's banner and what the device answered";
            notes.of_arm(arm.arm, Finding::new(Code::LogMissing, message));
        }
    }
    if !arms.iter().any(|arm| arm.arm == Arm::Stock) {
        notes.common(Code::NoStockArm, "no stock arm to compare with");
    }
}

/// The settings in which tests of one arm differ, of any arm, so that a test has the same name in all.
fn varying(arms: &[ArmData]) -> BTreeSet<&str> {
    arms.iter().flat_map(|arm| llama_bench::varying(arm.tests.iter().map(|test| &test.settings))).collect()
}

/// Every test of every arm in figures.
fn score(workload: &Workload, arms: &[ArmData]) -> Vec<Row> {
    let find = |wanted: Arm| arms.iter().find(|arm| arm.arm == wanted);
    let varying = varying(arms);
    let mut rows = Vec::new();
    for arm in arms {
        for test in &arm.tests {
            let summary = samples::summary(&test.rates);
            let Some(median) = summary.median else { continue };
            let ratio_to = |other: Arm| {
                let other = find(other).filter(|other| other.arm != arm.arm)?;
                statistics::ratio(median, statistics::median(&compare::partner(test, arm.arm, other)?.rates)?)
            };
            rows.push(Row {
                workload: workload.name.clone(),
                test: llama_bench::name(test.test, &test.settings, &varying),
                arm: arm.arm.name(),
                values: if let Arm::Override(values) = arm.arm { Some(values) } else { None },
                n: summary.n,
                median,
                cv: summary.cv,
                ratio_to_stock: ratio_to(Arm::Stock),
                ratio_to_host: ratio_to(Arm::Host),
                files: test.files.clone(),
            });
        }
    }
    rows
}

/// The ratios to stock of a set's tests.
fn ratios(rows: &[Row], values: Values) -> impl Iterator<Item = (&Row, f64)> {
    let of_set = rows.iter().filter(move |row| row.arm == "override" && row.values == Some(values));
    of_set.filter_map(|row| Some((row, row.ratio_to_stock?)))
}

fn gains(workload: &Workload, rows: &[Row], notes: &mut Notes) {
    for set in &workload.sets {
        for (row, ratio) in ratios(rows, set.values) {
            let say = |notes: &mut Notes, code| {
                let message = format!("{}: {ratio:.4} times the rate of stock", row.test);
                let file = row.files.first().map_or("", String::as_str);
                notes.of_file(Arm::Override(set.values), file, Finding::new(code, message));
            };
            match workload.sought {
                Sought::Override if ratio < SOME_LOSS => say(notes, Code::SlowerTest),
                Sought::Stock if ratio >= LEAST_GAIN => say(notes, Code::BenefitForgone),
                _ => {}
            }
        }
    }
}

fn verdict(
    workload: &Workload,
    values: Values,
    rows: &[Row],
    correctness: &[JudgedCorrectness],
    notes: &Notes,
    is_sound: bool,
) -> Verdict {
    if !is_sound || notes.refuses_all() || notes.refuses(values) {
        return Verdict::Refused;
    }
    if workload.sought == Sought::Stock {
        return Verdict::Stock;
    }
    if workload.is_output_only() {
        let passed = |tested: &JudgedCorrectness| {
            tested.values == Some(values) && tested.outcome == Some(Outcome::Pass)
        };
        return if correctness.iter().any(passed) { Verdict::Publishable } else { Verdict::Refused };
    }
    let gains = ratios(rows, values).any(|(_, ratio)| ratio >= LEAST_GAIN);
    if gains { Verdict::Publishable } else { Verdict::NoBenefit }
}

/// The best of the sets, unless something that all share is refused.
fn overall(workload: &Workload, sets: &[JudgedSet], notes: &Notes, is_sound: bool) -> Verdict {
    if !is_sound || notes.refuses_all() {
        return Verdict::Refused;
    }
    let best = sets.iter().map(|set| set.verdict).min();
    let without_sets = if workload.sought == Sought::Stock { Verdict::Stock } else { Verdict::Refused };
    best.unwrap_or(without_sets)
}

fn newest(arms: &[ArmData]) -> Option<jiff::civil::Date> {
    let last =
        arms.iter().flat_map(|arm| &arm.tests).filter_map(|test| test.times.map(|(_, last)| last)).max()?;
    Some(jiff::tz::Offset::UTC.to_datetime(last).date())
}
