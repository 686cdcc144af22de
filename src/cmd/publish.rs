//! `capgate publish`: lints, judges evidence again, signs, and puts profiles in force.

use std::path::{Path, PathBuf};

use capgate_registry::keys::SigningKey;
use capgate_registry::profile::{Profile, ProfileId};
use capgate_registry::publish::{self, Publication};
use serde::Serialize;

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
            changed: done.changed,
            completed: done.completed,
        }
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
    let profiles = Profiles::read(std::slice::from_ref(&args.profiles)).map_err(|e| {
        Failure::failed(e.to_string()).help("name the folder of the profiles with `--profiles`")
    })?;
    let chosen = choose(&profiles, args)?;
    refuse_problems(ui, &chosen, &args.profiles)?;
    recheck_evidence(ui, &chosen, args)?;
    let publishers = keys::of_role(&args.signing.key, &plan.chain.current().publisher, "publisher")?;
    let signers: Vec<&SigningKey> = publishers.iter().collect();
    let notes = in_order(&chosen).into_iter().map(|file| sign(file, &plan, &signers));
    let notes = notes.collect::<Result<Vec<_>, _>>()?;
    let done = plan.publish(ui, &notes, &args.signing)?;
    opened::warn_of_expiry(ui, &done.latest, plan.now, &args.registry.registry);
    opened::warn_of_trust(ui, plan.chain.current(), plan.now);
    Report::new(&done).say(ui, "published");
    if args.evidence.is_empty() && !done.appended.is_empty() {
        ui.hint("the evidence was not judged again; give its bundle with `--evidence` to have it compared");
    }
    witness::after(ui, &mut plan, &args.asked)?;
    Ok(Exit::Done)
}

fn sign(file: &Linted, plan: &Plan, keys: &[&SigningKey]) -> Result<Vec<u8>, Failure> {
    // A profile that was read is UTF-8.
    let toml = String::from_utf8_lossy(&file.bytes);
    publish::sign_profile(&toml, plan.chain.origin(), keys)
        .map_err(|e| Failure::invalid(format!("`{}` cannot be signed: {e}", file.name)))
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

fn closeness(one: &str, other: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(one, other)
}

fn refuse_problems(ui: &Ui, chosen: &[&Linted], folder: &Path) -> Result<(), Failure> {
    let problems: usize = chosen.iter().map(|file| file.problems.len()).sum();
    if problems == 0 {
        return Ok(());
    }
    for file in chosen {
        ui.details(&file.rendered(Weight::Error));
    }
    Err(Failure::invalid(format!("nothing was published: {}", count(problems, "problem")))
        .help(format!("capgate lint {}", folder.display())))
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
