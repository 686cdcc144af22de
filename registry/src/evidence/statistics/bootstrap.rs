//! How sure a ratio of two medians is: the percentile bootstrap, seeded.
//!
//! Each of the resamples draws as many values from either side as it has, with replacement, and takes the ratio of the
//! two medians; the interval cuts the same share of those ratios off at both ends (quantiles interpolated linearly,
//! type 7 of Hyndman and Fan). The percentile form is taken as it stands: the jackknife, from which BCa takes its
//! acceleration, does not converge for medians.
//!
//! Places in the ascending sample are drawn from SplitMix64, begun with the seed, first those of the numerator
//! and then those of the denominator, so that neither the order of measurement nor anything else beside values, seed
//! and number of resamples plays a part. `tests/statistics/reference.py` does the same in Python, and holds it against
//! scipy.

use serde::Serialize;

use super::ratio;

/// How often samples are drawn anew unless somebody says otherwise.
pub const RESAMPLES: usize = 10_000;
/// The seed unless somebody says otherwise.
pub const SEED: u64 = 20_260_809;
/// The share of ratios that an interval holds.
pub const CONFIDENCE: f64 = 0.95;
/// Most values drawn for one interval, so that nobody's file keeps a reader busy.
pub const MOST_DRAWS: usize = 200_000_000;

/// A ratio of two medians and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RatioInterval {
    /// The ratio of the samples as they are.
    pub ratio: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The ratio `median(numerator) / median(denominator)` of two independent samples with its interval.
///
/// None for an empty side, for no resamples, for more than [`MOST_DRAWS`] draws, and where a ratio is no finite number.
pub fn ratio_of_medians(
    numerator: &[f64],
    denominator: &[f64],
    resamples: usize,
    seed: u64,
) -> Option<RatioInterval> {
    let (numerator, denominator) = (sorted(numerator), sorted(denominator));
    let draws = resamples.checked_mul(numerator.len().checked_add(denominator.len())?)?;
    if numerator.is_empty() || denominator.is_empty() || resamples == 0 || draws > MOST_DRAWS {
        return None;
    }
    let mut random = SplitMix64(seed);
    let (mut above, mut below) = (Vec::new(), Vec::new());
    let mut ratios = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        let above = drawn_median(&numerator, &mut above, &mut random)?;
        let below = drawn_median(&denominator, &mut below, &mut random)?;
        ratios.push(ratio(above, below)?);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some(RatioInterval {
        ratio: ratio(super::median(&numerator)?, super::median(&denominator)?)?,
        low: quantile(&ratios, tail)?,
        high: quantile(&ratios, 1.0 - tail)?,
    })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The median of as many values as there are, drawn with replacement. Places are drawn instead of values: whole numbers
/// are counted faster than numbers are compared, and the values stand in order already.
fn drawn_median(values: &[f64], places: &mut Vec<usize>, random: &mut SplitMix64) -> Option<f64> {
    places.clear();
    places.extend(values.iter().map(|_| random.below(values.len())));
    places.sort_unstable();
    let at = |rank: usize| values.get(*places.get(rank)?).copied();
    let middle = places.len() / 2;
    let upper = at(middle)?;
    if places.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = at(middle.checked_sub(1)?)?;
    Some(lower + (upper - lower) / 2.0)
}

/// The quantile of values in ascending order, interpolated linearly between the two nearest.
fn quantile(ascending: &[f64], share: f64) -> Option<f64> {
    let place = share * ascending.len().checked_sub(1)? as f64;
    let lower = *ascending.get(place.floor() as usize)?;
    let upper = *ascending.get(place.ceil() as usize)?;
    Some(lower + (upper - lower) * (place - place.floor()))
}

/// SplitMix64, by Steele, Lea and Flood (2014), with the constants of Vigna's public-domain `splitmix64.c`.
#[derive(Debug, Clone)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A whole number below `end`: the upper half of the product, whose bias is below `end / 2^64`.
    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_numbers() {
        // The first outputs for the seed 1234567, as they stand in the test vectors of other implementations.
        let mut random = SplitMix64(1_234_567);
        let found: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn nothing_to_draw_from_is_no_panic() {
        assert_eq!(ratio_of_medians(&[], &[1.0], 10, 1), None);
        assert_eq!(ratio_of_medians(&[1.0], &[], 10, 1), None);
        assert_eq!(ratio_of_medians(&[1.0], &[1.0], 0, 1), None);
        assert_eq!(ratio_of_medians(&[1.0], &[0.0], 10, 1), None);
        assert_eq!(ratio_of_medians(&[f64::NAN], &[1.0], 10, 1), None);
        assert_eq!(ratio_of_medians(&[1.0; 10], &[1.0; 10], usize::MAX, 1), None);
        assert_eq!(ratio_of_medians(&[1.0; 10], &[1.0; 10], MOST_DRAWS / 20 + 1, 1), None);
    }

    #[test]
    fn equal_values_leave_no_doubt() {
        let found = ratio_of_medians(&[3.0; 4], &[2.0; 5], 100, 7);
        assert_eq!(found, Some(RatioInterval { ratio: 1.5, low: 1.5, high: 1.5 }));
    }

    #[test]
    fn the_order_of_the_samples_plays_no_part() {
        let above = [5.3, 1.1, 4.7, 2.2, 9.6, 3.8, 7.4, 6.9, 8.1, 0.7];
        let below = [3.2, 9.1, 7.5, 4.4, 6.8, 1.9, 5.6, 8.3, 2.7];
        let mut turned = above;
        turned.reverse();
        let found = ratio_of_medians(&above, &below, 500, 3);
        assert_eq!(found, ratio_of_medians(&turned, &below, 500, 3));
        assert_ne!(found, ratio_of_medians(&above, &below, 500, 4));
    }
}
