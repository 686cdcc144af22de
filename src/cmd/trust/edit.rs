//! Edits of a draft. Each makes it where there is none, and drops its signatures: they were over another text.

use std::path::Path;

use capgate_registry::keys::VerifierKey;
use capgate_registry::log::LogReader;
use capgate_registry::note::{self, Kind, Note};
use capgate_registry::reader::read_latest;
use capgate_registry::trust::{Chain, Compromised, Role, Trust};
use jiff::SignedDuration;
use serde::Serialize;

use super::changes::changes;
use super::draft::Draft;
use super::effect::Effect;
use crate::cli::{EditArgs, RoleWord, TrustAddArgs, TrustCompromisedArgs, TrustDraftArgs, TrustRemoveArgs};
use crate::cmd::handed::write;
use crate::cmd::keys;
use crate::cmd::plan::Plan;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::{Ui, count};

/// Days until the root keys must sign again, unless it is said otherwise.
const DAYS: u16 = 365;

/// `capgate trust draft`
pub fn draft(ui: &Ui, args: &TrustDraftArgs) -> Outcome {
    edit(ui, &args.edit, |_, _| Ok(Vec::new()))
}

/// `capgate trust add-key`
pub fn add_key(ui: &Ui, args: &TrustAddArgs) -> Outcome {
    edit(ui, &args.edit, |trust, _| {
        let key = keys::public(&args.key)?;
        if let Some((name, _)) = holders(trust, &key).next() {
            return Err(Failure::usage(format!("the key `{}` stands under `{name}` already", key.name())));
        }
        role_mut(trust, args.role).keys.push(key);
        Ok(Vec::new())
    })
}

/// `capgate trust remove-key`
pub fn remove_key(ui: &Ui, args: &TrustRemoveArgs) -> Outcome {
    edit(ui, &args.edit, |trust, _| {
        let key = known(trust, &args.key)?;
        take_out(trust, &key);
        Ok(Vec::new())
    })
}

/// `capgate trust compromised`
pub fn compromised(ui: &Ui, args: &TrustCompromisedArgs) -> Outcome {
    edit(ui, &args.edit, |trust, plan| {
        // One that was taken out earlier can be named by its whole text.
        let key = VerifierKey::parse(&args.key).or_else(|_| known(trust, &args.key))?;
        take_out(trust, &key);
        trust.compromised.retain(|other| other.key.public() != key.public());
        trust.compromised.push(Compromised { key: key.clone(), from: args.from });
        Ok(lost(plan, &key, args.from))
    })
}

/// Entries that the key signed from that index on, so that nobody is surprised.
fn lost(plan: &Plan, key: &VerifierKey, from: u64) -> Vec<String> {
    let Ok(latest) = read_latest(&plan.folder, &plan.chain) else { return Vec::new() };
    let reader = LogReader::new(&plan.folder, latest.log_size);
    let signed = |entry: &[u8]| {
        Note::parse(entry).is_ok_and(|note| note.signatures().iter().any(|line| line.is_named(key)))
    };
    let range = from.min(latest.log_size)..latest.log_size;
    let found = reader.entries(range).filter(|entry| entry.as_ref().is_ok_and(|entry| signed(entry))).count();
    let entries = count(found, "entry").replace("entrys", "entries");
    vec![format!("{entries} that `{}` signed from log index {from} on", key.name())]
}

fn role_mut(trust: &mut Trust, role: RoleWord) -> &mut Role {
    match role {
        RoleWord::Root => &mut trust.root,
        RoleWord::Publisher => &mut trust.publisher,
        RoleWord::Registry => &mut trust.registry,
    }
}

fn holders<'t>(trust: &'t Trust, key: &VerifierKey) -> impl Iterator<Item = (&'static str, &'t Role)> {
    let public = *key.public();
    trust.roles().into_iter().filter(move |(_, role)| role.keys.iter().any(|k| *k.public() == public))
}

/// A key of any role, by its name or its whole text.
fn known(trust: &Trust, text: &str) -> Result<VerifierKey, Failure> {
    let all: Vec<&VerifierKey> = trust.roles().into_iter().flat_map(|(_, role)| &role.keys).collect();
    let named: Vec<&VerifierKey> =
        all.iter().copied().filter(|key| key.name() == text || key.to_string() == text).collect();
    match named.as_slice() {
        [key] => Ok((*key).clone()),
        [] => {
            let names: Vec<String> = all.iter().map(|key| format!("`{}`", key.name())).collect();
            Err(Failure::usage(format!("no key is named `{text}`"))
                .help(format!("the keys are {}", names.join(", "))))
        }
        several => {
            let texts: Vec<String> = several.iter().map(|key| format!("\n  {key}")).collect();
            Err(Failure::usage(format!("{} keys are named `{text}`", several.len()))
                .help(format!("give one of them whole:{}", texts.concat())))
        }
    }
}

