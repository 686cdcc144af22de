//! `capgate renew`: signs again what is in force.

use capgate_registry::publish::Terms;
use jiff::SignedDuration;
use serde::Serialize;

use super::plan::Plan;
use crate::cli::RenewArgs;
use crate::exit::{Exit, Outcome};
use crate::ui::Ui;
use crate::world::threads;

use super::{opened, witness};

#[derive(Serialize)]
struct Renewed {
    version: u64,
    expires: String,
    completed: bool,
}

pub fn run(ui: &Ui, args: &RenewArgs) -> Outcome {
    let mut plan = Plan::open(ui, &args.registry, args.to.to.as_deref())?;
    let keys = plan.registry_keys(&args.registry_key)?;
    let life = SignedDuration::from_hours(i64::from(args.days) * 24);
    let terms = Terms { keys: &keys, now: plan.now, life, renew: true, threads: threads() };
    let done = plan.publish_on(ui, &[], &terms)?;
    opened::warn_of_trust(ui, plan.chain.current(), plan.now);
    let (version, expires) = (done.latest.version, done.latest.expires.to_string());
    if ui.is_json() {
        ui.json(&Renewed { version, expires, completed: done.completed });
    } else {
        ui.line(format!("renewed: version {version}, expires {expires}"));
    }
    witness::after(ui, &mut plan, &args.asked)?;
    Ok(Exit::Done)
}
