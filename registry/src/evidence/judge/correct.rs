//! Whether the answers of an override are right, and what shows it.
//!
//! - An operation that `test-backend-ops` finds wrong, or a run of it that does not end, is wrong output. A run that
//!   tried nothing on a GPU shows nothing.
//! - Greedy answers are held against every other arm that has answers to the same prompts with the same settings. A
//!   prompt is right where at least one of those arms gives exactly the same answer. Where none does, it is wrong,
//!   unless those arms disagree among themselves no later than the override leaves the last of them: rounding decides
//!   there, and the prompt settles nothing.
//! - A perplexity is wrong that is no number or differs from an arm's over the same chunks by more than
//!   [`MOST_DIFFERENCE`].
//!
//! An arm whose own operations are wrong vouches for nobody.

use std::collections::BTreeMap;

use super::notes::Notes;
use super::report::{JudgedCorrectness, OutputsReport, PerplexityReport};
use crate::evidence::bundle::Contents;
use crate::evidence::codes::Code;
use crate::evidence::correctness::greedy::{self, Answer, Greedy};
use crate::evidence::correctness::ops::BackendOps;
use crate::evidence::correctness::perplexity::{self, Perplexity};
use crate::evidence::correctness::{self, Output};
use crate::evidence::finding::{Finding, excerpt};
use crate::evidence::manifest::{Arm, Role, Workload};
use crate::evidence::samples::percent;
use crate::profile::{Outcome, Values, Verdict};

/// The largest difference of two perplexities of the same text, as a fraction. Backends round differently by some
/// hundredths of a per cent; kernels that are wrong are off by far more.
pub const MOST_DIFFERENCE: f64 = 0.01;

/// Judges the correctness of every set.
pub(super) fn check(workload: &Workload, contents: &Contents, notes: &mut Notes) -> Vec<JudgedCorrectness> {
    let (arms, others): (Vec<Tested>, Vec<Tested>) = read(workload, contents, notes)
        .into_iter()
        .partition(|tested| matches!(tested.arm, Arm::Override(_)));
    let others = vouching(others, notes);
    let mut judged = Vec::new();
    for set in &workload.sets {
        let Some(tested) = arms.iter().find(|tested| tested.arm == Arm::Override(set.values)) else {
            continue;
        };
        let mut judge = Judge { tested, workload, notes: &mut *notes, wrong: false, shown: false };
        let mut report = JudgedCorrectness::new(&workload.name, tested.arm);
        judge.operations(&mut report);
        judge.outputs(&others, &mut report);
        judge.perplexity(&others, &mut report);
        let (wrong, shown) = (judge.wrong, judge.shown);
        report.outcome = if wrong { Some(Outcome::Fail) } else { shown.then_some(Outcome::Pass) };
        report.programs = tested.programs.clone();
        judged.push(report);
    }
    untested(workload, &judged, notes);
    judged.extend(
        others.iter().enumerate().filter_map(|(index, one)| against(workload, one, others.get(..index)?)),
    );
    judged
}

/// An arm that is not judged, compared with those before it; none where there is nothing to compare.
fn against(workload: &Workload, one: &Tested, others: &[Tested]) -> Option<JudgedCorrectness> {
    let mut report = JudgedCorrectness::new(&workload.name, one.arm);
    for other in others {
        let answers = one.answers.iter().zip(&other.answers);
        let same = answers.filter(|((_, own), (_, theirs))| incomparable(own, theirs).is_none());
        report.outputs.extend(same.map(|((_, own), (_, theirs))| compared(other.arm, own, theirs)));
        let runs = one.perplexities.iter().zip(&other.perplexities);
        report.perplexity.extend(runs.filter_map(|((_, own), (_, theirs))| measured(other.arm, own, theirs)));
    }
    report.programs = one.programs.clone();
    (!report.outputs.is_empty() || !report.perplexity.is_empty()).then_some(report)
}

/// Says which sets nothing shows to be right.
fn untested(workload: &Workload, judged: &[JudgedCorrectness], notes: &mut Notes) {
    let is_settled =
        |values| judged.iter().any(|report| report.values == Some(values) && report.outcome.is_some());
    let open: Vec<Values> =
        workload.sets.iter().map(|set| set.values).filter(|values| !is_settled(*values)).collect();
    let what = "nothing shows that the answers were right, only that they were fast";
    if open.len() == workload.sets.len() {
        return notes.common(Code::NoCorrectness, what);
    }
    for values in open {
        let finding = Finding::new(Code::NoCorrectness, format!("{values}: {what}"));
        notes.of_arm(Arm::Override(values), finding);
    }
}

