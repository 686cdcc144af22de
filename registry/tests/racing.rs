//! Publishers and readers that meet where there is no lock, as in an object store: whatever one does between two steps of the
//! other, the registry stays whole and nobody puts anything back.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::cell::RefCell;
use std::num::NonZero;

use capgate_registry::keys::SigningKey;
use capgate_registry::latest;
use capgate_registry::log::CHECKPOINT;
use capgate_registry::note::{self, Kind};
use capgate_registry::publish::{self, LIFE, Publication, PublishError, RotateError, Terms};
use capgate_registry::reader::{read_chain, read_latest};
use capgate_registry::store::{Fill, Listed, ReadAt, Store, StoreError, StoreMut};
use capgate_registry::sync::{SyncError, Synced, sync};
use capgate_registry::trust::{Role, Trust};
use support::{Memory, World, key, origin, profile};

/// What somebody else does, once.
type Deed<'a> = Box<dyn FnOnce() + 'a>;

/// A store in which somebody else does something just before the operation of that name meets the file.
struct Shared<'a> {
    store: &'a Memory,
    before: (&'static str, String),
    /// Entries of the log that is committed by then.
    log_size: u64,
    deed: RefCell<Option<Deed<'a>>>,
}

impl<'a> Shared<'a> {
    fn new(
        store: &'a Memory,
        (operation, path): (&'static str, &str),
        log_size: u64,
        deed: impl FnOnce() + 'a,
    ) -> Self {
        let deed: Deed<'a> = Box::new(deed);
        Self { store, before: (operation, path.to_owned()), log_size, deed: RefCell::new(Some(deed)) }
    }

    fn at(&self, operation: &str, path: &str) {
        let latest = String::from_utf8(self.store.get(latest::PATH)).unwrap();
        let is_committed = latest.contains(&format!("\nlog_size = {}\n", self.log_size));
        if is_committed && self.before.0 == operation && path.starts_with(&self.before.1) {
            let deed = self.deed.borrow_mut().take();
            deed.into_iter().for_each(|deed| deed());
        }
    }

    fn is_done(&self) -> bool {
        self.deed.borrow().is_none()
    }
}

impl Store for Shared<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        self.at("read", path);
        self.store.read(path, cap)
    }
    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.store.open(path)
    }
    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.at("list", "");
        self.store.list()
    }
}

impl StoreMut for Shared<'_> {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        self.store.write(fill)
    }
    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        self.at("swap", path);
        self.store.swap(path, expected, new)
    }
    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.at("remove", path);
        self.store.remove(path)
    }
}

fn publish_on(
    world: &World,
    store: &dyn StoreMut,
    id: &str,
    digest: u64,
) -> Result<Publication, PublishError> {
    let keys = [SigningKey::parse(&world.registry.encode().unwrap()).unwrap()];
    let threads = NonZero::<usize>::MIN;
    let terms = Terms { keys: &keys, now: world.now, life: LIFE, renew: false, threads };
    publish::publish(store, &world.pin, &[world.sign(&profile(id, digest))], &terms, &mut |_| {})
}

fn follow(world: &World, source: &dyn Store, to: &Memory) -> Result<Synced, SyncError> {
    sync(source, to, &world.anchor(), NonZero::<usize>::MIN, &mut |_, _| {})
}

#[track_caller]
fn is_whole(world: &World, ids: &[&str]) {
    let report = world.verify();
    assert_eq!((report.faults, report.entries), (vec![], ids.len() as u64));
    for (digest, id) in (0..).zip(ids) {
        assert_eq!(world.live(&profile(id, digest)), [*id]);
    }
}

#[test]
fn a_slow_publisher_puts_no_older_checkpoint_back() {
    // Others publish on top at each moment between the commit of the slow one and its end.
    for (operation, path) in [
        ("swap", CHECKPOINT),
        ("read", "log/staged/"),
        ("read", CHECKPOINT),
        ("list", ""),
        ("remove", "log/staged/"),
    ] {
        let world = World::new();
        publish_on(&world, &world.store, "profile-0", 0).unwrap();
        let others = || {
            publish_on(&world, &world.store, "profile-2", 2).unwrap();
            publish_on(&world, &world.store, "profile-3", 3).unwrap();
        };
        let slow = Shared::new(&world.store, (operation, path), 2, others);
        publish_on(&world, &slow, "profile-1", 1).unwrap();
        assert!(slow.is_done(), "{operation} {path}");
        is_whole(&world, &["profile-0", "profile-1", "profile-2", "profile-3"]);
        publish_on(&world, &world.store, "profile-4", 4).unwrap();
        is_whole(&world, &["profile-0", "profile-1", "profile-2", "profile-3", "profile-4"]);
    }
}

