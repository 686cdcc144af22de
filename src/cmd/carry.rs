//! `capgate publish --from`: what another registry says, signed anew by publishers here.
//!
//! A copy of the other registry is kept in the hidden part of this one's folder, by the digest of its first root: it
//! remembers what was verified, so that the other one cannot turn time back either.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use capgate_registry::carry::{Carried, Known, Left, Selection, carry};
use capgate_registry::keys::SigningKey;
use capgate_registry::merkle::Hash;
use capgate_registry::note::{self, Kind};
use capgate_registry::publish::{Publication, PublishError};
use capgate_registry::reader::{Anchor, read_chain, read_latest};
use capgate_registry::sync::sync;

use super::plan::Plan;
use super::publish::Report;
use super::sync::memory;
use super::{keys, opened, witness};
use crate::cli::PublishArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::{Ui, progress};
use crate::world::file;
use crate::world::folder::Folder;
use crate::world::place::Place;
use crate::world::source::Source;
use crate::world::threads;

/// Where copies of other registries are, in the folder of this one.
const COPIES: &str = ".upstream";
/// Largest file with a digest.
const MAX_PIN: u64 = 100;

pub fn run(ui: &Ui, args: &PublishArgs, from: &str) -> Outcome {
    let mut plan = Plan::open(ui, &args.registry, args.to.to.as_deref())?;
    let publishers = keys::of_role(&args.key, &plan.chain.current().publisher, "publisher")?;
    let signers: Vec<&SigningKey> = publishers.iter().collect();
    let pin = pin(&plan, from, args.from_root)?;
    let copy = follow(&plan, from, pin)?;
    remember_pin(&plan, from, pin)?;
    let Selection { carried, mut left } = collect(&plan, &copy, pin)?;
    let mut notes = Vec::new();
    for one in &carried {
        let text = note::compose(one.kind, plan.chain.origin(), &one.toml);
        let note = text.and_then(|text| note::sign(&text, &signers));
        notes.push(note.map_err(|e| keys::not_signed(&format!("`{}`", one.id), &e))?);
    }
    let (done, more) = publish(ui, &mut plan, args, &carried, &notes)?;
    left.extend(more);
    opened::warn_of_expiry(ui, &done.latest, plan.now, &args.registry.registry);
    opened::warn_of_trust(ui, plan.chain.current(), plan.now);
    for Left { id, kind, why } in &left {
        let what = if *kind == Kind::Profile { "" } else { "the revocation of " };
        ui.warn(format!("{what}`{id}` was not carried over: {why}"));
    }
    Report::new(&done).say(ui, "carried over");
    witness::after(ui, &mut plan, &args.asked)?;
    Ok(Exit::Done)
}

/// The trust of the other registry is named once; from then on its address says which it is.
fn pin(plan: &Plan, from: &str, named: Option<Hash>) -> Result<Hash, Failure> {
    let path = copies(plan)?.join(name_of(from));
    let known = match file::read_shared(&path, MAX_PIN) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim().parse::<Hash>().ok(),
        Err(_) => None,
    };
    match (named, known) {
        (Some(named), Some(known)) if named != known => {
            let message =
                format!("`{from}` was carried over under sha256:{known} before, not under sha256:{named}");
            Err(Failure::invalid(message)
                .help(format!("remove `{}` if it has moved for good", path.display())))
        }
        (Some(pin), _) | (None, Some(pin)) => Ok(pin),
        (None, None) => Err(Failure::usage(format!("which first root `{from}` has is not known yet"))
            .help("give it once: `--from-root sha256:…`, as its maintainers publish it")),
    }
}

/// The folder of the copies, which is made where there is none. A link in its place is not followed.
fn copies(plan: &Plan) -> Result<PathBuf, Failure> {
    let made = Place::open(plan.path()).and_then(|place| place.within(OsStr::new(COPIES)));
    made.map_err(|e| unusable(plan.path(), &e))?;
    Ok(plan.path().join(COPIES))
}

fn unusable(path: &Path, e: &io::Error) -> Failure {
    Failure::failed(format!("the folder `{}` cannot be used: {e}", path.display()))
}

fn name_of(from: &str) -> String {
    format!("{}.root", Hash::of(from.as_bytes()))
}

fn remember_pin(plan: &Plan, from: &str, pin: Hash) -> Result<(), Failure> {
    let path = copies(plan)?.join(name_of(from));
    if path.exists() {
        return Ok(());
    }
    file::create_new(&path, format!("{pin}\n").as_bytes(), 0o644)
        .map_err(|e| Failure::failed(format!("`{}` cannot be written: {e}", path.display())))
}

/// Brings the copy of the other registry up to date.
fn follow(plan: &Plan, from: &str, pin: Hash) -> Result<Folder, Failure> {
    let all = copies(plan)?;
    let path = all.join(pin.to_string());
    let made = Place::open(&all).and_then(|place| place.within(OsStr::new(&pin.to_string())));
    made.map_err(|e| unusable(&all, &e))?;
    let copy = Folder::new(&path);
    let _lock = opened::lock(&copy)?;
    let source = Source::open(from)?;
    let anchor = Anchor { pin, seen: memory::of_folder(&path)?, now: plan.now };
    let bar = progress::counter("entries fetched:");
    let done = sync(source.store(), &copy, &anchor, threads(), &mut |done, _| bar.set_position(done));
    bar.finish_and_clear();
    let done = done.map_err(|e| super::sync::failed(&e, from, &path))?;
    memory::write(&path.join(memory::HIDDEN), &done.seen)?;
    Ok(copy)
}

fn collect(plan: &Plan, copy: &Folder, pin: Hash) -> Result<Selection, Failure> {
    let doubted = |doubt| opened::doubted(&doubt, copy.root());
    let there = read_chain(copy, &pin, None).map_err(doubted)?;
    if there.origin() == plan.chain.origin() {
        let message = format!("both registries are named `{}`", there.origin());
        return Err(Failure::invalid(message).help("a copy of a registry is made with `capgate sync`"));
    }
    let latest = read_latest(copy, &there).map_err(doubted)?;
    let here =
        read_latest(&plan.folder, &plan.chain).map_err(|doubt| opened::doubted(&doubt, plan.path()))?;
    let failed = |e: capgate_registry::carry::CarryError| Failure::invalid(e.to_string());
    let known = Known::read(&plan.folder, &plan.chain, &here).map_err(failed)?;
    carry(copy, &there, &latest, &known).map_err(failed)
}

/// Publishes what fits. What this registry says otherwise stays its own, and is named, with what refers to it.
fn publish(
    ui: &Ui,
    plan: &mut Plan,
    args: &PublishArgs,
    carried: &[Carried],
    notes: &[Vec<u8>],
) -> Result<(Publication, Vec<Left>), Failure> {
    let keys = plan.registry_keys(&args.signing.registry_key)?;
    let terms = args.signing.terms(&keys, plan.now, threads());
    let (done, left) = plan.publish_what_fits(ui, notes, &terms)?;
    let named = |(position, refused): &(usize, PublishError)| {
        carried.get(*position).map(|one| Left { id: one.id.clone(), kind: one.kind, why: why_not(refused) })
    };
    Ok((done, left.iter().filter_map(named).collect()))
}

fn why_not(refused: &PublishError) -> String {
    match refused {
        PublishError::Conflict { other, .. } => format!("`{other}` is about the same combination here"),
        PublishError::OtherBytes(_) => "that id has other content here".to_owned(),
        refused => refused.to_string(),
    }
}
