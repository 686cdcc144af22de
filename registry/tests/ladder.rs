//! The least set that gives the whole gain: examples, refusals, and what holds for any samples.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use capgate_registry::evidence::ladder::{
    EQUAL, FEWEST_SAMPLES, LEAST_RATIO, Ladder, LadderError, Rung, compare, sets,
};
use capgate_registry::evidence::statistics::{RESAMPLES, SEED, ratio_of_medians};
use capgate_registry::profile::Values;
use proptest::prelude::*;

fn values(apple_family_max: u64, max_threadgroup_memory: u64) -> Values {
    Values { apple_family_max, max_threadgroup_memory }
}

/// Ten rates around a middle that spread by about half a per cent.
fn around(middle: f64) -> Vec<f64> {
    [3, 1, 4, 1, 5, 9, 2, 6, 5, 3].iter().map(|digit| middle * (0.996 + f64::from(*digit) * 0.001)).collect()
}

fn rung(set: Values, prompt: f64, generation: f64) -> Rung {
    let rates =
        [("pp512", prompt), ("tg128", generation)].map(|(test, middle)| (test.to_owned(), around(middle)));
    Rung { values: set, rates: BTreeMap::from(rates) }
}

fn order(ladder: &Ladder) -> Vec<Values> {
    ladder.sets.iter().map(|placed| placed.values).collect()
}

#[test]
fn a_ladder_climbs_memory_last() {
    let tried = sets();
    assert_eq!(tried.len(), 10);
    assert_eq!(
        (tried[0], tried[4], tried[5]),
        (values(1006, 32768), values(1010, 32768), values(1006, 65536))
    );
    assert!(tried.iter().all(|set| set.within_bounds()));
}

#[test]
fn the_least_of_those_that_give_the_whole_gain_is_sufficient() {
    let ladder = compare(&[
        rung(values(1009, 65536), 4786.7, 206.6),
        rung(values(1006, 32768), 431.9, 12.6),
        rung(values(1007, 32768), 4786.0, 206.5),
        rung(values(1009, 32768), 4787.0, 206.7),
    ])
    .unwrap();
    assert_eq!(ladder.sufficient, Some(values(1007, 32768)));
    let expected = [values(1007, 32768), values(1009, 32768), values(1009, 65536), values(1006, 32768)];
    assert_eq!(order(&ladder), expected);
    let within: Vec<bool> = ladder.sets.iter().map(|placed| placed.within_noise).collect();
    assert_eq!(within, [true, true, true, false]);
    assert_eq!((ladder.resamples, ladder.seed), (RESAMPLES, SEED));
    let slow = &ladder.sets[3].tests[0];
    assert_eq!((slow.test.as_str(), slow.n, slow.best), ("pp512", 10, values(1009, 32768)));
    assert!(slow.interval.high < 0.1, "{slow:?}");
}

#[test]
fn a_set_has_to_hold_in_every_test() {
    let ladder =
        compare(&[rung(values(1006, 32768), 4786.0, 100.0), rung(values(1007, 32768), 4786.0, 206.0)])
            .unwrap();
    assert_eq!(ladder.sufficient, Some(values(1007, 32768)));
    let ladder =
        compare(&[rung(values(1006, 32768), 4786.0, 100.0), rung(values(1007, 32768), 400.0, 206.0)])
            .unwrap();
    assert_eq!(ladder.sufficient, None);
    // Nearer to the best over both tests, so it is named first all the same.
    assert_eq!(order(&ladder), [values(1006, 32768), values(1007, 32768)]);
}

#[test]
fn a_wide_interval_excuses_no_loss_that_matters() {
    let wild =
        |middle: f64| [0.8, 0.9, 1.0, 1.1, 1.2].iter().map(|share| share * middle).collect::<Vec<f64>>();
    let rung = |family, middle| Rung {
        values: values(family, 32768),
        rates: BTreeMap::from([("tg128".to_owned(), wild(middle))]),
    };
    let ladder = compare(&[rung(1006, 95.0), rung(1007, 100.0)]).unwrap();
    let small = &ladder.sets[1].tests[0];
    assert!(small.interval.high >= 1.0 && small.interval.ratio < LEAST_RATIO, "{small:?}");
    assert_eq!(ladder.sufficient, Some(values(1007, 32768)));
    let ladder = compare(&[rung(1006, 98.0), rung(1007, 100.0)]).unwrap();
    assert_eq!(ladder.sufficient, Some(values(1006, 32768)));
}

#[test]
fn a_small_loss_that_is_sure_is_a_loss() {
    let ladder =
        compare(&[rung(values(1006, 32768), 98.0, 100.0), rung(values(1007, 32768), 100.0, 100.0)]).unwrap();
    let small = ladder.sets.iter().find(|placed| placed.values.apple_family_max == 1006).unwrap();
    assert!(small.tests[0].interval.ratio > LEAST_RATIO && small.tests[0].interval.high < 1.0, "{small:?}");
    assert_eq!(ladder.sufficient, Some(values(1007, 32768)));
}

