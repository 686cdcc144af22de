//! The statistics against numpy and scipy: `statistics/reference.json`, which `statistics/reference.py` made.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use capgate_registry::evidence::statistics::{
    self, RESAMPLES, RatioInterval, SEED, deviation, mean, median, median_deviation, ratio_of_medians,
    spearman, variation,
};
use proptest::prelude::*;
use serde_json::Value;

/// What rounding may leave between two programs that compute the same.
const ROUNDING: f64 = 1e-12;
/// What other draws of the same distribution may leave at an end of an interval, as a fraction of the interval's width:
/// 10,000 draws leave about 0.01.
const OTHER_DRAWS: f64 = 0.05;

fn reference() -> Value {
    serde_json::from_str(include_str!("statistics/reference.json")).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn assert_near(found: f64, wanted: &Value, what: &str) {
    let wanted = wanted.as_f64().unwrap();
    assert!((found - wanted).abs() <= ROUNDING * wanted.abs().max(1.0), "{what}: {found} is not {wanted}");
}

#[test]
fn single_samples_have_the_statistics_that_numpy_and_scipy_give() {
    let reference = reference();
    let samples = reference["samples"].as_object().unwrap();
    assert!(samples.len() >= 8, "{}", samples.len());
    for (name, one) in samples {
        let values = numbers(&one["values"]);
        type Statistic = fn(&[f64]) -> Option<f64>;
        let all: [(&str, Statistic); 6] = [
            ("median", median),
            ("median_deviation", median_deviation),
            ("mean", mean),
            ("deviation", deviation),
            ("variation", variation),
            ("spearman", spearman),
        ];
        for (what, statistic) in all {
            assert_near(statistic(&values).unwrap(), &one[what], &format!("{name}: {what}"));
        }
    }
}

#[test]
fn intervals_are_exactly_those_of_the_same_generator_in_python() {
    for (one, found) in ratios() {
        let exact = numbers(&one["exact"]);
        assert_near(found.ratio, &one["ratio"], "ratio");
        assert!((found.low - exact[0]).abs() <= ROUNDING * exact[0], "{one}: {found:?}");
        assert!((found.high - exact[1]).abs() <= ROUNDING * exact[1], "{one}: {found:?}");
    }
}

#[test]
fn intervals_are_those_of_scipy_within_what_other_draws_leave() {
    let mut most: f64 = 0.0;
    for (one, found) in ratios() {
        let scipy = numbers(&one["scipy"]);
        let width = scipy[1] - scipy[0];
        assert!(width > 0.0, "{one}");
        let off = (found.low - scipy[0]).abs().max((found.high - scipy[1]).abs()) / width;
        assert!(off <= OTHER_DRAWS, "{one}: {found:?} is off by {off:.3} of the width");
        most = most.max(off);
    }
    println!("the farthest end is off by {most:.4} of its interval's width");
}

/// Every pair of the reference with what is found for it.
fn ratios() -> Vec<(Value, RatioInterval)> {
    let reference = reference();
    assert_eq!(
        (reference["seed"].as_u64(), reference["resamples"].as_u64()),
        (Some(SEED), Some(RESAMPLES as u64))
    );
    let values = |name: &Value| numbers(&reference["samples"][name.as_str().unwrap()]["values"]);
    let pairs = reference["ratios"].as_array().unwrap();
    assert!(pairs.len() >= 8, "{}", pairs.len());
    let found = pairs.iter().map(|one| {
        let (above, below) = (values(&one["numerator"]), values(&one["denominator"]));
        (one.clone(), ratio_of_medians(&above, &below, RESAMPLES, SEED).unwrap())
    });
    found.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_interval_is_in_order_within_the_extremes_and_does_not_depend_on_the_order(
        above in prop::collection::vec(0.1_f64..1000.0, 1..12),
        below in prop::collection::vec(0.1_f64..1000.0, 1..12),
        seed in any::<u64>(),
    ) {
        let found = ratio_of_medians(&above, &below, 200, seed).unwrap();
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        prop_assert!(found.low <= found.high, "{found:?}");
        prop_assert!(found.low >= least(&above) / most(&below), "{found:?}");
        prop_assert!(found.high <= most(&above) / least(&below), "{found:?}");
        let turned: Vec<f64> = above.iter().rev().copied().collect();
        prop_assert_eq!(Some(found), ratio_of_medians(&turned, &below, 200, seed));
    }

    #[test]
    fn no_values_panic(values in prop::collection::vec(any::<f64>(), 0..12)) {
        let _ = (median(&values), median_deviation(&values), variation(&values), spearman(&values));
        let _ = (statistics::drift(&values), ratio_of_medians(&values, &values, 50, 1));
    }
}