fn take_out(trust: &mut Trust, key: &VerifierKey) {
    for role in [&mut trust.root, &mut trust.publisher, &mut trust.registry] {
        role.keys.retain(|other| other.public() != key.public());
    }
}

#[derive(Serialize)]
struct Edited {
    file: String,
    version: u64,
    log_index: u64,
    expires: String,
    changes: Vec<String>,
    unsigned: bool,
    #[serde(flatten)]
    effect: Effect,
}

fn edit(
    ui: &Ui,
    args: &EditArgs,
    change: impl FnOnce(&mut Trust, &Plan) -> Result<Vec<String>, Failure>,
) -> Outcome {
    let plan = Plan::open(ui, &args.registry, None)?;
    let current = plan.chain.current();
    let before = if args.file.exists() { Some(Draft::read(&args.file, &plan.chain)?) } else { None };
    if let Some(before) = &before {
        before.follows(&args.file, &plan.chain)?;
    }
    let mut trust = before.as_ref().map_or_else(|| current.clone(), |before| before.trust.clone());
    let hints = change(&mut trust, &plan)?;
    trust.version = current.version.saturating_add(1);
    trust.issued = plan.now;
    trust.log_index = log_index(&plan)?;
    if let Some(days) = args.days.or(before.is_none().then_some(DAYS)) {
        let life = SignedDuration::from_hours(i64::from(days) * 24);
        trust.expires = plan.now.saturating_add(life).unwrap_or(plan.now);
    }
    for (role, threshold) in [
        (&mut trust.root, args.threshold_root),
        (&mut trust.publisher, args.threshold_publisher),
        (&mut trust.registry, args.threshold_registry),
    ] {
        role.threshold = threshold.unwrap_or(role.threshold);
    }
    let text = checked(&trust, &plan.chain)?;
    write(&args.file, text.as_bytes())?;
    let lines = changes(current, &trust);
    let names_more = trust.compromised != current.compromised;
    let effect = if names_more { Effect::of(&plan, &trust) } else { Effect::default() };
    let had_signatures = before.is_some_and(|before| before.note.is_some());
    if ui.is_json() {
        ui.json(&Edited {
            file: args.file.display().to_string(),
            version: trust.version,
            log_index: trust.log_index,
            expires: trust.expires.to_string(),
            changes: lines,
            unsigned: had_signatures,
            effect,
        });
        return Ok(Exit::Done);
    }
    ui.line(format!(
        "version {} in `{}`, from log index {} on:",
        trust.version,
        args.file.display(),
        trust.log_index
    ));
    lines.iter().for_each(|line| ui.line(format!("  {line}")));
    if had_signatures {
        ui.warn("the signatures that it had are gone: they were over another text");
    }
    hints.iter().for_each(|hint| ui.hint(hint));
    effect.say(ui);
    ui.hint(format!("next, by each root key: capgate trust sign {} --key ROOT-KEY-FILE", quoted(&args.file)));
    Ok(Exit::Done)
}

fn quoted(path: &Path) -> String {
    path.display().to_string()
}

/// Entries of the log; those to come are judged by the next version.
/// Where the next version takes force: behind what is logged; or in the place of a version that was never in force, whose
/// entries it then judges.
fn log_index(plan: &Plan) -> Result<u64, Failure> {
    let current = plan.chain.current();
    match read_latest(&plan.folder, &plan.chain) {
        Ok(latest) if latest.trust < current.version => Ok(current.log_index),
        Ok(latest) => Ok(latest.log_size.max(current.log_index)),
        Err(doubt) => Err(crate::cmd::opened::doubted(&doubt, plan.path())),
    }
}

/// The text, if readers would take it.
fn checked(trust: &Trust, chain: &Chain) -> Result<String, Failure> {
    let toml = trust.to_toml();
    if let Err(problems) = Trust::parse(toml.as_bytes(), chain.origin()) {
        let first = problems.into_iter().next();
        let message = first.as_ref().map_or_else(String::new, |problem| problem.message.clone());
        let help = first.and_then(|problem| problem.help).unwrap_or_else(|| {
            "`--threshold-root`, `--threshold-publisher` and `--threshold-registry` set how many must sign".into()
        });
        return Err(Failure::usage(message).help(help));
    }
    note::compose(Kind::Trust, chain.origin(), &toml).map_err(|e| Failure::usage(e.to_string()))
}
