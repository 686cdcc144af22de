//! The least set of values that gives the whole gain.
//!
//! A set is *within noise of the best* if, in every test, both hold for `r`, its median rate over the best set's:
//! the upper end of the 95 % interval of `r` ([`statistics::ratio_of_medians`], [`RESAMPLES`] resamples, seed [`SEED`])
//! reaches 1, so that it is not shown to be slower, or all of it lies at or above [`EQUAL`], so that what is shown is too
//! little to matter; and `r` itself is at least [`LEAST_RATIO`], so that a wide interval excuses no loss that matters. (The
//! best of ten equal sets is the luckiest one, beside which steady samples show the others to be slower, by next to
//! nothing.) The best set of a test is the one with the highest median, of equal ones the smallest.
//! The least set that is within noise is *sufficient*; where no set is, in every test, none is, and nothing is chosen.
//!
//! Sets are ordered by memory first: no Apple GPU documents more than 32 KiB of threadgroup memory, so the larger
//! answer claims what no hardware does, a higher family at most what a newer GPU does.

use std::collections::BTreeMap;

use serde::Serialize;

use super::statistics::{self, MOST_DRAWS, RESAMPLES, RatioInterval, SEED};
use crate::profile::Values;

/// Fewer samples of a test than this decide nothing: an interval of their median is the samples themselves.
pub const FEWEST_SAMPLES: usize = 5;
/// The least ratio to the best set's median that counts as the same.
pub const LEAST_RATIO: f64 = 0.97;
/// A loss that is surely smaller than this is none: the lower end of the interval from here on.
pub const EQUAL: f64 = 0.99;
/// Most sets; the hard bounds allow no more.
pub const MOST_SETS: usize = 20;

/// The families that a ladder tries unless somebody says otherwise: the first beyond every guest's own answer up to the
/// newest.
const FAMILIES: std::ops::RangeInclusive<u64> = 1006..=1010;

/// The sets that a ladder tries unless somebody says otherwise, the smallest first.
pub fn sets() -> Vec<Values> {
    let memories = crate::profile::THREADGROUP_MEMORIES;
    let of_memory = |memory| {
        FAMILIES.map(move |family| Values { apple_family_max: family, max_threadgroup_memory: memory })
    };
    let mut sets: Vec<Values> = memories.into_iter().flat_map(of_memory).collect();
    sets.sort_by_key(|values| size(*values));
    sets
}

/// What sets are ordered by.
fn size(values: Values) -> (u64, u64) {
    (values.max_threadgroup_memory, values.apple_family_max)
}

/// One set with the samples of its tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Rung {
    /// The set.
    pub values: Values,
    /// Rates in tokens per second, by the test's name.
    pub rates: BTreeMap<String, Vec<f64>>,
}

/// How a set does in one test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// The test's name.
    pub test: String,
    /// Its samples.
    pub n: usize,
    /// The set with the highest median.
    pub best: Values,
    /// Its median rate over the best set's, with the 95 % interval.
    #[serde(flatten)]
    pub interval: RatioInterval,
    /// Whether that is within noise of the best.
    pub within_noise: bool,
}

/// How a set does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placed {
    /// The set.
    #[serde(flatten)]
    pub values: Values,
    /// Whether it is within noise of the best in every test.
    pub within_noise: bool,
    /// The tests, by name.
    pub tests: Vec<Step>,
}

/// Sets compared with the best of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ladder {
    /// How often samples were drawn anew for each interval.
    pub resamples: usize,
    /// The seed of each interval.
    pub seed: u64,
    /// The least set that is within noise of the best in every test.
    pub sufficient: Option<Values>,
    /// Every set: those within noise from small to large, then the others, the fastest first.
    pub sets: Vec<Placed>,
}

/// Says why sets cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// There is nothing to compare.
    #[error("no set was measured")]
    Nothing,
    /// A set stands twice.
    #[error("the set `{0}` is given twice")]
    Twice(Values),
    /// More sets than there can be.
    #[error("{0} sets are more than the {MOST_SETS} that there are")]
    TooManySets(usize),
    /// A set was measured with other tests.
    #[error("`{0}` and `{1}` were not measured with the same tests; run every set with the same arguments")]
    OtherTests(Values, Values),
    /// There are too few samples to tell noise from loss.
    #[error("{test} of `{values}` has {n} sample(s); a ladder needs {FEWEST_SAMPLES}: add rounds")]
    TooFewSamples {
        /// The set.
        values: Values,
        /// The test.
        test: String,
        /// How many samples there are.
        n: usize,
    },
    /// There are more samples than anybody resamples.
    #[error("{0} samples are more than are drawn anew {RESAMPLES} times; leave out tests or sets")]
    TooManySamples(usize),
    /// A rate is zero, below it or no finite number.
    #[error("{test} of `{values}` has a rate that is no finite number above zero")]
    NoRate {
        /// The set.
        values: Values,
        /// The test.
        test: String,
    },
}