#[test]
fn of_two_at_once_one_wins_and_the_other_is_told() {
    let world = World::new();
    publish_on(&world, &world.store, "profile-0", 0).unwrap();
    let other = || drop(publish_on(&world, &world.store, "profile-1", 1).unwrap());
    let slow = Shared::new(&world.store, ("swap", latest::PATH), 1, other);
    let lost = publish_on(&world, &slow, "profile-2", 2);
    assert!(
        matches!(&lost, Err(PublishError::Store(StoreError::Conflict { path })) if path == latest::PATH),
        "{lost:?}"
    );
    is_whole(&world, &["profile-0", "profile-1"]);
    publish_on(&world, &world.store, "profile-2", 2).unwrap();
    is_whole(&world, &["profile-0", "profile-1", "profile-2"]);
}

/// Publishes `profile-1` and stops once it is committed; returns the name of what is staged.
fn stop_behind_the_commit(world: &World) -> String {
    for stop in 0.. {
        let store = world.store.copy();
        store.fail_at.set(Some(stop));
        let stopped = publish_on(world, &store, "profile-1", 1);
        if world.store.get(latest::PATH) != store.get(latest::PATH) {
            stopped.unwrap_err();
            *world.store.files.borrow_mut() = store.files.into_inner();
            break;
        }
    }
    let files = world.store.files.borrow();
    files.keys().find(|path| path.starts_with("log/staged/")).unwrap().clone()
}

/// A publication is complete but for taking away what it had staged, when the reader meets its checkpoint.
#[test]
fn a_source_that_moves_while_it_is_read_is_read_again_and_not_blamed() {
    let world = World::new();
    publish_on(&world, &world.store, "profile-0", 0).unwrap();
    let copy = Memory::default();
    follow(&world, &world.store, &copy).unwrap();
    let staged = stop_behind_the_commit(&world);
    let moved = || {
        let kept = world.store.get(&staged);
        publish_on(&world, &world.store, "profile-2", 2).unwrap();
        world.store.set(&staged, kept);
    };
    let source = Shared::new(&world.store, ("read", CHECKPOINT), 2, moved);
    let done = follow(&world, &source, &copy).unwrap();
    assert_eq!((source.is_done(), done.latest.log_size), (true, 3));
    assert_eq!(world.verify_store(&copy).faults, []);
    // Where nothing moves, the same files are damage and are called that.
    world.store.set(CHECKPOINT, b"damaged\n".to_vec());
    publish_on(&world, &world.store, "profile-3", 3).unwrap_err();
    let damaged = follow(&world, &world.store, &Memory::default());
    assert!(matches!(damaged, Err(SyncError::Damaged(_))), "{damaged:?}");
}

/// A rotation to version `version` from log index 1 on, under which these publish.
fn rotation(world: &World, version: u64, publishers: &[&SigningKey]) -> Vec<u8> {
    let now = read_chain(&world.store, &world.pin, None).unwrap().current().clone();
    let keys = publishers.iter().map(|key| key.verifier().clone()).collect();
    let next = Trust { version, log_index: 1, publisher: Role { threshold: 1, keys }, ..now };
    let text = note::compose(Kind::Trust, &origin(), &next.to_toml()).unwrap();
    note::sign(&text, &[&key("root.test", 1)]).unwrap()
}

fn rotate(world: &World, store: &dyn StoreMut, note: &[u8]) -> Result<Publication, RotateError> {
    let key = SigningKey::parse(&world.registry.encode().unwrap()).unwrap();
    rotate_with(world, store, note, key)
}

fn rotate_with(
    world: &World,
    store: &dyn StoreMut,
    note: &[u8],
    key: SigningKey,
) -> Result<Publication, RotateError> {
    let terms =
        Terms { keys: &[key], now: world.now, life: LIFE, renew: false, threads: NonZero::<usize>::MIN };
    publish::rotate(store, &world.pin, note, &terms, &mut |_| {})
}

/// Puts back, in the place of the version that waits, who signed what came meanwhile.
fn assert_recovered(world: &World, new: &SigningKey) {
    rotate(world, &world.store, &rotation(world, 3, &[&world.publisher, new])).unwrap();
    assert_eq!(world.verify().faults, []);
    assert_eq!(
        read_latest(&world.store, &read_chain(&world.store, &world.pin, None).unwrap()).unwrap().trust,
        3
    );
}

