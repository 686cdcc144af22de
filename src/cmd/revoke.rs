//! `capgate revoke`: adds a record that ends a profile.

use capgate_registry::keys::SigningKey;
use capgate_registry::profile::{ProfileId, Revocation, SCHEMA, Severity};
use capgate_registry::publish::sign_revocation;

use super::plan::Plan;
use super::publish::Report;
use super::{keys, opened, witness};
use crate::cli::{RevokeArgs, SeverityWord};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;

pub fn run(ui: &Ui, args: &RevokeArgs) -> Outcome {
    let mut plan = Plan::open(ui, &args.registry, args.to.to.as_deref())?;
    let id: ProfileId =
        args.id.parse().map_err(|e| Failure::usage(format!("`{}` is no id: {e}", args.id)))?;
    let toml = toml(&id, args);
    Revocation::parse(toml.as_bytes()).map_err(|problems| {
        let first = problems.into_iter().next().map_or_else(String::new, |problem| problem.message);
        Failure::usage(format!("the reason cannot be published: {first}"))
    })?;
    // One publisher may revoke, whatever the threshold is for publishing.
    let role = capgate_registry::trust::Role { threshold: 1, ..plan.chain.current().publisher.clone() };
    let publishers = keys::of_role(&args.signing.key, &role, "publisher")?;
    let signers: Vec<&SigningKey> = publishers.iter().collect();
    let note = sign_revocation(&toml, plan.chain.origin(), &signers)
        .map_err(|e| Failure::usage(format!("the revocation cannot be signed: {e}")))?;
    let done = plan.publish(ui, &[note], &args.signing)?;
    opened::warn_of_expiry(ui, &done.latest, plan.now, &args.registry.registry);
    opened::warn_of_trust(ui, plan.chain.current(), plan.now);
    Report::new(&done).say(ui, "revoked");
    witness::after(ui, &mut plan, &args.asked)?;
    Ok(Exit::Done)
}

fn toml(id: &ProfileId, args: &RevokeArgs) -> String {
    let severity = match args.severity {
        SeverityWord::Withdrawn => Severity::Withdrawn,
        SeverityWord::Harmful => Severity::Harmful,
    };
    let reason = args.reason.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "schema = \"{SCHEMA}\"\nrevokes = \"{id}\"\nreason = \"{reason}\"\nseverity = \"{}\"\n",
        severity.word()
    )
}
