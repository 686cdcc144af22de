//! Whether the samples of one test were measured well enough to count.

use serde::Serialize;

use super::codes::Code;
use super::finding::Finding;
use super::statistics::{self, Drift};

/// Fewer samples than this say nothing.
pub const FEWEST: usize = 3;
/// From this many on, nobody is warned about their number.
pub const ENOUGH: usize = 10;
/// A CV above this is a refusal: something else was running.
pub const MOST_VARIATION: f64 = 0.15;
/// A CV above this is a warning.
pub const SOME_VARIATION: f64 = 0.05;
/// A steady change of more than this fraction is a drift.
pub const MOST_CHANGE: f64 = 0.05;
/// The least correlation with their order, up or down, at which samples change steadily.
pub const STEADY: f64 = 0.9;

/// Samples of one test in figures; rates in tokens per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// How many samples.
    pub n: usize,
    /// Median rate.
    pub median: Option<f64>,
    /// Sample standard deviation of the rates over their mean, as a fraction.
    pub cv: Option<f64>,
    /// How they move in the order they were measured.
    pub drift: Option<Drift>,
}

/// Sums up rates in the order they were measured.
pub fn summary(rates: &[f64]) -> Summary {
    Summary {
        n: rates.len(),
        median: statistics::median(rates),
        cv: statistics::variation(rates),
        drift: statistics::drift(rates),
    }
}

/// What is wrong with the samples; `said` names the test in the messages.
pub fn findings(summary: &Summary, said: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |code, message: String| findings.push(Finding::new(code, format!("{said}: {message}")));
    if summary.n < FEWEST {
        find(
            Code::TooFewSamples,
            format!(
                "not enough samples: {}, an arm needs at least {FEWEST}, over all its files",
                shown(summary.n)
            ),
        );
        return findings;
    }
    if summary.n < ENOUGH {
        find(Code::FewSamples, format!("{}, {ENOUGH} or more are better", shown(summary.n)));
    }
    match summary.cv {
        Some(cv) if cv > MOST_VARIATION => find(
            Code::Contended,
            format!(
                "contended: CV {} of tok/s is above {}; measure again, drop none",
                percent(cv),
                percent(MOST_VARIATION)
            ),
        ),
        Some(cv) if cv > SOME_VARIATION => find(Code::Spread, format!("CV {} of tok/s", percent(cv))),
        _ => {}
    }
    if let Some(drift) = summary.drift
        && drift.rho.abs() >= STEADY
        && drift.change.abs() > MOST_CHANGE
    {
        let way = if drift.change < 0.0 { "fall" } else { "rise" };
        let change = percent(drift.change.abs());
        find(
            Code::Drift,
            format!(
                "drift: the samples {way} steadily by {change} from first to last third (rho {:.2})",
                drift.rho
            ),
        );
    }
    findings
}

/// A fraction as people read it.
pub fn percent(fraction: f64) -> String {
    let text = format!("{:.2}", fraction * 100.0);
    format!("{} %", text.strip_suffix(".00").unwrap_or(&text))
}

fn shown(count: usize) -> String {
    if count == 1 { "1 sample".to_owned() } else { format!("{count} samples") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(rates: &[f64]) -> Vec<Code> {
        findings(&summary(rates), "pp1").iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn each_threshold() {
        assert_eq!(codes(&[]), [Code::TooFewSamples]);
        assert_eq!(codes(&[1.0, 9.0]), [Code::TooFewSamples]);
        assert_eq!(codes(&[10.0, 10.1, 10.0]), [Code::FewSamples]);
        assert_eq!(codes(&[10.0; 10]), []);
        let steady = [10.0, 10.1, 10.2, 10.3, 10.4, 10.5, 10.6, 10.7, 10.8, 10.9];
        assert_eq!(codes(&steady), [Code::Drift]);
        let quick = [10.0, 10.01, 10.02, 10.03, 10.04, 10.05, 10.06, 10.07, 10.08, 10.09];
        assert_eq!(codes(&quick), []);
        let spread = [10.0, 11.5, 10.0, 11.5, 10.0, 11.5, 10.0, 11.5, 10.0, 11.5];
        assert_eq!(codes(&spread), [Code::Spread]);
        let wild = [10.0, 20.0, 10.0, 20.0, 10.0, 20.0, 10.0, 20.0, 10.0, 20.0];
        assert_eq!(codes(&wild), [Code::Contended]);
    }

    #[test]
    fn percentages() {
        assert_eq!((percent(0.15), percent(0.1106)), ("15 %".to_owned(), "11.06 %".to_owned()));
    }
}
