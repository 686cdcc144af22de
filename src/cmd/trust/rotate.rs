//! `capgate trust rotate`: the next version takes force.

use std::path::{Path, PathBuf};

use capgate_registry::note::{self, MAX_NOTE, Note};
use capgate_registry::publish::{self, PublishError, RotateError, Terms};
use capgate_registry::trust::{Chain, TrustError};
use jiff::SignedDuration;
use serde::Serialize;

use super::changes::changes;
use super::draft::Draft;
use crate::cli::TrustRotateArgs;
use crate::cmd::handed::{missing, progress};
use crate::cmd::plan::{NotDone, Plan};
use crate::cmd::{keys, opened, witness};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::{file, threads};

#[derive(Serialize)]
struct Rotated {
    trust: u64,
    version: u64,
    expires: String,
    trust_expires: String,
    changes: Vec<String>,
}

pub fn run(ui: &Ui, args: &TrustRotateArgs) -> Outcome {
    let mut plan = Plan::open(ui, &args.registry, args.to.to.as_deref())?;
    let note = put_together(&args.files)?;
    // The file that stands there already completes a rotation that was interrupted.
    if is_newest(&plan, &note) {
        ui.hint(format!(
            "version {} stands there already; its rotation is completed",
            plan.chain.current().version
        ));
        let earlier = plan.chain.current().version.saturating_sub(1);
        plan.chain = plan.chain.as_of(earlier).unwrap_or(plan.chain);
    }
    let [first, ..] = args.files.as_slice() else { return Err(Failure::usage("no file is given")) };
    let draft = Draft { note: Some(note.clone()), ..Draft::read(first, &plan.chain)? };
    draft.follows(first, &plan.chain)?;
    refuse_unsigned(&plan.chain, &draft)?;
    let keys = keys::of_role(&args.registry_key, &draft.trust.registry, "registry")?;
    let life = SignedDuration::from_hours(i64::from(args.days) * 24);
    let terms = Terms { keys: &keys, now: plan.now, life, renew: true, threads: threads() };
    let root = plan.root;
    let done =
        plan.commit(ui, |store| publish::rotate(store, &root, &note, &terms, &mut |_| {})).map_err(|e| {
            match e {
                NotDone::Failed(failure) => failure,
                NotDone::Refused(e) => failed(&e, plan.path()),
            }
        })?;
    let lines = changes(plan.chain.current(), &draft.trust);
    let (version, expires) = (done.latest.version, done.latest.expires.to_string());
    if ui.is_json() {
        ui.json(&Rotated {
            trust: done.latest.trust,
            version,
            expires,
            trust_expires: draft.trust.expires.to_string(),
            changes: lines,
        });
    } else {
        lines.iter().for_each(|line| ui.line(line));
        ui.line(format!(
            "in force: trust version {}, version {version}, expires {expires}",
            done.latest.trust
        ));
    }
    witness::after(ui, &mut plan, &args.asked)?;
    Ok(Exit::Done)
}

/// One note of the signatures of several copies.
fn put_together(files: &[PathBuf]) -> Result<Vec<u8>, Failure> {
    let mut whole: Option<Vec<u8>> = None;
    for path in files {
        let shown = path.display();
        let bytes = file::read(path, MAX_NOTE as u64)
            .map_err(|e| Failure::failed(format!("`{shown}` cannot be read: {e}")))?;
        Note::parse(&bytes).map_err(|e| {
            Failure::invalid(format!("`{shown}` is no signed draft: {e}"))
                .help(format!("sign it: capgate trust sign {shown} --key ROOT-KEY-FILE"))
        })?;
        whole = Some(match whole {
            None => bytes,
            Some(whole) => note::merge(&whole, &bytes)
                .map_err(|e| Failure::invalid(format!("`{shown}` cannot be put to the others: {e}")))?,
        });
    }
    whole.ok_or_else(|| Failure::usage("no file is given"))
}

fn is_newest(plan: &Plan, note: &[u8]) -> bool {
    let path = capgate_registry::reader::trust_path(plan.chain.current().version);
    let stands = capgate_registry::store::Store::read(&plan.folder, &path, MAX_NOTE as u64);
    let text = |bytes: &[u8]| Note::parse(bytes).ok().map(|note| note.text().to_owned());
    stands.is_ok_and(|stands| text(&stands).is_some() && text(&stands) == text(note))
}

/// Says whose signatures are missing, before anything is tried.
fn refuse_unsigned(chain: &Chain, draft: &Draft) -> Result<(), Failure> {
    let roles = [(chain.current().version, &chain.current().root), (draft.trust.version, &draft.trust.root)];
    for (version, role) in roles {
        let signers = draft.signers(role);
        if signers.len() < role.threshold {
            let missing = missing(&signers, role);
            let message = format!("for version {version} it is signed by {}", progress(&signers, role));
            return Err(Failure::invalid(message)
                .help(format!("have it signed by {}: capgate trust sign", missing.join(" or "))));
        }
    }
    Ok(())
}

fn failed(error: &RotateError, registry: &Path) -> Failure {
    match error {
        RotateError::Publish(error) => match error {
            PublishError::Store(capgate_registry::store::StoreError::Conflict { .. }) => {
                Failure::failed(error.to_string())
                    .help("somebody else put a version in force: `capgate trust show` says which")
            }
            PublishError::Disowned { .. } => Failure::invalid(error.to_string())
                .help("the log grew since it was drafted: edit the draft again, and have it signed anew"),
            error => opened::not_published(error, registry),
        },
        RotateError::NotNow { .. } => Failure::invalid(error.to_string())
            .help("edit the draft again, `capgate trust draft --days 365`, and have it signed anew; or set the clock"),
        RotateError::Trust(
            TrustError::NotPinned { .. } | TrustError::Version { .. } | TrustError::Signature { .. },
        ) => Failure::invalid(error.to_string()),
    }
}
