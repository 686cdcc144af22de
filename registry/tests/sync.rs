//! A copy follows its source: only what is new is fetched, everything is verified before anything is replaced.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking"
)]

mod support;

use std::cell::RefCell;
use std::num::NonZero;

use capgate_registry::keys::SigningKey;
use capgate_registry::note::{self, Kind};
use capgate_registry::publish::{self, LIFE, Terms};
use capgate_registry::reader::{Anchor, Reader, Seen, read_chain};
use capgate_registry::record::{Doubt, Lookup};
use capgate_registry::store::{Listed, ReadAt, Store, StoreError};
use capgate_registry::sync::{SyncError, Synced, sync};
use capgate_registry::trust::{Compromised, Role, Trust};
use support::{Memory, ORIGIN, World, first_key, key, origin, profile, time};

fn follow_at(world: &World, source: &dyn Store, to: &Memory, anchor: &Anchor) -> Result<Synced, SyncError> {
    let threads = NonZero::new(2).unwrap();
    let _ = world;
    sync(source, to, anchor, threads, &mut |_, _| {})
}

fn follow(world: &World, source: &dyn Store, to: &Memory) -> Result<Synced, SyncError> {
    follow_at(world, source, to, &world.anchor())
}

/// One profile for each of the numbers.
fn publish(world: &World, numbers: std::ops::Range<u64>) {
    let notes: Vec<Vec<u8>> = numbers.map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect();
    world.publish(&notes).unwrap();
}

#[track_caller]
fn is_sound(world: &World, to: &Memory) {
    let report = world.verify_store(to);
    assert_eq!((report.faults, report.notes), (vec![], vec![]));
}

fn version(world: &World, store: &Memory) -> u64 {
    Reader::open(store, &world.anchor()).unwrap().latest().version
}

#[test]
fn a_copy_has_what_its_source_has_at_every_awkward_size() {
    let world = World::new();
    let copy = Memory::default();
    let mut size = 0;
    for more in [0, 1, 1, 253, 1, 1, 255, 2] {
        publish(&world, size..size + more);
        size += more;
        let done = follow(&world, &world.store, &copy).unwrap();
        assert_eq!((done.fetched, done.latest.log_size), (more, size));
        is_sound(&world, &copy);
        let source = Reader::open(&world.store, &world.anchor()).unwrap();
        let here = Reader::open(&copy, &world.anchor()).unwrap();
        assert_eq!((here.latest(), here.seen()), (source.latest(), done.seen));
        for path in ["snapshot/latest.note", "log/checkpoint", "trust/1.note", &here.latest().snapshot_path()]
        {
            assert_eq!(copy.get(path), world.store.get(path), "{path}");
        }
        let again = follow(&world, &world.store, &copy).unwrap();
        assert!(!again.changed);
    }
}

/// Counts what is read of a store.
struct Counted<'s> {
    store: &'s Memory,
    reads: RefCell<Vec<(String, usize)>>,
}

impl Store for Counted<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let read = self.store.read(path, cap);
        self.reads.borrow_mut().push((path.to_owned(), read.as_ref().map_or(0, Vec::len)));
        read
    }
    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        panic!("{path} is opened, which was to be read")
    }
    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        panic!("a web server has no listing")
    }
}

#[test]
fn only_what_is_new_is_fetched_and_no_listing_is_needed() {
    let world = World::new();
    publish(&world, 0..600);
    let copy = Memory::default();
    follow(&world, &world.store, &copy).unwrap();
    publish(&world, 600..601);
    let source = Counted { store: &world.store, reads: RefCell::default() };
    assert_eq!(follow(&world, &source, &copy).unwrap().fetched, 1);
    let reads = source.reads.into_inner();
    let names: Vec<&str> = reads.iter().map(|(path, _)| path.as_str()).collect();
    let staged = names.iter().find(|name| name.starts_with("log/staged/")).unwrap();
    assert_eq!(
        names,
        [
            "snapshot/latest.note",
            "trust/1.note",
            "trust/2.note",
            "log/checkpoint",
            *staged,
            "log/tile/entries/002.p/89",
            "log/checkpoint"
        ]
    );
    let unchanged = Counted { store: &world.store, reads: RefCell::default() };
    assert!(!follow(&world, &unchanged, &copy).unwrap().changed);
    let names: Vec<String> = unchanged.reads.into_inner().into_iter().map(|(path, _)| path).collect();
    // Witnesses may have cosigned the checkpoint since.
    assert_eq!(names, ["snapshot/latest.note", "trust/1.note", "trust/2.note", "log/checkpoint"]);
}

