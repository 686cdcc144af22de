//! `capgate trust show`: who is trusted, and what a draft would change.

use capgate_registry::reader::read_latest;
use capgate_registry::trust::Trust;
use serde::Serialize;

use super::changes::changes;
use super::draft::Draft;
use crate::cli::TrustShowArgs;
use crate::cmd::handed::progress;
use crate::cmd::opened;
use crate::cmd::plan::Plan;
use crate::exit::{Exit, Outcome};
use crate::ui::Ui;
use crate::ui::table::{Rows, facts};

#[derive(Serialize)]
struct Shown<'t> {
    origin: String,
    in_force: Option<u64>,
    versions: Vec<Version>,
    roles: Vec<RoleShown<'t>>,
    compromised: Vec<CompromisedShown>,
    draft: Option<DraftShown>,
}

#[derive(Serialize)]
struct Version {
    version: u64,
    log_index: u64,
    issued: String,
    expires: String,
}

#[derive(Serialize)]
struct RoleShown<'t> {
    role: &'t str,
    threshold: usize,
    keys: Vec<String>,
}

#[derive(Serialize)]
struct CompromisedShown {
    key: String,
    from: u64,
}

#[derive(Serialize)]
struct DraftShown {
    version: u64,
    changes: Vec<String>,
    signed_before: String,
    signed_next: String,
}

pub fn run(ui: &Ui, args: &TrustShowArgs) -> Outcome {
    let plan = Plan::open(ui, &args.registry, None)?;
    let current = plan.chain.current();
    let draft = match &args.file {
        Some(file) => {
            let draft = Draft::read(file, &plan.chain)?;
            draft.follows(file, &plan.chain)?;
            Some(draft)
        }
        None => None,
    };
    let shown = Shown {
        origin: plan.chain.origin().to_string(),
        in_force: read_latest(&plan.folder, &plan.chain).ok().map(|latest| latest.trust),
        versions: (1..=current.version)
            .filter_map(|v| plan.chain.as_of(v))
            .map(|c| version(c.current()))
            .collect(),
        roles: current
            .roles()
            .into_iter()
            .map(|(role, keys)| RoleShown {
                role,
                threshold: keys.threshold,
                keys: keys.keys.iter().map(ToString::to_string).collect(),
            })
            .collect(),
        compromised: current
            .compromised
            .iter()
            .map(|known| CompromisedShown { key: known.key.to_string(), from: known.from })
            .collect(),
        draft: draft.as_ref().map(|draft| DraftShown {
            version: draft.trust.version,
            changes: changes(current, &draft.trust),
            signed_before: progress(&draft.signers(&current.root), &current.root),
            signed_next: progress(&draft.signers(&draft.trust.root), &draft.trust.root),
        }),
    };
    opened::warn_of_trust(ui, current, plan.now);
    if ui.is_json() {
        ui.json(&shown);
    } else {
        print(ui, &shown);
    }
    Ok(Exit::Done)
}

fn version(trust: &Trust) -> Version {
    Version {
        version: trust.version,
        log_index: trust.log_index,
        issued: trust.issued.to_string(),
        expires: trust.expires.to_string(),
    }
}

fn print(ui: &Ui, shown: &Shown<'_>) {
    let in_force =
        shown.in_force.map_or_else(|| "none yet".to_owned(), |version| format!("version {version}"));
    ui.stdout(&facts([("origin", shown.origin.clone()), ("in force", in_force)]));
    let mut rows = Rows::new(&["version", "from log index", "issued", "expires"]).right(&[0, 1]);
    for v in &shown.versions {
        rows.row([v.version.to_string(), v.log_index.to_string(), v.issued.clone(), v.expires.clone()]);
    }
    ui.stdout(&rows.render());
    for role in &shown.roles {
        ui.line(format!("{}: {} of {} must sign", role.role, role.threshold, role.keys.len()));
        role.keys.iter().for_each(|key| ui.line(format!("  {key}")));
    }
    for known in &shown.compromised {
        ui.line(format!("compromised from log index {} on:\n  {}", known.from, known.key));
    }
    if let Some(draft) = &shown.draft {
        ui.line(format!("draft of version {}:", draft.version));
        draft.changes.iter().for_each(|line| ui.line(format!("  {line}")));
        ui.line(format!("  signed for version {}: {}", draft.version.saturating_sub(1), draft.signed_before));
        ui.line(format!("  signed for version {}: {}", draft.version, draft.signed_next));
    }
}
