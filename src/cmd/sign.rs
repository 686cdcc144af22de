//! `capgate sign`: one publisher's signature under a profile.

use std::path::{Path, PathBuf};

use capgate_registry::profile::Profile;
use capgate_registry::trust::Role;
use serde::Serialize;

use super::handed::{self, missing, progress};
use super::keys;
use super::noted::Noted;
use super::plan::Plan;
use super::publish::refuse_problems;
use crate::cli::SignArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;

#[derive(Serialize)]
struct Signed {
    file: String,
    id: String,
    origin: String,
    signers: Vec<String>,
    threshold: usize,
    complete: bool,
}

pub fn run(ui: &Ui, args: &SignArgs) -> Outcome {
    let plan = Plan::open(ui, &args.registry, None)?;
    let (origin, role) = (plan.chain.origin(), &plan.chain.current().publisher);
    let mut noted = Noted::read(&args.file, origin)?;
    refuse_problems(ui, &[&noted.linted], "signed")?;
    let profile = noted.linted.profile.clone().ok_or_else(|| Failure::invalid("nothing was signed"))?;
    let out = out(args, &noted, &profile);
    // Signatures that stand there already are kept, and one that does not verify is no ground to add to.
    if out != args.file && out.exists() {
        noted.merge(&Noted::read(&out, origin)?)?;
    }
    noted.signers(role)?;
    if !ui.is_json() {
        describe(ui, &profile, origin.as_str());
    }
    for key in keys::some_of_role(&args.key, role, "publisher")? {
        if noted.is_signed_by(key.verifier()) {
            ui.hint(format!("`{}` has signed it already", key.verifier().name()));
            continue;
        }
        noted.sign(&key)?;
    }
    if let Some(note) = noted.note() {
        handed::write(&out, note)?;
    }
    noted.hint_of_strangers(ui, role);
    report(ui, &out, &profile, origin.as_str(), noted.signers(role)?, role);
    Ok(Exit::Done)
}

fn out(args: &SignArgs, noted: &Noted, profile: &Profile) -> PathBuf {
    let own = || match noted.note() {
        Some(_) => args.file.clone(),
        None => PathBuf::from(format!("{}.note", profile.id)),
    };
    args.out.clone().unwrap_or_else(own)
}

/// What the signature says, to whoever gives it.
fn describe(ui: &Ui, profile: &Profile, origin: &str) {
    let values: Vec<String> = profile.overrides.iter().map(|set| set.values.to_string()).collect();
    let values = if values.is_empty() { "stock".to_owned() } else { values.join(", ") };
    ui.line(format!("{} in {origin}: {values}", profile.id));
    ui.line(format!("  {}", profile.summary));
    let (host, guest, workload) = (&profile.host, &profile.guest, &profile.workload);
    ui.line(format!(
        "  {}, macOS {} ({}); guest: macOS {} ({})",
        host.chip, host.os.version, host.os.build, guest.os.version, guest.os.build
    ));
    let digests =
        [workload.sha256.map(|d| format!("sha256:{d}")), workload.cdhash.map(|d| format!("cdhash:{d}"))];
    let digests: Vec<String> = digests.into_iter().flatten().collect();
    ui.line(format!("  {} {} {}", workload.name, workload.version, digests.join(" ")).trim_end());
}

fn report(ui: &Ui, out: &Path, profile: &Profile, origin: &str, signers: Vec<String>, role: &Role) {
    let file = out.display().to_string();
    let complete = signers.len() >= role.threshold;
    if ui.is_json() {
        let (id, origin) = (profile.id.to_string(), origin.to_owned());
        return ui.json(&Signed { file, id, origin, signers, threshold: role.threshold, complete });
    }
    ui.line(format!("signed: {}, in {file}", progress(&signers, role)));
    if complete {
        ui.hint(format!(
            "enough have signed; next: capgate publish --note {file} --registry-key REGISTRY-KEY-FILE"
        ));
    } else {
        let missing = missing(&signers, role).join(" or ");
        ui.hint(format!("give the file to {missing}: capgate sign {file} --key KEY-FILE"));
    }
}
