//! Output of `llama-perplexity`.
//!
//! ```text
//! perplexity: calculating perplexity over 3 chunks, n_ctx=128, batch_size=512, n_seq=4
//! [1]5.1312,[2]6.0021,[3]5.8755,
//! Final estimate: PPL = 5.8755 +/- 0.21341
//! ```
//!
//! The values in brackets are estimates over all chunks so far. Two runs over the same text with the same chunks can
//! be compared chunk by chunk, which says far more than their errors: those are about the text, which is the same.

use serde::Serialize;

use crate::evidence::log_dialect;
use crate::evidence::statistics;

/// Most bytes of one output.
pub const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Most chunks that are kept.
pub const MOST_CHUNKS: usize = 100_000;

/// What one run found.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Perplexity {
    /// The final estimate; none where the run gave none, or one that is no number.
    pub estimate: Option<f64>,
    /// Its error, as printed.
    pub error: Option<f64>,
    /// The estimates after each chunk.
    #[serde(skip)]
    pub chunks: Vec<f64>,
    /// Whether the run came to its end. An exit status of 0 does not say so: b11434 loses its last lines now and then.
    pub is_finished: bool,
    /// How the text was cut: `3 chunks, n_ctx=128, batch_size=512, n_seq=4`.
    pub cut: Option<String>,
}

/// In what two runs over the same text differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The perplexity of the one over that of the other, less 1.
    pub relative: f64,
    /// The standard error of that.
    pub error: f64,
    /// Whether chunk was compared with chunk; otherwise the error is far too large, since it holds the text's own.
    pub paired: bool,
}

/// Reads the output of `llama-perplexity`; none where it is something else.
pub fn read(bytes: &[u8]) -> Option<Perplexity> {
    let text = String::from_utf8_lossy(bytes.get(..MOST_BYTES).unwrap_or(bytes));
    let mut found = Perplexity::default();
    let mut is_ours = false;
    for line in text.lines().map(log_dialect::clean) {
        if let Some((_, said)) = line.split_once("calculating perplexity over ") {
            found.cut = Some(said.to_owned());
            is_ours = true;
        }
        if let Some((_, said)) = line.split_once("Final estimate: PPL = ") {
            let (estimate, error) = said.split_once(" +/- ").unwrap_or((said, ""));
            (found.estimate, found.error) = (number(estimate), number(error));
            found.is_finished = true;
            is_ours = true;
        } else if line.contains("Unexpected negative standard deviation of log(prob)") {
            found.is_finished = true;
        } else if line.starts_with("[1]") || (is_ours && line.starts_with('[')) {
            chunks(&line, &mut found.chunks);
        }
    }
    is_ours.then_some(found)
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// `[1]5.1312,[2]6.0021,`, each the next; the first that is not ends it.
fn chunks(line: &str, known: &mut Vec<f64>) {
    for item in line.split(',') {
        let next = known.len() + 1;
        let Some((place, value)) = item.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
            return;
        };
        let (Ok(place), Some(value)) = (place.parse::<usize>(), number(value)) else { return };
        if place != next || known.len() == MOST_CHUNKS {
            return;
        }
        known.push(value);
    }
}

impl Perplexity {
    /// What is wrong with it by itself.
    pub fn wrong(&self) -> Option<&'static str> {
        match (self.is_finished, self.estimate) {
            (false, _) => Some("the run over the text did not finish"),
            (true, None) => Some("its perplexity is no number"),
            (true, Some(_)) => None,
        }
    }

    /// Tells whether both are of the same text in the same chunks, as far as they say.
    pub fn is_comparable(&self, other: &Self) -> bool {
        self.cut == other.cut && self.chunks.len() == other.chunks.len()
    }
}

/// In what the one differs from the other; none where either has no estimate above zero.
pub fn difference(one: &Perplexity, other: &Perplexity) -> Option<Difference> {
    let (left, right) = (one.estimate?, other.estimate?);
    let relative = statistics::ratio(left, right)? - 1.0;
    if let Some(error) = paired_error(one, other) {
        return Some(Difference { relative, error: error * (1.0 + relative), paired: true });
    }
    let share = |run: &Perplexity, estimate: f64| statistics::ratio(run.error?, estimate);
    let (left, right) = (share(one, left)?, share(other, right)?);
    Some(Difference { relative, error: (1.0 + relative) * left.hypot(right), paired: false })
}