/// Compares sets, in whatever order they and their samples are given.
pub fn compare(rungs: &[Rung]) -> Result<Ladder, LadderError> {
    let mut rungs: Vec<&Rung> = rungs.iter().collect();
    rungs.sort_by_key(|rung| size(rung.values));
    check(&rungs)?;
    let tests: Vec<&String> = rungs.first().map(|rung| rung.rates.keys().collect()).unwrap_or_default();
    let mut best: BTreeMap<&str, &Rung> = BTreeMap::new();
    for test in &tests {
        best.extend(fastest(&rungs, test).map(|rung| (test.as_str(), rung)));
    }
    let mut sets = Vec::new();
    for rung in &rungs {
        let steps: Result<Vec<Step>, LadderError> =
            best.iter().map(|(test, best)| step(rung, best, test)).collect();
        let steps = steps?;
        let within_noise = steps.iter().all(|step| step.within_noise);
        sets.push(Placed { values: rung.values, within_noise, tests: steps });
    }
    let sufficient = sets.iter().find(|placed| placed.within_noise).map(|placed| placed.values);
    sets.sort_by(|one, other| {
        let slower = other.pace().total_cmp(&one.pace());
        let by_size = size(one.values).cmp(&size(other.values));
        let by_pace = if one.within_noise { by_size } else { slower.then(by_size) };
        other.within_noise.cmp(&one.within_noise).then(by_pace)
    });
    Ok(Ladder { resamples: RESAMPLES, seed: SEED, sufficient, sets })
}

impl Placed {
    /// The mean of the logarithms of its ratios, by which sets that are not within noise are ordered.
    fn pace(&self) -> f64 {
        let logarithms: Vec<f64> = self.tests.iter().map(|step| step.interval.ratio.ln()).collect();
        statistics::mean(&logarithms).unwrap_or(0.0)
    }
}

fn check(rungs: &[&Rung]) -> Result<(), LadderError> {
    let first = rungs.first().ok_or(LadderError::Nothing)?;
    if rungs.len() > MOST_SETS {
        return Err(LadderError::TooManySets(rungs.len()));
    }
    if let Some([twice, _]) = rungs.array_windows().find(|[one, next]| one.values == next.values) {
        return Err(LadderError::Twice(twice.values));
    }
    for rung in rungs {
        if rung.rates.is_empty() || !rung.rates.keys().eq(first.rates.keys()) {
            return Err(LadderError::OtherTests(first.values, rung.values));
        }
        for (test, rates) in &rung.rates {
            let (values, n, test) = (rung.values, rates.len(), test.clone());
            if n < FEWEST_SAMPLES {
                return Err(LadderError::TooFewSamples { values, test, n });
            }
            if !rates.iter().all(|rate| rate.is_finite() && *rate > 0.0) {
                return Err(LadderError::NoRate { values, test });
            }
        }
    }
    let samples = rungs.iter().flat_map(|rung| rung.rates.values()).map(Vec::len).sum::<usize>();
    // Each set is drawn against the best, which may be the one with the most samples.
    let most = rungs.iter().flat_map(|rung| rung.rates.values()).map(Vec::len).max().unwrap_or_default();
    let comparisons = rungs.len().saturating_mul(first.rates.len());
    let drawn = samples.saturating_add(most.saturating_mul(comparisons));
    if drawn > MOST_DRAWS / RESAMPLES {
        return Err(LadderError::TooManySamples(samples));
    }
    Ok(())
}

/// The set with the highest median; of equal ones the first, which is the smallest.
fn fastest<'r>(rungs: &[&'r Rung], test: &str) -> Option<&'r Rung> {
    let mut best: Option<(f64, &Rung)> = None;
    for rung in rungs {
        let Some(median) = rung.rates.get(test).and_then(|rates| statistics::median(rates)) else { continue };
        if best.is_none_or(|(known, _)| median > known) {
            best = Some((median, rung));
        }
    }
    best.map(|(_, rung)| rung)
}

fn step(rung: &Rung, best: &Rung, test: &str) -> Result<Step, LadderError> {
    let no_rate = || LadderError::NoRate { values: rung.values, test: test.to_owned() };
    let (own, others) = rung.rates.get(test).zip(best.rates.get(test)).ok_or_else(no_rate)?;
    let interval = statistics::ratio_of_medians(own, others, RESAMPLES, SEED).ok_or_else(no_rate)?;
    Ok(Step {
        test: test.to_owned(),
        n: own.len(),
        best: best.values,
        interval,
        within_noise: (interval.high >= 1.0 || interval.low >= EQUAL) && interval.ratio >= LEAST_RATIO,
    })
}