#[test]
fn a_loss_that_is_surely_next_to_nothing_is_none() {
    let steady = |family, middle: f64| {
        let rates = [0.9999, 1.0, 1.0, 1.0, 1.0001].map(|share| share * middle);
        Rung { values: values(family, 32768), rates: BTreeMap::from([("tg128".to_owned(), rates.to_vec())]) }
    };
    let ladder = compare(&[steady(1006, 99.8), steady(1007, 100.0)]).unwrap();
    let small = &ladder.sets[0].tests[0];
    assert!(small.interval.high < 1.0 && small.interval.low >= EQUAL, "{small:?}");
    assert_eq!(ladder.sufficient, Some(values(1006, 32768)));
    assert_eq!(
        compare(&[steady(1006, 98.9), steady(1007, 100.0)]).unwrap().sufficient,
        Some(values(1007, 32768))
    );
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_reason() {
    let good = rung(values(1007, 32768), 100.0, 10.0);
    let with = |change: fn(&mut Rung)| {
        let mut other = rung(values(1008, 32768), 100.0, 10.0);
        change(&mut other);
        compare(&[good.clone(), other]).unwrap_err()
    };
    assert_eq!(compare(&[]), Err(LadderError::Nothing));
    assert_eq!(compare(&[good.clone(), good.clone()]), Err(LadderError::Twice(values(1007, 32768))));
    assert!(matches!(with(|rung| drop(rung.rates.remove("pp512"))), LadderError::OtherTests(..)));
    assert!(matches!(with(|rung| rung.rates.clear()), LadderError::OtherTests(..)));
    let few = with(|rung| rung.rates.get_mut("tg128").unwrap().truncate(FEWEST_SAMPLES - 1));
    assert_eq!(few.to_string(), "tg128 of `1008 / 32768` has 4 sample(s); a ladder needs 5: add rounds");
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut other = rung(values(1008, 32768), 100.0, 10.0);
        other.rates.get_mut("pp512").unwrap()[3] = rate;
        assert!(matches!(compare(&[good.clone(), other]), Err(LadderError::NoRate { .. })), "{rate}");
    }
    let many = with(|rung| rung.rates.get_mut("pp512").unwrap().resize(50_000, 1.0));
    assert!(matches!(many, LadderError::TooManySamples(50_030)), "{many}");
    let sets: Vec<Rung> = (1..=21).map(|family| rung(values(family, 32768), 1.0, 1.0)).collect();
    assert_eq!(compare(&sets), Err(LadderError::TooManySets(21)));
}

fn any_rungs() -> impl Strategy<Value = Vec<Rung>> {
    let samples = prop::collection::vec(prop_oneof![90.0_f64..110.0, 1.0_f64..1000.0], FEWEST_SAMPLES..9);
    let rates = (samples.clone(), samples);
    let all = prop::sample::subsequence(sets(), 1..=5);
    all.prop_flat_map(move |chosen| {
        prop::collection::vec(rates.clone(), chosen.len()).prop_map(move |measured| {
            let rung = |(set, (prompt, generation)): (&Values, (Vec<f64>, Vec<f64>))| Rung {
                values: *set,
                rates: BTreeMap::from([("pp".to_owned(), prompt), ("tg".to_owned(), generation)]),
            };
            chosen.iter().zip(measured).map(rung).collect()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_sets_and_samples_does_not_matter(rungs in any_rungs()) {
        let mut turned: Vec<Rung> = rungs.iter().rev().cloned().collect();
        turned.iter_mut().flat_map(|rung| rung.rates.values_mut()).for_each(|rates| rates.reverse());
        prop_assert_eq!(compare(&rungs), compare(&turned));
    }

    #[test]
    fn no_set_is_sufficient_that_is_slower_for_sure_and_no_smaller_one_would_do(rungs in any_rungs()) {
        let ladder = compare(&rungs).unwrap();
        let is_slower = |set: Values| rungs.iter().any(|other| {
            let rung = rungs.iter().find(|rung| rung.values == set).unwrap();
            ["pp", "tg"].iter().any(|test| {
                let interval = ratio_of_medians(&rung.rates[*test], &other.rates[*test], RESAMPLES, SEED).unwrap();
                interval.ratio < LEAST_RATIO || (interval.ratio < 1.0 && interval.high < 1.0 && interval.low < EQUAL && is_best(&rungs, other, test))
            })
        });
        if let Some(chosen) = ladder.sufficient {
            prop_assert!(!is_slower(chosen), "{ladder:?}");
            prop_assert_eq!(ladder.sets[0].values, chosen);
        }
        let at = |set: Values| sets().iter().position(|known| *known == set).unwrap();
        let smaller = rungs.iter().map(|rung| rung.values).filter(|set| ladder.sufficient.is_none_or(|chosen| at(*set) < at(chosen)));
        for set in smaller {
            prop_assert!(is_slower(set), "{set} in {ladder:?}");
        }
        prop_assert_eq!(ladder.sets.len(), rungs.len());
    }

    #[test]
    fn a_set_alone_is_sufficient(rungs in any_rungs()) {
        let only = &rungs[..1];
        let ladder = compare(only).unwrap();
        prop_assert_eq!(ladder.sufficient, Some(only[0].values));
        prop_assert_eq!(ladder.sets[0].tests.iter().map(|step| step.interval.ratio).collect::<Vec<_>>(), [1.0, 1.0]);
    }
}

/// Whether a set has the highest median of a test.
fn is_best(rungs: &[Rung], set: &Rung, test: &str) -> bool {
    let median = |rung: &Rung| capgate_registry::evidence::statistics::median(&rung.rates[test]).unwrap();
    rungs.iter().all(|rung| median(rung) <= median(set))
}
