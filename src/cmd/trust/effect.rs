//! What a draft that names a compromised key does to what is in force.

use std::collections::BTreeSet;

use capgate_registry::log::LogReader;
use capgate_registry::profile::ProfileId;
use capgate_registry::reader::read_latest;
use capgate_registry::snapshot::Catalogue;
use capgate_registry::trust::{Chain, Trust};
use serde::Serialize;

use crate::cmd::plan::Plan;
use crate::ui::Ui;

/// Most ids that are named one by one.
const MOST: usize = 20;

/// Profiles whose state changes.
#[derive(Debug, Default, Serialize)]
pub struct Effect {
    /// In force now, and not any more.
    pub lost: Vec<String>,
    /// Not in force now, since a profile of that key superseded it, and in force again.
    pub back: Vec<String>,
}

impl Effect {
    /// Of `next` in place of the version that is in force. A log that cannot be read says nothing.
    pub fn of(plan: &Plan, next: &Trust) -> Self {
        let then = plan.chain.if_followed_by(next.clone());
        let (Some(now), Some(then)) = (live(plan, &plan.chain), live(plan, &then)) else {
            return Self::default();
        };
        let only =
            |one: &BTreeSet<ProfileId>, other| one.difference(other).map(ToString::to_string).collect();
        Self { lost: only(&now, &then), back: only(&then, &now) }
    }

    /// Says it.
    pub fn say(&self, ui: &Ui) {
        for (ids, what) in [(&self.lost, "will be in force no longer"), (&self.back, BACK)] {
            ids.iter().take(MOST).for_each(|id| ui.warn(format!("`{id}` {what}")));
            if let Some(more) = ids.len().checked_sub(MOST).filter(|more| *more > 0) {
                ui.warn(format!("and {more} more"));
            }
        }
        if !self.back.is_empty() {
            ui.hint("what must not come back is to be revoked before this takes force: capgate revoke ID");
        }
    }
}

const BACK: &str = "will be in force again: what superseded it counts no longer";

fn live(plan: &Plan, chain: &Chain) -> Option<BTreeSet<ProfileId>> {
    let latest = read_latest(&plan.folder, &plan.chain).ok()?;
    let mut catalogue = Catalogue::default();
    let reader = LogReader::new(&plan.folder, latest.log_size);
    for (index, entry) in (0..).zip(reader.entries(0..latest.log_size)) {
        catalogue.add(index, &entry.ok()?, chain).ok()?;
    }
    Some(catalogue.live().cloned().collect())
}