#[test]
fn a_stop_at_every_operation_leaves_the_old_or_the_new_state() {
    let world = World::new();
    publish(&world, 0..3);
    let old = Memory::default();
    follow(&world, &world.store, &old).unwrap();
    let before = version(&world, &old);
    publish(&world, 3..6);
    let (mut kept, mut moved) = (0, 0);
    for stop in 0.. {
        let copy = old.copy();
        copy.fail_at.set(Some(stop));
        let stopped = follow(&world, &world.store, &copy).is_err();
        copy.fail_at.set(None);
        assert_eq!(world.verify_store(&copy).faults, [], "stopped at {stop}");
        if version(&world, &copy) == before {
            kept += 1
        } else {
            moved += 1
        }
        let again = follow(&world, &world.store, &copy).unwrap();
        assert_eq!(again.latest.version, before + 1);
        is_sound(&world, &copy);
        if !stopped {
            break;
        }
    }
    assert!(kept >= 2 && moved >= 4, "{kept} {moved}");
}

#[test]
fn no_changed_byte_of_a_source_reaches_a_copy() {
    let world = World::new();
    publish(&world, 0..2);
    let old = Memory::default();
    follow(&world, &world.store, &old).unwrap();
    let honest_old = old.files.borrow().clone();
    publish(&world, 2..4);
    let files = world.store.files.borrow().clone();
    let (mut refused, mut unread) = (0, 0);
    for (path, bytes) in &files {
        for at in 0..bytes.len() {
            // Tiles and snapshot are computed here, whatever the source has; a share of their bytes is enough.
            if (path.ends_with(".snap") || path.starts_with("log/tile/0")) && at % 97 != 0 {
                continue;
            }
            let source = world.store.copy();
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            source.set(path, changed);
            let copy = old.copy();
            match follow(&world, &source, &copy) {
                Ok(_) => {
                    is_sound(&world, &copy);
                    assert_eq!(version(&world, &copy), 3);
                    assert_eq!(copy.get("snapshot/latest.note"), files["snapshot/latest.note"]);
                    unread += 1;
                }
                Err(e) => {
                    assert_eq!(*copy.files.borrow(), honest_old, "{path} {at}: {e}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 3_000 && unread > 100, "{refused} {unread}");
}

#[test]
fn old_expired_and_foreign_sources_are_refused_and_the_copy_stays() {
    let world = World::new();
    publish(&world, 0..2);
    let old = world.store.copy();
    publish(&world, 2..3);
    let copy = Memory::default();
    follow(&world, &world.store, &copy).unwrap();
    let before = copy.files.borrow().clone();
    let refused = |source: &Memory, anchor: &Anchor| match follow_at(&world, source, &copy, anchor) {
        Err(SyncError::Source(doubt)) => {
            assert_eq!(*copy.files.borrow(), before);
            doubt.code()
        }
        other => panic!("{other:?}"),
    };
    let anchor = world.anchor();
    assert_eq!(refused(&old, &anchor), "registry-rollback");
    assert_eq!(
        refused(&world.store, &Anchor { now: time("2027-02-01T00:00:00Z"), ..anchor }),
        "registry-expired"
    );
    assert_eq!(
        refused(&world.store, &Anchor { now: time("2026-11-01T00:00:00Z"), ..anchor }),
        "clock-behind"
    );
    let seen = Seen { version: 99, ..Seen::default() };
    assert_eq!(refused(&world.store, &Anchor { seen, ..anchor }), "registry-rollback");
    let empty = Memory::default();
    assert_eq!(refused(&empty, &anchor), "registry-missing");
    // A copy of another registry is no copy of this one.
    let pin = capgate_registry::merkle::Hash::of(b"another");
    let foreign = follow_at(&world, &world.store, &copy, &Anchor { pin, ..anchor });
    assert!(matches!(foreign, Err(SyncError::Here(Doubt::WrongKey(_)))), "{foreign:?}");
    let first = follow_at(&world, &world.store, &Memory::default(), &Anchor { pin, ..anchor });
    assert!(matches!(first, Err(SyncError::Source(Doubt::WrongKey(_)))), "{first:?}");
}

/// Two registries with the same keys: what whoever stole the registry key shows to others.
#[test]
fn attack_another_history_under_the_same_keys_is_named_and_kept() {
    let (world, other) = (World::new(), World::new());
    publish(&world, 0..3);
    let copy = Memory::default();
    follow(&world, &world.store, &copy).unwrap();
    let before = copy.files.borrow().clone();
    // Longer, equally long, shorter; each with a version that is not lower.
    for (more, size) in [(5, 3), (3, 3), (2, 2)] {
        let store = other.store.copy();
        let notes: Vec<Vec<u8>> =
            (100..100 + more).map(|n| other.sign(&profile(&format!("other-{n}"), n))).collect();
        other.publish_to(&store, &notes, false).unwrap();
        other.publish_to(&store, &[], true).unwrap();
        match follow(&world, &store, &copy) {
            Err(SyncError::Fork { size: of, ours, theirs, latest, .. }) => {
                assert_eq!(of, size);
                assert_ne!(ours, theirs);
                assert_eq!(latest, store.get("snapshot/latest.note"), "kept as evidence");
            }
            done => panic!("{more}: {done:?}"),
        }
        assert_eq!(*copy.files.borrow(), before);
    }
}

#[test]
fn attack_a_revocation_left_out_of_the_snapshot_is_noticed() {
    let world = World::new();
    publish(&world, 0..1);
    let before = world.store.copy();
    world.publish(&[world.revocation("profile-0", "harmful")]).unwrap();
    let honest = world.open().unwrap().latest().clone();
    // The thief of the registry key signs the new log with the old snapshot.
    let old = Reader::open(&before, &world.anchor()).unwrap().latest().clone();
    let forged = capgate_registry::latest::Latest { size: old.size, root: old.root, ..honest };
    let text = note::compose(Kind::Latest, &origin(), &forged.to_toml()).unwrap();
    world.store.set("snapshot/latest.note", note::sign(&text, &[&world.registry]).unwrap());
    world.store.set(&forged.snapshot_path(), before.get(&old.snapshot_path()));
    assert!(
        Reader::open(&world.store, &world.anchor()).is_ok(),
        "a reader of the snapshot alone cannot know"
    );
    let copy = Memory::default();
    let done = follow(&world, &world.store, &copy);
    assert!(matches!(done, Err(SyncError::Damaged(_))), "{done:?}");
    assert!(!copy.files.borrow().contains_key("snapshot/latest.note"));
}

#[test]
fn what_an_interrupted_publication_has_not_written_is_computed() {
    let world = World::new();
    publish(&world, 0..3);
    let notes: Vec<Vec<u8>> = (3..6).map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect();
    let mut committed = 0;
    for stop in 0.. {
        let source = world.store.copy();
        source.fail_at.set(Some(stop));
        let stopped = world.publish_to(&source, &notes, false).is_err();
        source.fail_at.set(None);
        let copy = Memory::default();
        let done = follow(&world, &source, &copy).unwrap();
        is_sound(&world, &copy);
        committed += u64::from(done.latest.log_size == 6);
        if !stopped {
            break;
        }
    }
    assert!(committed >= 4, "{committed}");
}

fn rotated(world: &World, store: &Memory, change: impl FnOnce(&mut Trust), registry: &SigningKey) {
    let current = read_chain(store, &world.pin, None).unwrap().current().clone();
    let log_index = Reader::open(store, &world.anchor()).unwrap().latest().log_size;
    let mut next = Trust { version: current.version + 1, log_index, ..current };
    change(&mut next);
    let text = note::compose(Kind::Trust, &origin(), &next.to_toml()).unwrap();
    let bytes = note::sign(&text, &[&key("root.test", 1)]).unwrap();
    let keys = [SigningKey::parse(&registry.encode().unwrap()).unwrap()];
    let threads = NonZero::<usize>::MIN;
    let terms = Terms { keys: &keys, now: world.now, life: LIFE, renew: false, threads };
    publish::rotate(store, &world.pin, &bytes, &terms, &mut |_| {}).unwrap();
}

#[test]
fn a_rotation_is_followed_and_a_half_one_is_waited_for() {
    let world = World::new();
    publish(&world, 0..2);
    let copy = Memory::default();
    follow(&world, &world.store, &copy).unwrap();
    let registry = key(ORIGIN, 33);
    let role = |key: &SigningKey| Role { threshold: 1, keys: vec![key.verifier().clone()] };
    let half = world.store.copy();
    rotated(&world, &world.store, |trust| trust.registry = role(&registry), &registry);
    half.set("trust/2.note", world.store.get("trust/2.note"));
    // The old registry key signs still at the source, and may not any more.
    let waiting = follow(&world, &half, &copy);
    assert!(matches!(waiting, Err(SyncError::Rotating(2))), "{waiting:?}");
    is_sound(&world, &copy);
    let done = follow(&world, &world.store, &copy).unwrap();
    assert_eq!(done.seen.trust, 2);
    is_sound(&world, &copy);
    // Back to the state before the rotation there is no way.
    let back = Memory::default();
    for (path, bytes) in half.files.borrow().iter().filter(|(path, _)| *path != "trust/2.note") {
        back.set(path, bytes.clone());
    }
    let refused = follow(&world, &back, &copy);
    assert!(matches!(refused, Err(SyncError::Source(Doubt::Rollback(_)))), "{refused:?}");
}

#[test]
fn attack_a_line_that_no_signature_covers_does_not_stop_a_copy() {
    let world = World::new();
    publish(&world, 0..2);
    let registry = key(ORIGIN, 33);
    let role = |key: &SigningKey| Role { threshold: 1, keys: vec![key.verifier().clone()] };
    rotated(&world, &world.store, |trust| trust.registry = role(&registry), &registry);
    let hostile = world.store.copy();
    let note = hostile.get("trust/2.note");
    hostile.set("trust/2.note", note::add_signature(&note, &key("somebody.else", 44)).unwrap());
    let copy = Memory::default();
    follow(&world, &hostile, &copy).unwrap();
    rotated(&world, &world.store, |_| {}, &registry);
    let done = follow(&world, &world.store, &copy).unwrap();
    assert_eq!(done.seen.trust, 3);
}

#[test]
fn attack_a_second_note_of_one_version_does_not_cost_the_copy_its_snapshot() {
    let world = World::new();
    publish(&world, 0..2);
    let copy = Memory::default();
    follow(&world, &world.store, &copy).unwrap();
    let before = copy.files.borrow().clone();
    // A thief of the registry key.
    let honest = world.open().unwrap().latest().clone();
    let forged = capgate_registry::latest::Latest { size: honest.size + 1, ..honest };
    let text = note::compose(Kind::Latest, &origin(), &forged.to_toml()).unwrap();
    world.store.set("snapshot/latest.note", note::sign(&text, &[&world.registry]).unwrap());
    let done = follow(&world, &world.store, &copy);
    assert!(matches!(done, Err(SyncError::Source(Doubt::Rollback(_)))), "{done:?}");
    assert_eq!(*copy.files.borrow(), before);
}

#[test]
fn what_was_seen_of_the_clock_never_goes_back() {
    let world = World::new();
    publish(&world, 0..1);
    let newest = world.now + jiff::SignedDuration::from_hours(24);
    let seen = Seen { time: Some(newest), ..Seen::default() };
    let anchor = Anchor { seen, now: newest, ..world.anchor() };
    let done = follow_at(&world, &world.store, &Memory::default(), &anchor).unwrap();
    assert!(done.latest.issued < newest);
    assert_eq!(done.seen.time, Some(newest));
}

#[test]
fn what_a_compromised_key_signed_is_fetched_and_does_not_count() {
    let world = World::new();
    publish(&world, 0..2);
    let registry = SigningKey::parse(&world.registry.encode().unwrap()).unwrap();
    let stolen = world.publisher.verifier().clone();
    let other = key("new.test", 22);
    let change = |trust: &mut Trust| {
        trust.publisher = Role { threshold: 1, keys: vec![other.verifier().clone()] };
        trust.compromised = vec![Compromised { key: stolen, from: 1 }];
    };
    rotated(&world, &world.store, change, &registry);
    let copy = Memory::default();
    follow(&world, &world.store, &copy).unwrap();
    assert_eq!(world.verify_store(&copy).faults, []);
    let reader = Reader::open(&copy, &world.anchor()).unwrap();
    assert!(reader.lookup(&first_key(&profile("profile-0", 0))).unwrap().is_some());
    assert!(reader.lookup(&first_key(&profile("profile-1", 1))).unwrap().is_none());
}

#[test]
fn a_damaged_copy_is_made_anew() {
    let world = World::new();
    publish(&world, 0..300);
    let copy = Memory::default();
    follow(&world, &world.store, &copy).unwrap();
    let whole = copy.files.borrow().clone();
    for path in whole.keys().filter(|path| !path.starts_with("trust/") && *path != "snapshot/latest.note") {
        let damaged = copy.copy();
        damaged.files.borrow_mut().remove(path);
        let done = follow(&world, &world.store, &damaged).unwrap();
        assert!(done.changed, "{path}");
        is_sound(&world, &damaged);
    }
    // Within a tile, where no peak of the tree is.
    let damaged = copy.copy();
    let mut tile = damaged.get("log/tile/0/000");
    tile[700] ^= 1;
    damaged.set("log/tile/0/000", tile);
    assert!(world.verify_store(&damaged).faults.len() == 1);
    let renewed = world.store.copy();
    world.publish_to(&renewed, &[], true).unwrap();
    let done = follow(&world, &renewed, &damaged).unwrap();
    assert!(done.repaired, "{done:?}");
    is_sound(&world, &damaged);
    let bundle = "log/tile/entries/000";
    let mut bytes = copy.get(bundle);
    bytes[700] ^= 1;
    copy.set(bundle, bytes);
    publish(&world, 300..301);
    let done = follow(&world, &world.store, &copy).unwrap();
    assert!(done.repaired && done.fetched == 301, "{done:?}");
    is_sound(&world, &copy);
}

/// A source whose maintainer publishes just as it is read.
struct Moving<'w> {
    world: &'w World,
    publications: RefCell<u64>,
}

impl Store for Moving<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let read = self.world.store.read(path, cap);
        let mut left = self.publications.borrow_mut();
        if path == "snapshot/latest.note" && *left > 0 {
            *left -= 1;
            let n = 1_000 + *left;
            self.world.publish(&[self.world.sign(&profile(&format!("late-{n}"), n))]).unwrap();
        }
        read
    }
    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.world.store.open(path)
    }
    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.world.store.list()
    }
}

#[test]
fn a_source_that_moves_while_it_is_read_is_read_again() {
    let world = World::new();
    publish(&world, 0..3);
    let copy = Memory::default();
    let source = Moving { world: &world, publications: RefCell::new(3) };
    let done = follow(&world, &source, &copy).unwrap();
    assert_eq!(done.latest.log_size, 6);
    is_sound(&world, &copy);
    let restless = Moving { world: &world, publications: RefCell::new(100) };
    let fresh = Memory::default();
    let given_up = follow(&world, &restless, &fresh);
    assert!(matches!(given_up, Err(SyncError::Moving(_))), "{given_up:?}");
    assert!(!fresh.files.borrow().contains_key("snapshot/latest.note"));
}
