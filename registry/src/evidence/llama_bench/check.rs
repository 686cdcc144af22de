//! Whether a row's own figures follow from its samples.

use super::Row;
use crate::evidence::codes::Code;
use crate::evidence::finding::{Finding, excerpt};
use crate::evidence::json::Json;
use crate::evidence::statistics;

/// Six significant digits are off by at most half a unit of the sixth: 5e-6 of the value. Twice that allows for the
/// rounding of a copy.
const RELATIVE: f64 = 1e-5;
/// `avg_ts` is written with six decimals.
const ABSOLUTE: f64 = 1e-6;

/// Everything that is wrong with a row whose required fields could be read.
pub(super) fn row(row: &Row, value: &Json, said: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if row.model.filename.contains('\u{ffff}') {
        let message = format!("{said}: the model path `{}` was not ASCII", excerpt(&row.model.filename));
        findings.push(Finding::new(Code::GarbledPath, message));
    }
    if row.samples_ns.is_empty() {
        findings
            .push(Finding::new(Code::NoSamples, format!("{said}: `samples_ns` is empty; run with -r 10")));
    } else if row.rates.is_empty() {
        findings.push(Finding::new(Code::ZeroSample, format!("{said}: `samples_ns` holds a 0")));
    } else {
        findings.extend(rates(row, value, said));
        findings.extend(average(row, value, said));
    }
    findings
}

fn rates(row: &Row, value: &Json, said: &str) -> Option<Finding> {
    let disagree = |why: String| Some(Finding::new(Code::SamplesDisagree, format!("{said}: {why}")));
    let stated = value.as_object()?.get("samples_ts")?;
    let stated: Option<Vec<f64>> = stated.as_list().and_then(|list| list.iter().map(Json::as_f64).collect());
    let Some(stated) = stated else {
        return disagree("`samples_ts` is not a list of numbers".to_owned());
    };
    if stated.len() != row.rates.len() {
        let (have, need) = (stated.len(), row.rates.len());
        return disagree(format!("`samples_ts` has {have} values, `samples_ns` has {need}"));
    }
    let (index, (rate, stated)) =
        row.rates.iter().zip(&stated).enumerate().find(|(_, (rate, stated))| !near(**stated, **rate, 0.0))?;
    disagree(format!("sample {}: `samples_ts` says {stated}, `samples_ns` gives {rate:.6}", index + 1))
}

fn average(row: &Row, value: &Json, said: &str) -> Option<Finding> {
    let stated = value.as_object()?.get("avg_ts")?;
    let mean = statistics::mean(&row.rates)?;
    let stated = match stated.as_f64() {
        Some(number) if near(number, mean, ABSOLUTE) => return None,
        Some(number) => number.to_string(),
        None => stated.kind().to_owned(),
    };
    let message = format!("{said}: `avg_ts` says {stated}, the samples give {mean:.6}");
    Some(Finding::new(Code::SamplesDisagree, message))
}

fn near(stated: f64, exact: f64, absolute: f64) -> bool {
    (stated - exact).abs() <= (exact.abs() * RELATIVE).max(absolute)
}