#[test]
fn attack_a_revocation_that_meets_a_rotation_is_not_undone_by_it() {
    let world = World::new();
    publish_on(&world, &world.store, "profile-0", 0).unwrap();
    let new = key("new.test", 22);
    let note = rotation(&world, 2, &[&new]);
    // All was checked, and the file is about to be made: somebody whom it takes out revokes.
    let deed = || drop(world.publish(&[world.revocation("profile-0", "harmful")]).unwrap());
    let slow = Shared::new(&world.store, ("swap", "trust/2.note"), 1, deed);
    let refused = rotate(&world, &slow, &note).unwrap_err();
    assert!(slow.is_done());
    let RotateError::Publish(PublishError::Disowned { first: 1, version: 2, .. }) = refused else {
        panic!("{refused}")
    };
    // Nobody else puts it in force either, and what is in force says that it is revoked.
    let refused = publish_on(&world, &world.store, "profile-1", 1).unwrap_err();
    assert!(matches!(refused, PublishError::Disowned { .. }), "{refused}");
    assert!(world.live(&profile("profile-0", 0)).is_empty());
    assert_recovered(&world, &new);
    assert!(world.live(&profile("profile-0", 0)).is_empty());
}

#[test]
fn attack_a_publisher_that_had_read_the_trust_before_a_rotation_is_told_so() {
    let world = World::new();
    publish_on(&world, &world.store, "profile-0", 0).unwrap();
    let new = key("new.test", 22);
    let note = rotation(&world, 2, &[&new]);
    // A rotation makes its file while the publication is at work.
    let deed = || world.store.set("trust/2.note", note.clone());
    let slow = Shared::new(&world.store, ("read", CHECKPOINT), 1, deed);
    let refused = publish_on(&world, &slow, "profile-1", 1).unwrap_err();
    assert!(slow.is_done());
    assert!(
        matches!(&refused, PublishError::Store(StoreError::Conflict { path }) if path == "trust/2.note"),
        "{refused}"
    );
    rotate(&world, &world.store, &note).unwrap();
    assert_eq!(world.verify().faults, []);
}

#[test]
fn attack_a_publication_just_behind_a_rotations_file_is_held_against_it() {
    let world = World::new();
    publish_on(&world, &world.store, "profile-0", 0).unwrap();
    let new = key("new.test", 22);
    let note = rotation(&world, 2, &[&new]);
    let deed = || world.store.set("trust/2.note", note.clone());
    let slow = Shared::new(&world.store, ("swap", latest::PATH), 1, deed);
    publish_on(&world, &slow, "profile-1", 1).unwrap();
    let refused = rotate(&world, &world.store, &note).unwrap_err();
    assert!(matches!(refused, RotateError::Publish(PublishError::Disowned { first: 1, .. })), "{refused}");
    assert_recovered(&world, &new);
    assert_eq!(world.live(&profile("profile-1", 1)), ["profile-1"]);
}

#[test]
fn a_checkpoint_that_a_rotation_staged_and_somebody_slow_took_away_is_signed_again() {
    let world = World::new();
    publish_on(&world, &world.store, "profile-0", 0).unwrap();
    let new = key(support::ORIGIN, 33);
    let now = read_chain(&world.store, &world.pin, None).unwrap().current().clone();
    let registry = Role { threshold: 1, keys: vec![new.verifier().clone()] };
    let next = Trust { version: 2, log_index: 1, registry, ..now };
    let text = note::compose(Kind::Trust, &origin(), &next.to_toml()).unwrap();
    let note = note::sign(&text, &[&key("root.test", 1)]).unwrap();
    // Who had published profile-0 comes to its last step: what is staged under this size goes.
    let deed = || world.store.files.borrow_mut().retain(|path, _| !path.starts_with("log/staged/"));
    let slow = Shared::new(&world.store, ("swap", latest::PATH), 1, deed);
    rotate_with(&world, &slow, &note, new).unwrap();
    assert!(slow.is_done());
    let chain = read_chain(&world.store, &world.pin, None).unwrap();
    assert_eq!(chain.current().version, 2);
    publish::verified_checkpoint(&world.store.get(CHECKPOINT), &chain).unwrap();
    assert_eq!(world.verify().faults, []);
}
