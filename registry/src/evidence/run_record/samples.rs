//! What a run measured, from the raw files that it wrote.

use serde::Serialize;

use super::fields::{At, Read};
use crate::evidence::{llama_bench, mlx, statistics};

/// Samples of one test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Samples {
    /// The file they stand in.
    pub file: String,
    /// The test, as its program names it.
    pub test: String,
    /// How many.
    pub n: u64,
    /// Median rate, in tokens per second.
    pub median: Option<f64>,
    /// Least rate.
    pub least: Option<f64>,
    /// Greatest rate.
    pub most: Option<f64>,
    /// Sample standard deviation over the mean, as a fraction.
    pub cv: Option<f64>,
}

/// The tests in a raw file, or why it has none.
///
/// Reads what `capgate evidence` reads: llama-bench's json or jsonl, and the JSON of the MLX-LM harness.
pub fn of_file(name: &str, bytes: &[u8]) -> Result<Vec<Samples>, String> {
    let tests: Vec<(String, Vec<f64>)> = if let Some(file) = mlx::read(bytes) {
        file.tests.into_iter().map(|(test, rates)| (test.to_string(), rates)).collect()
    } else if let Some(file) = llama_bench::read(bytes) {
        let varying = llama_bench::varying(file.rows.iter().map(|row| &row.settings));
        let named = |row: llama_bench::Row| (llama_bench::name(row.test, &row.settings, &varying), row.rates);
        file.rows.clone().into_iter().map(named).collect()
    } else {
        return Err("holds no samples of llama-bench (json, jsonl) or of the MLX-LM harness".to_owned());
    };
    Ok(tests.into_iter().map(|(test, rates)| of_rates(name, test, &rates)).collect())
}

fn of_rates(file: &str, test: String, rates: &[f64]) -> Samples {
    Samples {
        file: file.to_owned(),
        test,
        n: rates.len() as u64,
        median: statistics::median(rates),
        least: rates.iter().copied().reduce(f64::min),
        most: rates.iter().copied().reduce(f64::max),
        cv: statistics::variation(rates),
    }
}

pub(super) fn read(at: &At<'_>) -> Read<Samples> {
    let fields = at.object()?;
    let samples = Samples {
        file: fields.text("file")?,
        test: fields.text("test")?,
        n: fields.at("n")?.whole()?,
        median: fields.maybe_number("median")?,
        least: fields.maybe_number("least")?,
        most: fields.maybe_number("most")?,
        cv: fields.maybe_number("cv")?,
    };
    fields.finish().map(|()| samples)
}
