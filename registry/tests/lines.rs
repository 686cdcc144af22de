//! Signature lines of strangers: no signature covers them, so anybody can add one. They never break a registry.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::io;
use std::num::NonZero;

use base64ct::{Base64, Encoding};
use capgate_registry::keys::SigningKey;
use capgate_registry::latest::{self, Latest};
use capgate_registry::log::{CHECKPOINT, Checkpoint, LogReader, append};
use capgate_registry::merkle::empty_root;
use capgate_registry::note::{self, Kind, Note};
use capgate_registry::publish::{self, LIFE, PublishError, RotateError, Terms};
use capgate_registry::reader::read_chain;
use capgate_registry::snapshot::{Catalogue, Entries, compile};
use capgate_registry::sync::{SyncError, Synced, sync};
use capgate_registry::trust::{Role, Trust};
use support::{Memory, World, key, origin, profile};

fn role(keys: &[&SigningKey]) -> Role {
    Role { threshold: 1, keys: keys.iter().map(|key| key.verifier().clone()).collect() }
}

/// A line that names the key and is no signature of it.
fn garbage(key: &SigningKey) -> String {
    let material = [&key.verifier().hash()[..], &[7; 64]].concat();
    format!("\u{2014} {} {}\n", key.verifier().name(), Base64::encode_string(&material))
}

fn with_line(note: &[u8], key: &SigningKey) -> Vec<u8> {
    [note, garbage(key).as_bytes()].concat()
}

fn latest_of(world: &World) -> Latest {
    world.open().unwrap().latest().clone()
}

fn entry(world: &World, index: u64) -> Vec<u8> {
    LogReader::new(&world.store, latest_of(world).log_size).entry(index).unwrap()
}

/// The next version, from log index `from` on.
fn draft(world: &World, publishers: &[&SigningKey], from: u64) -> Vec<u8> {
    let now = read_chain(&world.store, &world.pin, None).unwrap().current().clone();
    let next = Trust { version: now.version + 1, log_index: from, publisher: role(publishers), ..now };
    let text = note::compose(Kind::Trust, &origin(), &next.to_toml()).unwrap();
    note::sign(&text, &[&key("root.test", 1)]).unwrap()
}

fn rotate(world: &World, note: &[u8]) -> Result<(), RotateError> {
    let keys = [SigningKey::parse(&world.registry.encode().unwrap()).unwrap()];
    let terms =
        Terms { keys: &keys, now: world.now, life: LIFE, renew: false, threads: NonZero::<usize>::MIN };
    publish::rotate(&world.store, &world.pin, note, &terms, &mut |_| {}).map(drop)
}

fn follow(world: &World, to: &Memory) -> Result<Synced, SyncError> {
    sync(&world.store, to, &world.anchor(), NonZero::<usize>::MIN, &mut |_, _| {})
}

struct Logged(Vec<Vec<u8>>);

impl Entries for Logged {
    fn entry(&self, index: u64) -> io::Result<Vec<u8>> {
        Ok(self.0[usize::try_from(index).unwrap()].clone())
    }
}

/// Makes the log one of exactly these bytes, as an earlier version, or another program, would have logged them.
fn log_as_they_are(world: &World, entries: Vec<Vec<u8>>) {
    let chain = read_chain(&world.store, &world.pin, None).unwrap();
    let before = latest_of(world);
    let log = append(&LogReader::new(&Memory::default(), 0), &empty_root(), &entries).unwrap();
    let mut catalogue = Catalogue::default();
    for (index, entry) in (0..).zip(&entries) {
        catalogue.add(index, entry, &chain).unwrap();
    }
    let mut snapshot = Vec::new();
    let compiled = compile(&catalogue, &Logged(entries), &mut snapshot, &mut |_| {}).unwrap();
    let latest = Latest {
        version: before.version + 1,
        size: compiled.size,
        root: compiled.root,
        log_size: log.size,
        log_root: log.root,
        ..before
    };
    world.store.files.borrow_mut().retain(|path, _| path.starts_with("trust/"));
    log.files.into_iter().for_each(|(path, bytes)| world.store.set(&path, bytes));
    world.store.set(&latest.snapshot_path(), snapshot);
    let checkpoint = Checkpoint { origin: origin(), size: log.size, root: log.root };
    world.store.set(CHECKPOINT, note::sign(&checkpoint.to_text(), &[&world.registry]).unwrap());
    let text = note::compose(Kind::Latest, &origin(), &latest.to_toml()).unwrap();
    world.store.set(latest::PATH, note::sign(&text, &[&world.registry]).unwrap());
}