/// The standard error of the mean difference of the chunks' own logarithms.
fn paired_error(one: &Perplexity, other: &Perplexity) -> Option<f64> {
    if one.chunks.len() < 2 || !one.is_comparable(other) {
        return None;
    }
    let (left, right) = (own(&one.chunks)?, own(&other.chunks)?);
    let differences: Vec<f64> = left.iter().zip(&right).map(|(left, right)| left - right).collect();
    Some(statistics::deviation(&differences)? / (differences.len() as f64).sqrt())
}

/// The logarithm of each chunk's own perplexity, from the estimates after each.
fn own(estimates: &[f64]) -> Option<Vec<f64>> {
    let mut before = 0.0;
    let mut found = Vec::with_capacity(estimates.len());
    for (index, estimate) in estimates.iter().enumerate() {
        let sum = estimate.ln() * (index + 1) as f64;
        found.push(sum - before);
        before = sum;
    }
    found.iter().all(|value| value.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "perplexity: calculating perplexity over 3 chunks, n_ctx=128, batch_size=512, n_seq=4\n\
                       perplexity: 0.12 seconds per pass - ETA 0.00 minutes\n[1]5.0000,[2]6.0000,[3]5.8755,\n\
                       Final estimate: PPL = 5.8755 +/- 0.21341\n";

    #[test]
    fn a_run_is_read() {
        let run = read(RUN.as_bytes()).unwrap();
        assert_eq!((run.estimate, run.error), (Some(5.8755), Some(0.21341)));
        assert_eq!(run.chunks, [5.0, 6.0, 5.8755]);
        assert_eq!(run.cut.as_deref(), Some("3 chunks, n_ctx=128, batch_size=512, n_seq=4"));
        assert_eq!(read(b"[1]5.0,[2]6.0\n"), None);
    }

    #[test]
    fn a_run_that_gives_no_number_has_no_estimate() {
        for (from, to) in [("5.8755 +/-", "nan +/-"), ("5.8755 +/-", "inf +/-"), ("Final estimate", "Final")]
        {
            let run = read(RUN.replace(from, to).as_bytes()).unwrap();
            assert_eq!(run.estimate, None, "{to}");
        }
        let run = read(RUN.replace("[2]6.0000", "[2]nan").as_bytes()).unwrap();
        assert_eq!(run.chunks, [5.0]);
    }

    #[test]
    fn a_difference_has_the_error_of_its_pairs() {
        let (one, mut other) = (read(RUN.as_bytes()).unwrap(), read(RUN.as_bytes()).unwrap());
        assert_eq!(difference(&one, &other), Some(Difference { relative: 0.0, error: 0.0, paired: true }));
        // Every chunk twice as perplexing: a large difference, and no doubt about it.
        other.chunks.iter_mut().for_each(|estimate| *estimate *= 2.0);
        other.estimate = other.estimate.map(|estimate| estimate * 2.0);
        let found = difference(&other, &one).unwrap();
        assert!((found.relative - 1.0).abs() < 1e-12 && found.error < 1e-12 && found.paired, "{found:?}");
        other.chunks.pop();
        let found = difference(&other, &one).unwrap();
        assert!(
            !found.paired && (found.error - 2.0 * 0.21341 / 5.8755 * (1.25_f64).sqrt()).abs() < 1e-3,
            "{found:?}"
        );
    }

    #[test]
    fn the_chunks_own_values_follow_from_the_estimates() {
        let found = own(&[4.0, 8.0]).unwrap();
        assert!(
            (found[0] - 4.0_f64.ln()).abs() < 1e-12 && (found[1] - 16.0_f64.ln()).abs() < 1e-12,
            "{found:?}"
        );
        assert_eq!(own(&[0.0, 1.0]), None);
    }
}
