//! `capgate publish`: lints, judges evidence again, signs, and puts profiles in force.

use std::path::{Path, PathBuf};

use capgate_registry::keys::SigningKey;
use capgate_registry::profile::{Profile, ProfileId};
use capgate_registry::publish::{self, Publication};
use serde::Serialize;

use super::history::{self, Revoked, closeness};
use super::noted::{self, Noted};
use super::plan::Plan;
use super::{keys, opened, witness};
use crate::cli::PublishArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::profiles::{Linted, Profiles};
use crate::recheck;
use crate::ui::problem::Weight;
use crate::ui::{Ui, count};

/// What a publication did, as data.
#[derive(Serialize)]
pub struct Report {
    version: u64,
    records: u64,
    log_size: u64,
    expires: String,
    published: Vec<Appended>,
    already: Vec<String>,
    revoked: Vec<Revoked>,
    changed: bool,
    completed: bool,
}

#[derive(Serialize)]
struct Appended {
    id: String,
    log_index: u64,
}

impl Report {
    /// Of a publication.
    pub fn new(done: &Publication) -> Self {
        let appended =
            |(id, log_index): &(ProfileId, u64)| Appended { id: id.to_string(), log_index: *log_index };
        Self {
            version: done.latest.version,
            records: done.latest.size,
            log_size: done.latest.log_size,
            expires: done.latest.expires.to_string(),
            published: done.appended.iter().map(appended).collect(),
            already: done.already.iter().map(ToString::to_string).collect(),
            revoked: Vec::new(),
            changed: done.changed,
            completed: done.completed,
        }
    }

    /// Names those that are revoked: publishing them again changes nothing about that.
    pub fn with_revoked(mut self, revoked: Vec<Revoked>) -> Self {
        self.already.retain(|id| !revoked.iter().any(|one| one.id == *id));
        Self { revoked, ..self }
    }

    /// Says it; `verb` is what was done to the profiles.
    pub fn say(&self, ui: &Ui, verb: &str) {
        if ui.is_json() {
            return ui.json(self);
        }
        if self.completed {
            ui.hint("an interrupted publication was completed first");
        }
        for Appended { id, log_index } in &self.published {
            ui.line(format!("{verb} {id} (log index {log_index})"));
        }
        for id in &self.already {
            ui.line(format!("already published {id}, with the same content"));
        }
        for revoked in &self.revoked {
            ui.warn(format!("{}; it stays out of force", revoked.say()));
        }
        let state = if self.changed { "in force" } else { "nothing changed" };
        let records = count(usize::try_from(self.records).unwrap_or(usize::MAX), "record");
        ui.line(format!("{state}: version {}, {records}, expires {}", self.version, self.expires));
    }
}

pub fn run(ui: &Ui, args: &PublishArgs) -> Outcome {
    if let Some(from) = &args.from {
        return super::carry::run(ui, args, from);
    }
    let mut plan = Plan::open(ui, &args.registry, args.to.to.as_deref())?;
    let notes =
        if args.note.is_empty() { sign_files(ui, args, &plan)? } else { signed_notes(ui, args, &plan)? };
    let done = plan.publish(ui, &notes, &args.signing)?;
    opened::warn_of_expiry(ui, &done.latest, plan.now, &args.registry.registry);
    opened::warn_of_trust(ui, plan.chain.current(), plan.now);
    let revoked = history::revocations(&plan, &done.already);
    let exit = if revoked.is_empty() { Exit::Done } else { Exit::Refused };
    Report::new(&done).with_revoked(revoked).say(ui, "published");
    if exit == Exit::Refused {
        ui.hint("an id is never used again: what was tested anew is a profile with an id of its own");
    }
    if args.evidence.is_empty() && !done.appended.is_empty() {
        ui.hint("the evidence was not judged again; give its bundle with `--evidence` to have it compared");
    }
    witness::after(ui, &mut plan, &args.asked)?;
    Ok(exit)
}

/// Profiles from their files, signed here by enough publishers.
fn sign_files(ui: &Ui, args: &PublishArgs, plan: &Plan) -> Result<Vec<Vec<u8>>, Failure> {
    let profiles = Profiles::read(std::slice::from_ref(&args.profiles)).map_err(|e| {
        Failure::failed(e.to_string()).help("name the folder of the profiles with `--profiles`")
    })?;
    let chosen = choose(&profiles, args)?;
    refuse_problems(ui, &chosen, "published")
        .map_err(|failure| failure.help(format!("capgate lint {}", args.profiles.display())))?;
    recheck_evidence(ui, &chosen, args)?;
    let publishers = keys::of_role(&args.key, &plan.chain.current().publisher, "publisher")?;
    let signers: Vec<&SigningKey> = publishers.iter().collect();
    in_order(&chosen).into_iter().map(|file| sign(file, plan, &signers)).collect()
}