/// What one arm's tests of correctness printed, each with its file.
struct Tested {
    arm: Arm,
    ops: Vec<(String, BackendOps)>,
    answers: Vec<(String, Greedy)>,
    perplexities: Vec<(String, Perplexity)>,
    programs: Vec<String>,
}

fn read(workload: &Workload, contents: &Contents, notes: &mut Notes) -> Vec<Tested> {
    let mut arms: BTreeMap<Arm, Tested> = BTreeMap::new();
    for (path, of) in workload.items(Role::Correctness) {
        let (Some(bytes), Some(arm)) = (contents.get(path), of) else { continue };
        let tested = arms.entry(arm).or_insert_with(|| Tested {
            arm,
            ops: Vec::new(),
            answers: Vec::new(),
            perplexities: Vec::new(),
            programs: Vec::new(),
        });
        let path_of = || path.to_owned();
        match correctness::read(bytes) {
            Ok(Output::Ops(ops)) => tested.ops.push((path_of(), ops)),
            Ok(Output::Greedy(answers) | Output::Text(answers)) => tested.answers.push((path_of(), answers)),
            Ok(Output::Perplexity(found)) => tested.perplexities.push((path_of(), found)),
            Err(finding) => notes.of_file(arm, path, finding),
        }
        if let Some(said) = workload.tester(path).map(ToString::to_string)
            && !tested.programs.contains(&said)
        {
            tested.programs.push(said);
        }
    }
    arms.into_values().collect()
}

/// The arms that others are held against: none whose own operations are wrong.
fn vouching(others: Vec<Tested>, notes: &mut Notes) -> Vec<Tested> {
    let mut good = Vec::new();
    for other in others {
        match other.ops.iter().find(|(_, ops)| ops.is_wrong()) {
            Some((path, ops)) => {
                let message = format!("{}; it vouches for no other arm", ops.wrong());
                notes.of_file(other.arm, path, Finding::new(Code::ReferenceWrong, message));
            }
            None => good.push(other),
        }
    }
    good
}

struct Judge<'a> {
    tested: &'a Tested,
    workload: &'a Workload,
    notes: &'a mut Notes,
    wrong: bool,
    shown: bool,
}

