//! In what two runs differ, the most suspicious first.
//!
//! The question behind it is "same machine, same model, 16 times slower: why?". So what a run was denied weighs most:
//! a GPU, a family, vector instructions, processor time, memory. Then what it was made of, then how it was called, then
//! where it ran. What follows from something else, such as another library that the loader picks because instructions
//! are hidden, stands behind its cause.

mod facts;

use std::collections::BTreeMap;

use serde::Serialize;

use super::RunRecord;
use facts::{Fact, Value};

/// One way in which two runs differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What kind of thing it is, by a name that stays.
    pub code: &'static str,
    /// The part of the record: `machine`, `os`, `capabilities`, `files`, `run`.
    pub part: &'static str,
    /// Which thing.
    pub what: String,
    /// What it is in the first record; none where it is not there or not known.
    pub a: Option<String>,
    /// What it is in the second.
    pub b: Option<String>,
    /// How suspicious, from 0 to 1000.
    pub weight: u32,
}

/// How a test went in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The test; `wall time` for the run itself.
    pub test: String,
    /// Median rate in tokens per second, or seconds, in the first run.
    pub a: f64,
    /// The same in the second.
    pub b: f64,
    /// How many times slower the second is; below 1 where it is faster.
    pub times_slower: f64,
}

/// Two runs, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What is to be explained.
    pub outcomes: Vec<Outcome>,
    /// What may explain it.
    pub differences: Vec<Difference>,
}

/// Compares two runs.
pub fn compare(a: &RunRecord, b: &RunRecord) -> Comparison {
    Comparison { outcomes: outcomes(a, b), differences: differences(a, b) }
}

fn outcomes(a: &RunRecord, b: &RunRecord) -> Vec<Outcome> {
    let mut found = Vec::new();
    for samples in &a.run.samples {
        let same = b.run.samples.iter().find(|other| other.test == samples.test);
        if let Some((a, b)) = same.and_then(|other| Some((samples.median?, other.median?))) {
            found.push((samples.test.clone(), a, b, a / b));
        }
    }
    if let Some((a, b)) = a.run.seconds.zip(b.run.seconds) {
        found.push(("wall time".to_owned(), a, b, b / a));
    }
    found.retain(|(.., times)| times.is_finite());
    found.into_iter().map(|(test, a, b, times_slower)| Outcome { test, a, b, times_slower }).collect()
}

fn differences(a: &RunRecord, b: &RunRecord) -> Vec<Difference> {
    let (a, b) = (index(facts::of(a)), index(facts::of(b)));
    let mut found: Vec<Difference> = a
        .iter()
        .filter_map(|(key, fact)| difference(fact, Some(fact), b.get(key)))
        .chain(
            b.iter()
                .filter(|(key, _)| !a.contains_key(*key))
                .filter_map(|(_, f)| difference(f, None, Some(f))),
        )
        .collect();
    found.sort_by(|x, y| y.weight.cmp(&x.weight).then_with(|| (x.code, &x.what).cmp(&(y.code, &y.what))));
    found
}

fn index(facts: Vec<Fact>) -> BTreeMap<(&'static str, String), Fact> {
    facts.into_iter().map(|fact| ((fact.code, fact.what.clone()), fact)).collect()
}

/// None where both are the same.
fn difference(of: &Fact, a: Option<&Fact>, b: Option<&Fact>) -> Option<Difference> {
    let value = |fact: Option<&Fact>| fact.map_or(Value::Unknown, |fact| fact.value.clone());
    let (a, b) = (value(a), value(b));
    if a == b {
        return None;
    }
    let weight = weight(of, &a, &b);
    let (a, b) = match (&a, &b) {
        // Of two long lists only what is in one of them is worth reading.
        (Value::Set(x), Value::Set(y)) => {
            let only = |x: &[String], y: &[String]| {
                let left: Vec<&str> = x.iter().filter(|i| !y.contains(i)).map(String::as_str).collect();
                (!left.is_empty()).then(|| left.join(" "))
            };
            (only(x, y), only(y, x))
        }
        _ => (a.shown(), b.shown()),
    };
    Some(Difference { code: of.code, part: of.part, what: of.what.clone(), a, b, weight })
}

/// A limit that is a multiple of the other is as suspicious as its code; what is known in one record alone is less so.
fn weight(of: &Fact, a: &Value, b: &Value) -> u32 {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            let (least, most) = (x.min(*y), x.max(*y));
            // A tenth more or less slows nothing down 16 times.
            if least * 1.25 >= most { of.weight / 3 } else { of.weight }
        }
        (Value::Unknown, _) | (_, Value::Unknown) if !of.absent_is_a_fact => of.weight / 2,
        _ => of.weight,
    }
}