/// Notes that enough publishers signed before, each where their key is kept.
fn signed_notes(ui: &Ui, args: &PublishArgs, plan: &Plan) -> Result<Vec<Vec<u8>>, Failure> {
    let role = &plan.chain.current().publisher;
    let noted = noted::read_all(&args.note, plan.chain.origin())?;
    let chosen: Vec<&Linted> = noted.iter().map(|one| &one.linted).collect();
    refuse_problems(ui, &chosen, "published")?;
    noted.iter().try_for_each(|one| one.refuse_unsigned(role))?;
    recheck_evidence(ui, &chosen, args)?;
    noted.iter().for_each(|one| one.hint_of_strangers(ui, role));
    let note_of = |file: &Linted| noted.iter().find(|one| one.linted.path == file.path).and_then(Noted::note);
    Ok(in_order(&chosen).into_iter().filter_map(note_of).map(<[u8]>::to_vec).collect())
}

fn sign(file: &Linted, plan: &Plan, keys: &[&SigningKey]) -> Result<Vec<u8>, Failure> {
    // A profile that was read is UTF-8.
    let toml = String::from_utf8_lossy(&file.bytes);
    publish::sign_profile(&toml, plan.chain.origin(), keys)
        .map_err(|e| keys::not_signed(&format!("`{}`", file.name), &e))
}

fn choose<'p>(profiles: &'p Profiles, args: &PublishArgs) -> Result<Vec<&'p Linted>, Failure> {
    if args.all {
        if profiles.files.is_empty() {
            return Err(Failure::failed(format!("there is no profile in `{}`", args.profiles.display())));
        }
        return Ok(profiles.files.iter().collect());
    }
    args.ids.iter().map(|id| find(profiles, id, &args.profiles)).collect()
}

fn find<'p>(profiles: &'p Profiles, id: &str, folder: &Path) -> Result<&'p Linted, Failure> {
    let stem = |file: &Linted| file.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let file = profiles.files.iter().find(|file| stem(file).as_deref() == Some(id));
    file.ok_or_else(|| {
        let stems: Vec<String> = profiles.files.iter().filter_map(stem).collect();
        let nearest = stems.iter().max_by(|a, b| closeness(a, id).total_cmp(&closeness(b, id)));
        let failure = Failure::failed(format!("there is no profile `{id}` in `{}`", folder.display()));
        match nearest {
            Some(nearest) if closeness(nearest, id) > 0.8 => {
                failure.help(format!("did you mean `{nearest}`?"))
            }
            _ => failure,
        }
    })
}

/// `verb` is what is not done to them.
pub fn refuse_problems(ui: &Ui, chosen: &[&Linted], verb: &str) -> Result<(), Failure> {
    let problems: usize = chosen.iter().map(|file| file.problems.len()).sum();
    if problems == 0 {
        return Ok(());
    }
    for file in chosen {
        ui.details(&file.rendered(Weight::Error));
    }
    Err(Failure::invalid(format!("nothing was {verb}: {}", count(problems, "problem"))))
}

fn recheck_evidence(ui: &Ui, chosen: &[&Linted], args: &PublishArgs) -> Result<(), Failure> {
    if !args.manifest.is_empty() && args.manifest.len() != args.evidence.len() {
        return Err(Failure::usage("give `--manifest` once for each `--evidence`, or never").help(
            "put the manifest into the bundle as `bundle.toml` where some have one and some have none",
        ));
    }
    let profiles: Vec<&Profile> = chosen.iter().filter_map(|file| file.profile.as_ref()).collect();
    let manifests = args.manifest.iter().map(Some).chain(std::iter::repeat(None));
    let mut faults = Vec::new();
    for (bundle, manifest) in args.evidence.iter().zip(manifests) {
        let (manifest, judgement) = super::evidence::judge(ui, bundle, manifest.map(PathBuf::as_path))?;
        let found = recheck::against(&profiles, &manifest, &judgement);
        if !found.cited {
            faults.push(format!("no profile that is published cites the bundle `{}`", bundle.display()));
        }
        faults.extend(found.faults);
    }
    if faults.is_empty() {
        return Ok(());
    }
    faults.iter().for_each(|fault| ui.details(&format!("error: {fault}\n")));
    Err(Failure::invalid(format!(
        "nothing was published: the evidence does not bear out {}",
        count(faults.len(), "statement")
    ))
    .help("`capgate evidence draft` writes what the bundle supports"))
}

/// A profile follows those that it supersedes.
fn in_order<'p>(chosen: &[&'p Linted]) -> Vec<&'p Linted> {
    let mut waiting: Vec<&Linted> = chosen.to_vec();
    let mut ordered: Vec<&Linted> = Vec::new();
    while !waiting.is_empty() {
        let id = |file: &Linted| file.profile.as_ref().map(|profile| profile.id.clone());
        let earlier = |file: &Linted| file.profile.as_ref().and_then(|profile| profile.supersedes.clone());
        let blocked = |file: &&Linted| {
            earlier(file).is_some_and(|e| waiting.iter().any(|w| id(w).as_ref() == Some(&e)))
        };
        let (later, ready): (Vec<_>, Vec<_>) = waiting.iter().copied().partition(|file| blocked(file));
        // Profiles that supersede each other in a circle are refused by the registry, in whatever order.
        if ready.is_empty() {
            ordered.extend(later);
            break;
        }
        ordered.extend(ready);
        waiting = later;
    }
    ordered
}
