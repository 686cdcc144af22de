//! `capgate list`: what is in force.

use std::collections::BTreeMap;

use capgate_registry::profile::{Profile, Verdict};
use capgate_registry::record::Published;
use serde::Serialize;

use super::opened;
use crate::cli::{ListArgs, VerdictWord};
use crate::exit::{Exit, Outcome};
use crate::ui::table::Rows;
use crate::ui::{Ui, count};

#[derive(Serialize)]
struct Entry {
    id: String,
    verdict: &'static str,
    summary: String,
    host_chip: String,
    host_os_build: String,
    guest_os_build: String,
    workload: String,
    workload_version: String,
    sha256: Option<String>,
    cdhash: Option<String>,
    overrides: Vec<capgate_registry::profile::Values>,
    signers: Vec<String>,
    log_index: u64,
    revoked: Option<Revoked>,
}

#[derive(Serialize)]
struct Revoked {
    severity: &'static str,
    reason: String,
}

pub fn run(ui: &Ui, args: &ListArgs) -> Outcome {
    let (reader, _) = opened::reader(ui, &args.registry)?;
    // A profile with two digests stands under two keys.
    let mut entries = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|doubt| opened::doubted(&doubt, &args.registry.registry))?;
        for published in record.published.into_iter().filter(|published| is_wanted(published, args)) {
            entries.insert(published.profile.id.to_string(), Entry::new(published));
        }
    }
    let entries: Vec<Entry> = entries.into_values().collect();
    if ui.is_json() {
        ui.json(&entries);
        return Ok(Exit::Done);
    }
    print(ui, &entries);
    Ok(Exit::Done)
}

fn print(ui: &Ui, entries: &[Entry]) {
    let mut rows = Rows::new(&["id", "verdict", "values", "chip", "host OS", "guest OS", "workload"]);
    for entry in entries {
        let values: Vec<String> = entry.overrides.iter().map(ToString::to_string).collect();
        let verdict = if entry.revoked.is_some() { "revoked" } else { entry.verdict };
        let workload = format!("{} {}", entry.workload, entry.workload_version);
        rows.row([
            entry.id.as_str(),
            verdict,
            &values.join(", "),
            &entry.host_chip,
            &entry.host_os_build,
            &entry.guest_os_build,
            &workload,
        ]);
    }
    if !rows.is_empty() {
        ui.stdout(&rows.render());
    }
    ui.hint(count(entries.len(), "profile"));
}

impl Entry {
    fn new(published: Published) -> Self {
        let Published { index, profile, signers, revoked } = published;
        let Profile { id, verdict, summary, host, guest, workload, overrides, .. } = profile;
        Self {
            id: id.to_string(),
            verdict: verdict_word(verdict),
            summary,
            host_chip: host.chip.to_string(),
            host_os_build: host.os.build.to_string(),
            guest_os_build: guest.os.build.to_string(),
            workload: workload.name,
            workload_version: workload.version,
            sha256: workload.sha256.map(|digest| digest.to_string()),
            cdhash: workload.cdhash.map(|digest| digest.to_string()),
            overrides: overrides.into_iter().map(|set| set.values).collect(),
            signers,
            log_index: index,
            revoked: revoked.map(|r| Revoked { severity: r.severity.word(), reason: r.reason }),
        }
    }
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Override => "override",
        Verdict::Stock => "stock",
    }
}

fn is_wanted(published: &Published, args: &ListArgs) -> bool {
    let profile = &published.profile;
    let verdict = match args.verdict {
        None => true,
        Some(VerdictWord::Override) => profile.verdict == Verdict::Override,
        Some(VerdictWord::Stock) => profile.verdict == Verdict::Stock,
    };
    let chip = args.chip.as_ref().is_none_or(|chip| profile.host.chip.as_str() == chip);
    let os = |build: &String| {
        [&profile.host.os.build, &profile.guest.os.build].iter().any(|b| b.as_str() == build)
    };
    let os = args.os.as_ref().is_none_or(os);
    let workload = args.workload.as_ref().is_none_or(|text| is_workload(profile, text));
    verdict && chip && os && workload && (args.revoked || published.revoked.is_none())
}

/// By name, or by digest with or without what kind it is.
fn is_workload(profile: &Profile, text: &str) -> bool {
    let workload = &profile.workload;
    let sha256 = workload.sha256.map(|digest| digest.to_string());
    let cdhash = workload.cdhash.map(|digest| digest.to_string());
    workload.name == text
        || sha256.is_some_and(|digest| text.strip_prefix("sha256:").unwrap_or(text) == digest)
        || cdhash.is_some_and(|digest| text.strip_prefix("cdhash:").unwrap_or(text) == digest)
}
