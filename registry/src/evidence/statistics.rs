//! The few statistics that judging needs, each guarded against empty and zero input.
//!
//! `registry/tests/statistics.rs` holds every one of them against scipy and numpy.

mod bootstrap;

use serde::Serialize;

pub use bootstrap::{CONFIDENCE, MOST_DRAWS, RESAMPLES, RatioInterval, SEED, ratio_of_medians};

/// The middle value; the mean of the two middle ones where their number is even.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get((sorted.len() / 2).checked_sub(1)?)?;
    Some(lower + (upper - lower) / 2.0)
}

/// The arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (divisor n − 1), in the unit of the values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The coefficient of variation: sample standard deviation over mean, as a fraction.
pub fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    if mean == 0.0 {
        return None;
    }
    Some(deviation(values)? / mean.abs())
}

/// The median absolute deviation from the median, in the unit of the values and not scaled to a standard deviation.
///
/// One sample in two may be wild without moving it, unlike [`variation`].
pub fn median_deviation(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    median(&values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>())
}

/// `numerator / denominator`, where that is a finite number.
pub fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    let ratio = numerator / denominator;
    ratio.is_finite().then_some(ratio)
}

/// Spearman's rank correlation of values with their order, ties given their mean rank, from −1 to 1.
///
/// None for fewer than two values and where all are equal.
pub fn spearman(values: &[f64]) -> Option<f64> {
    let order: Vec<f64> = (0..values.len()).map(|index| index as f64).collect();
    pearson(&ranks(values), &ranks(&order))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    values
        .iter()
        .map(|value| {
            let below = sorted.partition_point(|other| other.total_cmp(value).is_lt());
            let up_to = sorted.partition_point(|other| other.total_cmp(value).is_le());
            (below + up_to + 1) as f64 / 2.0
        })
        .collect()
}

fn pearson(left: &[f64], right: &[f64]) -> Option<f64> {
    let (left_mean, right_mean) = (mean(left)?, mean(right)?);
    let mut product = 0.0;
    let (mut left_square, mut right_square) = (0.0, 0.0);
    for (one, other) in left.iter().zip(right) {
        product += (one - left_mean) * (other - right_mean);
        left_square += (one - left_mean) * (one - left_mean);
        right_square += (other - right_mean) * (other - right_mean);
    }
    ratio(product, (left_square * right_square).sqrt())
}

/// How steadily, and how far, values move from their first third to their last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Drift {
    /// Spearman's correlation with the order of the samples.
    pub rho: f64,
    /// Change from the mean of the first third to that of the last, as a fraction of the first.
    pub change: f64,
}

/// The drift of values in the order they were measured; none for fewer than three or where all are equal.
pub fn drift(values: &[f64]) -> Option<Drift> {
    let third = values.len() / 3;
    let first = mean(values.get(..third)?)?;
    let last = mean(values.get(values.len().checked_sub(third)?..)?)?;
    Some(Drift { rho: spearman(values)?, change: ratio(last - first, first)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} is not {expected}");
    }

    #[test]
    fn empty_single_and_zero_are_no_panic() {
        for values in [&[][..], &[1.0], &[0.0, 0.0], &[5.0, 5.0, 5.0]] {
            assert_eq!(spearman(values), None);
            assert_eq!(drift(values), None);
        }
        assert_eq!(
            (median(&[]), mean(&[]), deviation(&[1.0]), variation(&[0.0, 0.0])),
            (None, None, None, None)
        );
        assert_eq!(ratio(1.0, 0.0), None);
    }

    #[test]
    fn textbook_values() {
        near(median(&[3.0, 1.0, 2.0]), 2.0);
        near(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        near(deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), 2.138_089_935_299_395);
        near(variation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), 0.427_617_987_059_879);
        near(spearman(&[1.0, 2.0, 3.0, 4.0]), 1.0);
        near(spearman(&[9.0, 7.0, 5.0]), -1.0);
        // With a tie: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
        near(spearman(&[1.0, 2.0, 2.0, 3.0]), 0.948_683_298_050_513_8);
    }

    #[test]
    fn a_steady_fall_is_a_drift() {
        let falling = drift(&[8.71, 8.7, 8.66, 8.21, 7.4, 6.83, 6.11, 5.94, 5.9, 5.88]).unwrap();
        assert!(falling.rho < -0.99, "{falling:?}");
        assert!((falling.change + 0.3203).abs() < 0.001, "{falling:?}");
    }
}
