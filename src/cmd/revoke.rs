//! `capgate revoke`: adds a record that ends a profile.

use capgate_registry::keys::SigningKey;
use capgate_registry::profile::{ProfileId, Revocation, SCHEMA, Severity};
use capgate_registry::publish::{PublishError, sign_revocation};
use capgate_registry::snapshot::CatalogueError;

use super::plan::Plan;
use super::publish::Report;
use super::{history, keys, opened, witness};
use crate::cli::{RevokeArgs, SeverityWord};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::threads;

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
    let publishers = keys::of_role(&args.key, &role, "publisher")?;
    let signers: Vec<&SigningKey> = publishers.iter().collect();
    let note = sign_revocation(&toml, plan.chain.origin(), &signers)
        .map_err(|e| keys::not_signed("the revocation", &e))?;
    let registry_keys = plan.registry_keys(&args.signing.registry_key)?;
    let terms = args.signing.terms(&registry_keys, plan.now, threads());
    let done = plan.try_publish(ui, &[note], &terms)?.map_err(|e| refused(&e, &plan, &id))?;
    opened::warn_of_expiry(ui, &done.latest, plan.now, &args.registry.registry);
    opened::warn_of_trust(ui, plan.chain.current(), plan.now);
    Report::new(&done).say(ui, "revoked");
    witness::after(ui, &mut plan, &args.asked)?;
    Ok(Exit::Done)
}

/// Why it was not revoked: the revocation that is there already, or the id that was meant.
fn refused(error: &PublishError, plan: &Plan, id: &ProfileId) -> Failure {
    let failure = opened::not_published(error, plan.path());
    match error {
        PublishError::Catalogue(CatalogueError::Gone(_)) => {
            let first = history::revocations(plan, std::slice::from_ref(id));
            let Some(first) = first.first() else { return failure };
            Failure::invalid(format!("{}; nothing was changed", first.say()))
        }
        PublishError::Catalogue(CatalogueError::Unknown(_)) => match history::nearest(plan, id.as_str()) {
            Some(nearest) => failure.help(format!("did you mean `{nearest}`?")),
            None => failure.help("`capgate list` shows what is in force"),
        },
        _ => failure,
    }
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
