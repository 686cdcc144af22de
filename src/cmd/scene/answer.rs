//! A decision with what helps people to act on it.

use capgate_policy::decide::{Decision, Grant, Refusal};
use capgate_policy::nearest::{Difference, Nearest, Part};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::ui::table::facts;
use crate::ui::{BAD, GOOD, Ui, number, styled};

/// The nearest profile, as data.
#[derive(Debug, Clone, Serialize)]
pub struct NearestData {
    /// Its id.
    pub profile: String,
    /// What differs.
    pub differences: Vec<Difference>,
}

impl NearestData {
    /// Of what was found.
    pub fn new(found: &Nearest<'_>) -> Self {
        Self { profile: found.profile.id.to_string(), differences: found.differences.clone() }
    }
}

/// A decision, and the nearest profile where the program stays stock.
#[derive(Debug)]
pub struct Answer {
    /// The decision.
    pub decision: Decision,
    /// The nearest profile.
    pub nearest: Option<NearestData>,
}

/// A part of a combination in words.
pub fn part_words(part: Part) -> &'static str {
    match part {
        Part::Workload => "program",
        Part::HostChip => "host chip",
        Part::GuestOsBuild => "guest OS build",
        Part::HostOsBuild => "host OS build",
    }
}

impl Answer {
    /// As data: the decision's own keys, then `nearest`, `explanation`, `advice` and `who`.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut map = match serde_json::to_value(&self.decision) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        };
        let nearest = serde_json::to_value(&self.nearest).unwrap_or(Value::Null);
        map.insert("nearest".into(), nearest);
        let reason = self.decision.reason();
        map.insert("explanation".into(), reason.map(|reason| reason.explanation()).into());
        map.insert("advice".into(), reason.map(|reason| reason.advice()).into());
        map.insert("who".into(), reason.map(|reason| reason.fixer().phrase()).into());
        map
    }

    /// For people.
    pub fn print(&self, ui: &Ui) {
        match &self.decision {
            Decision::Grant(grant) => print_grant(ui, grant),
            Decision::Stock(refusal) => print_refusal(ui, refusal),
        }
        if let Some(nearest) = self.nearest.as_ref().filter(|nearest| !nearest.differences.is_empty()) {
            print_nearest(ui, nearest);
        }
    }
}

fn print_grant(ui: &Ui, grant: &Grant) {
    let values = grant.values;
    ui.line(format!(
        "{}: Apple family {}, {} bytes of threadgroup memory",
        styled(GOOD, "grant"),
        values.apple_family_max,
        number(values.max_threadgroup_memory)
    ));
    let models: Vec<&str> = grant.tested_models.iter().map(|model| model.name.as_str()).collect();
    let correctness = serde_json::to_value(grant.correctness).ok();
    let correctness = correctness.as_ref().and_then(Value::as_str).unwrap_or("untested").to_owned();
    let mut lines = vec![
        ("profile", grant.profile.to_string()),
        ("tested with", models.join(", ")),
        ("correctness", correctness),
    ];
    if !grant.not_covered.is_empty() {
        lines.push(("not covered", grant.not_covered.join(", ")));
    }
    if !grant.warnings.is_empty() {
        lines.push(("warnings", grant.warnings.join(", ")));
    }
    ui.stdout(&facts(lines));
}

fn print_refusal(ui: &Ui, refusal: &Refusal) {
    let reason = refusal.reason;
    ui.line(format!("{}: {reason}", styled(BAD, "stock")));
    let mut lines = vec![("why", reason.explanation().to_owned()), ("detail", refusal.detail.to_string())];
    if let Some(profile) = &refusal.profile {
        lines.push(("profile", profile.to_string()));
    }
    if let Some(rule) = &refusal.rule {
        lines.push(("rule", rule.to_string()));
    }
    lines.push(("what to do", reason.advice().to_owned()));
    lines.push(("who can", reason.fixer().phrase().to_owned()));
    ui.stdout(&facts(lines));
}

fn print_nearest(ui: &Ui, nearest: &NearestData) {
    let mut lines = vec![("nearest", nearest.profile.clone())];
    for Difference { part, here, tested } in &nearest.differences {
        let here = here.as_deref().unwrap_or("unknown");
        lines.push((part_words(*part), format!("{here} here, {tested} tested")));
    }
    ui.stdout(&facts(lines));
}
