//! Which of several sets is the least that gives the whole gain.

use std::collections::{BTreeMap, BTreeSet};

use super::arm::ArmData;
use super::notes::Notes;
use super::report::{JudgedSet, Verdict};
use crate::evidence::codes::Code;
use crate::evidence::ladder::{self, Ladder, Rung};
use crate::evidence::llama_bench;
use crate::evidence::manifest::Arm;

/// Compares the sets that gain something, where there are several.
pub(super) fn ladder(
    sets: &[JudgedSet],
    arms: &[ArmData],
    varying: &BTreeSet<&str>,
    notes: &mut Notes,
) -> Option<Ladder> {
    let counting = sets.iter().filter(|set| set.verdict == Verdict::Publishable);
    let rungs: Vec<Rung> = counting
        .filter_map(|set| {
            let arm = arms.iter().find(|arm| arm.arm == Arm::Override(set.values))?;
            Some(Rung { values: set.values, rates: rates(arm, varying) })
        })
        .collect();
    if rungs.len() < 2 {
        return None;
    }
    match ladder::compare(&rungs) {
        Ok(ladder) => {
            if ladder.sufficient.is_none() {
                let message = "no set is within noise of the best in every test";
                notes.common(Code::LadderUndecided, message);
            }
            Some(ladder)
        }
        Err(error) => {
            notes.common(Code::LadderUndecided, error.to_string());
            None
        }
    }
}

fn rates(arm: &ArmData, varying: &BTreeSet<&str>) -> BTreeMap<String, Vec<f64>> {
    let named = |test: &super::arm::Measured| {
        (llama_bench::name(test.test, &test.settings, varying), test.rates.clone())
    };
    arm.tests.iter().map(named).collect()
}
