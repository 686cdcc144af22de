//! `capgate trust sign`: one key holder's signature under a draft.

use capgate_registry::note;
use capgate_registry::trust::{Chain, Role};
use serde::Serialize;

use super::changes::changes;
use super::draft::Draft;
use crate::cli::TrustSignArgs;
use crate::cmd::handed::{progress, write};
use crate::cmd::keys;
use crate::cmd::plan::Plan;
use crate::exit::{Exit, Outcome};
use crate::ui::Ui;

#[derive(Serialize)]
struct Signed {
    file: String,
    version: u64,
    changes: Vec<String>,
    signed_before: Vec<String>,
    signed_next: Vec<String>,
    complete: bool,
}

pub fn run(ui: &Ui, args: &TrustSignArgs) -> Outcome {
    let plan = Plan::open(ui, &args.registry, None)?;
    let mut draft = Draft::read(&args.file, &plan.chain)?;
    draft.follows(&args.file, &plan.chain)?;
    let lines = changes(plan.chain.current(), &draft.trust);
    if !ui.is_json() {
        ui.line(format!("version {}, from log index {} on:", draft.trust.version, draft.trust.log_index));
        lines.iter().for_each(|line| ui.line(format!("  {line}")));
    }
    // A root key of this version or of the next; which thresholds it counts for is said below.
    let root = both(&plan.chain, &draft);
    for key in keys::of_role(&args.key, &root, "root")? {
        let named = |role: &Role| draft.signers(role).iter().any(|name| name == key.verifier().name());
        if named(&root) {
            ui.hint(format!("`{}` has signed it already", key.verifier().name()));
            continue;
        }
        let note = match &draft.note {
            Some(note) => note::add_signature(note, &key),
            None => note::sign(&draft.text, &[&key]),
        };
        draft.note = Some(note.map_err(|e| keys::not_signed(&format!("`{}`", args.file.display()), &e))?);
    }
    if let Some(note) = &draft.note {
        write(&args.file, note)?;
    }
    report(ui, args, &plan, &draft, lines);
    Ok(Exit::Done)
}

/// Every key that may sign, one of which is enough here.
fn both(chain: &Chain, draft: &Draft) -> Role {
    let mut keys = chain.current().root.keys.clone();
    keys.extend(draft.trust.root.keys.iter().filter(|key| !chain.current().root.keys.contains(key)).cloned());
    Role { threshold: 1, keys }
}

fn report(ui: &Ui, args: &TrustSignArgs, plan: &Plan, draft: &Draft, lines: Vec<String>) {
    let (old, new) = (&plan.chain.current().root, &draft.trust.root);
    let (before, next) = (draft.signers(old), draft.signers(new));
    let complete = before.len() >= old.threshold && next.len() >= new.threshold;
    let file = args.file.display().to_string();
    if ui.is_json() {
        let version = draft.trust.version;
        return ui.json(&Signed {
            file,
            version,
            changes: lines,
            signed_before: before,
            signed_next: next,
            complete,
        });
    }
    ui.line(format!("signed for version {}: {}", plan.chain.current().version, progress(&before, old)));
    ui.line(format!("signed for version {}: {}", draft.trust.version, progress(&next, new)));
    if complete {
        ui.hint(format!(
            "enough have signed; next: capgate trust rotate {file} --registry-key REGISTRY-KEY-FILE"
        ));
    } else {
        ui.hint("give the file to the next key holder; nobody needs to be trusted with it on the way");
    }
}
