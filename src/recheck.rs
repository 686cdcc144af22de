//! Holds profiles against the bundle that they cite: what a profile says must be what the judge finds.

use capgate_registry::evidence::judge::{Judgement, Row, Verdict as Judged};
use capgate_registry::evidence::manifest::{Manifest, Workload};
use capgate_registry::profile::{Arm, Evidence, EvidenceKind, Profile, TestResult, Verdict};

/// Relative error that rounding may leave.
const TOLERANCE: f64 = 1e-5;
/// The same for spreads, which are written with fewer digits.
const SPREAD_TOLERANCE: f64 = 1e-3;

/// What a bundle says about profiles.
#[derive(Debug, Default)]
pub struct Rechecked {
    /// Whether any profile cites the bundle at all.
    pub cited: bool,
    /// Statements that the bundle does not bear out.
    pub faults: Vec<String>,
}

/// Compares every piece of evidence that cites the bundle.
pub fn against(profiles: &[&Profile], manifest: &Manifest, judgement: &Judgement) -> Rechecked {
    let mut found = Rechecked::default();
    for profile in profiles {
        for item in &profile.evidence {
            if judgement.bundle.as_deref() != Some(format!("sha256:{}", item.bundle).as_str()) {
                continue;
            }
            found.cited = true;
            Item { profile, item, judgement }.check(manifest, &mut found.faults);
        }
    }
    found
}

struct Item<'a> {
    profile: &'a Profile,
    item: &'a Evidence,
    judgement: &'a Judgement,
}

impl Item<'_> {
    fn check(&self, manifest: &Manifest, faults: &mut Vec<String>) {
        let Some(workload) = manifest.workloads.iter().find(|workload| self.is_about(workload)) else {
            return faults.push(self.say("the bundle holds no such program, model and combination"));
        };
        if let Some(message) = self.verdict(workload) {
            faults.push(message);
        }
        if self.item.kind == EvidenceKind::Correctness {
            faults.extend(self.outcome(workload));
            return;
        }
        for code in self.judgement.warning_codes(&workload.name) {
            if !self.item.warnings.iter().any(|said| said == code) {
                faults.push(self.say(&format!("the warning `{code}` is missing in `warnings`")));
            }
        }
        for test in &self.item.tests {
            self.test(workload, test, faults);
        }
    }

    fn say(&self, what: &str) -> String {
        let model = self.item.model.as_ref().map_or("no model", |model| model.name.as_str());
        format!("`{}`, evidence with {model}: {what}", self.profile.id)
    }

    fn is_about(&self, workload: &Workload) -> bool {
        let program = &workload.program;
        let (profile, tested) = (self.profile, &self.profile.workload);
        let model = self.item.model.as_ref();
        program.sha256 == tested.sha256
            && program.name == tested.name
            && program.version == tested.version
            && workload.host.chip == profile.host.chip
            && workload.host.os.build == profile.host.os.build
            && workload.guest.os.build == profile.guest.os.build
            && model.is_none_or(|model| {
                model.name == workload.model.name && model.sha256 == workload.model.sha256
            })
    }

    fn verdict(&self, workload: &Workload) -> Option<String> {
        let judged = self.judgement.workloads.iter().find(|judged| judged.workload == workload.name)?;
        let set = judged.sets.iter().find(|set| Some(set.values) == self.item.values);
        let found = set.map_or(judged.verdict, |set| set.verdict);
        let borne_out = match self.profile.verdict {
            Verdict::Override => found == Judged::Publishable,
            Verdict::Stock => found != Judged::Refused || set.is_some_and(|set| set.wrong_output),
        };
        (!borne_out).then(|| self.say(&format!("the judge's verdict is {}", found.words())))
    }

    /// What the judge says of the answers otherwise.
    fn outcome(&self, workload: &Workload) -> Option<String> {
        let mut tested = self.judgement.correctness.iter().filter(|tested| tested.workload == workload.name);
        let Some(tested) = tested.find(|tested| tested.values == self.item.values) else {
            return Some(self.say("nothing in the bundle tests the answers"));
        };
        let agrees = tested.outcome.is_some() && tested.outcome == self.item.outcome;
        (!agrees).then(|| self.say(&format!("the judge finds that the answers are: {}", tested.words())))
    }

    fn test(&self, workload: &Workload, test: &TestResult, faults: &mut Vec<String>) {
        let arms =
            [("stock", Some(test.stock)), ("override", test.changed), ("host", test.host), ("cpu", test.cpu)];
        for (arm, said) in arms.into_iter().filter_map(|(arm, said)| Some((arm, said?))) {
            let name = format!("{} {arm}", test.name);
            match self.row(workload, &test.name, arm) {
                None => faults.push(self.say(&format!("{name} is not in the bundle"))),
                Some(row) if !agrees(said, row) => {
                    let (n, median, cv) = (row.n, row.median, row.cv.unwrap_or_default());
                    faults.push(self.say(&format!("{name} is n = {n}, median = {median:.7}, cv = {cv:.7}")));
                }
                Some(_) => {}
            }
        }
    }

    fn row(&self, workload: &Workload, test: &str, arm: &str) -> Option<&Row> {
        let is_it = |row: &&Row| row.workload == workload.name && row.test == test && row.arm == arm;
        let mut rows = self.judgement.rows.iter().filter(is_it);
        rows.find(|row| row.values.is_none() || row.values == self.item.values)
    }
}

fn agrees(said: Arm, row: &Row) -> bool {
    let close = |a: f64, b: f64, tolerance: f64| (a - b).abs() <= tolerance * b.abs();
    said.n == row.n as u64
        && close(said.median, row.median, TOLERANCE)
        && close(said.cv, row.cv.unwrap_or_default(), SPREAD_TOLERANCE)
}