impl Judge<'_> {
    fn wrong(&mut self, path: &str, message: String) {
        self.wrong = true;
        let finding = Finding::new(Code::CorrectnessFailed, message);
        // Output that is wrong is what evidence for stock is about.
        let finding = if self.workload.sought == Verdict::Stock { finding.as_warning() } else { finding };
        self.notes.of_file(self.tested.arm, path, finding);
    }

    fn say(&mut self, path: &str, code: Code, message: String) {
        self.notes.of_file(self.tested.arm, path, Finding::new(code, message));
    }

    fn operations(&mut self, report: &mut JudgedCorrectness) {
        for (path, ops) in &self.tested.ops {
            report.operations_tried = report.operations_tried.saturating_add(ops.tried);
            report.operations_failed.extend(ops.failed.iter().cloned());
            let findings = ops.findings();
            self.shown |= findings.is_empty();
            for finding in findings {
                match finding.code {
                    Code::CorrectnessFailed => self.wrong(path, finding.message),
                    code => self.say(path, code, finding.message),
                }
            }
        }
    }

    /// The n-th file with answers of the override against the n-th of each other arm.
    fn outputs(&mut self, others: &[Tested], report: &mut JudgedCorrectness) {
        for (index, (path, answers)) in self.tested.answers.iter().enumerate() {
            let mut references: Vec<(Arm, &Greedy)> = Vec::new();
            for other in others {
                let Some((_, theirs)) = other.answers.get(index) else { continue };
                match incomparable(answers, theirs) {
                    None => references.push((other.arm, theirs)),
                    Some(why) => {
                        self.say(
                            path,
                            Code::PromptsDiffer,
                            format!("not compared with {}: {why}", other.arm),
                        );
                    }
                }
            }
            report.outputs.extend(references.iter().map(|(arm, theirs)| compared(*arm, answers, theirs)));
            for (number, answer) in answers.answers.iter().enumerate() {
                self.prompt(path, number, answer, &references);
            }
        }
    }

    fn prompt(&mut self, path: &str, number: usize, answer: &Answer, references: &[(Arm, &Greedy)]) {
        let known: Vec<(Arm, &Answer)> =
            references.iter().filter_map(|(arm, theirs)| Some((*arm, theirs.answers.get(number)?))).collect();
        if known.is_empty() {
            return;
        }
        let leaves: Vec<Option<usize>> =
            known.iter().map(|(_, other)| greedy::diverges_at(answer, other)).collect();
        if leaves.contains(&None) {
            // Two programs that say nothing agree, and show nothing.
            self.shown |= !answer.tokens.is_empty();
            return;
        }
        let last = leaves.iter().flatten().max().copied().unwrap_or_default();
        let others = known.iter().enumerate().flat_map(|(index, (_, one))| {
            known.iter().skip(index + 1).filter_map(move |(_, other)| greedy::diverges_at(one, other))
        });
        let said: Vec<String> = known
            .iter()
            .filter_map(|(arm, other)| {
                Some(format!("{} by {arm}", greedy::divergence(number, answer, other)?))
            })
            .collect();
        match others.min() {
            Some(earliest) if earliest <= last => {
                let message = format!(
                    "prompt {}: the arms it is held against differ among themselves from token {}: {}",
                    number + 1,
                    earliest + 1,
                    said.join("; ")
                );
                self.say(path, Code::ReferencesDiffer, message);
            }
            _ => self.wrong(path, format!("its answer is that of no other arm: {}", said.join("; "))),
        }
    }

    fn perplexity(&mut self, others: &[Tested], report: &mut JudgedCorrectness) {
        for (index, (path, found)) in self.tested.perplexities.iter().enumerate() {
            if let Some(why) = found.wrong() {
                self.wrong(path, why.to_owned());
                continue;
            }
            for other in others {
                let Some((_, theirs)) = other.perplexities.get(index) else { continue };
                let Some(compared) = measured(other.arm, found, theirs) else {
                    let why = "the text was cut otherwise, or its perplexity is no number";
                    self.say(path, Code::PromptsDiffer, format!("not compared with {}: {why}", other.arm));
                    continue;
                };
                let (estimate, difference) = (compared.estimate, compared.difference);
                report.perplexity.push(compared);
                if difference.relative.abs() > MOST_DIFFERENCE {
                    let off = percent(difference.relative.abs());
                    let message = format!(
                        "its perplexity {estimate} is off that of {} by {off} ± {}",
                        other.arm,
                        percent(difference.error)
                    );
                    self.wrong(path, message);
                } else {
                    self.shown = true;
                }
            }
        }
    }
}

/// Why answers of two arms cannot be compared.
fn incomparable(one: &Greedy, other: &Greedy) -> Option<String> {
    if one.settings != other.settings {
        let names = one.settings.keys().chain(other.settings.keys());
        let differing = names.filter(|name| one.settings.get(*name) != other.settings.get(*name));
        let name = differing.min().map_or("", String::as_str);
        return Some(format!("the setting `{}` is another", excerpt(name)));
    }
    let same =
        one.answers.iter().map(|answer| &answer.prompt).eq(other.answers.iter().map(|answer| &answer.prompt));
    (!same).then(|| "the prompts are others".to_owned())
}

fn compared(reference: Arm, found: &Greedy, expected: &Greedy) -> OutputsReport {
    let pairs = found.answers.iter().zip(&expected.answers).enumerate();
    let divergences: Vec<greedy::Divergence> =
        pairs.filter_map(|(number, (found, expected))| greedy::divergence(number, found, expected)).collect();
    OutputsReport {
        reference: reference.name(),
        prompts: found.answers.len(),
        tokens: found.tokens(),
        same: found.answers.len().saturating_sub(divergences.len()),
        divergences,
    }
}

/// The perplexity of one arm beside that of another, where both are of the same chunks.
fn measured(reference: Arm, found: &Perplexity, theirs: &Perplexity) -> Option<PerplexityReport> {
    let difference = perplexity::difference(found, theirs).filter(|_| found.is_comparable(theirs))?;
    Some(PerplexityReport {
        reference: reference.name(),
        estimate: found.estimate?,
        error: found.error,
        difference,
    })
}

impl JudgedCorrectness {
    fn new(workload: &str, arm: Arm) -> Self {
        Self {
            workload: workload.to_owned(),
            arm: arm.name(),
            values: if let Arm::Override(values) = arm { Some(values) } else { None },
            outcome: None,
            programs: Vec::new(),
            operations_tried: 0,
            operations_failed: Vec::new(),
            outputs: Vec::new(),
            perplexity: Vec::new(),
        }
    }
}