/// Two entries, the second of which bears a line in the name of a publisher to come.
fn spoiled(future: &SigningKey) -> World {
    let world = World::new();
    let notes = [world.sign(&profile("first-one", 1)), world.sign(&profile("second-one", 2))];
    log_as_they_are(&world, vec![notes[0].clone(), with_line(&notes[1], future)]);
    assert_eq!(world.verify().faults, []);
    world
}

#[test]
fn what_is_logged_bears_lines_of_its_publishers_alone() {
    let world = World::new();
    let future = key("future.test", 77);
    let note = world.sign(&profile("first-one", 1));
    let twice = [note.as_slice(), note.split(|&b| b == b'\n').rev().nth(1).unwrap(), b"\n"].concat();
    world.publish(&[with_line(&twice, &future)]).unwrap();
    assert_eq!(entry(&world, 0), note);
    let revocation = world.revocation("first-one", "harmful");
    world.publish(&[with_line(&revocation, &future)]).unwrap();
    assert_eq!(entry(&world, 1), revocation);
    // Drafted before either of them.
    rotate(&world, &draft(&world, &[&world.publisher, &future], 0)).unwrap();
    assert_eq!(world.verify().faults, []);
}

#[test]
fn attack_a_line_in_a_later_publishers_name_is_held_against_its_signature_before_a_rotation() {
    let future = key("future.test", 77);
    let world = spoiled(&future);
    let refused = rotate(&world, &draft(&world, &[&world.publisher, &future], 1));
    let Err(RotateError::Publish(PublishError::Disowned { first: 1, why, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.starts_with("the signature by `future.test` does not verify"), "{why}");
    assert!(!world.store.files.borrow().contains_key("trust/2.note"));
    // Drafted anew, it judges what comes and not what was signed before it.
    rotate(&world, &draft(&world, &[&world.publisher, &future], 2)).unwrap();
    assert_eq!(world.verify().faults, []);
    assert_eq!(world.live(&profile("second-one", 2)), ["second-one"]);
}

#[test]
fn attack_what_is_here_is_verified_anew_where_a_later_version_judges_it() {
    let future = key("future.test", 77);
    let world = spoiled(&future);
    let copy = Memory::default();
    follow(&world, &copy).unwrap();
    // The root keys put a version in force that no command would.
    world.store.set("trust/2.note", draft(&world, &[&world.publisher, &future], 1));
    let refused = world.publish_to(&world.store, &[], true);
    assert!(matches!(refused, Err(PublishError::Disowned { first: 1, .. })), "{refused:?}");
    world.force_trust(2);
    let fault = world.verify().faults.remove(0);
    assert!(fault.what.starts_with("entry 1: the signature by `future.test` does not verify"), "{fault:?}");
    let refused = follow(&world, &copy);
    assert!(matches!(refused, Err(SyncError::Entry { index: 1, .. })), "{refused:?}");
    assert!(!copy.files.borrow().contains_key("trust/2.note"));
}

#[test]
fn a_line_that_anybody_added_to_what_is_served_stops_nobody_and_is_not_copied() {
    let world = World::new();
    world.publish(&[world.sign(&profile("first-one", 1))]).unwrap();
    let (anybody, other) = (key("anybody.test", 88), key("other.test", 89));
    // Whoever passes the draft on adds one, too; the same draft without it completes what was interrupted.
    let clean = draft(&world, &[&world.publisher], 1);
    rotate(&world, &with_line(&clean, &anybody)).unwrap();
    assert_eq!(world.store.get("trust/2.note"), clean);
    rotate(&world, &clean).unwrap();
    rotate(&world, &with_line(&clean, &other)).unwrap();

    let served = [latest::PATH, CHECKPOINT, "trust/2.note"];
    let honest = served.map(|path| world.store.get(path));
    for (path, bytes) in served.into_iter().zip(&honest) {
        world.store.set(path, with_line(bytes, &anybody));
    }
    let report = world.verify();
    assert_eq!(report.faults, []);
    for path in served {
        let said = format!("`{path}` carries a signature by `anybody.test`");
        assert!(report.notes.iter().any(|note| note.starts_with(&said)), "{said}: {:?}", report.notes);
    }
    let copy = Memory::default();
    follow(&world, &copy).unwrap();
    assert_eq!(copy.get(latest::PATH), honest[0]);
    assert_eq!(copy.get("trust/2.note"), honest[2]);
    // It goes on from both.
    for store in [&copy, &world.store] {
        world.publish_to(store, &[world.sign(&profile("second-one", 2))], false).unwrap();
        assert_eq!(world.verify_store(store).faults, []);
    }
    assert!(Note::parse(&copy.get(latest::PATH)).unwrap().signatures().len() == 1);
}
