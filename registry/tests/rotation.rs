//! Rotation: the next version of the trust takes force with one `latest.note`, and keys in foreign hands count no longer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

mod support;

use capgate_registry::keys::SigningKey;
use capgate_registry::log::CHECKPOINT;
use capgate_registry::note::{self, Kind};
use capgate_registry::profile::{Profile, Severity};
use capgate_registry::publish::{self, LIFE, PublishError, RotateError, Terms};
use capgate_registry::reader::{Anchor, Reader, Seen, read_chain};
use capgate_registry::record::{Doubt, Lookup};
use capgate_registry::snapshot::CatalogueError;
use capgate_registry::store::StoreError;
use capgate_registry::trust::{Chain, Compromised, Role, Trust, TrustError};
use support::{Memory, ORIGIN, World, first_key, key, origin, profile, profile_with, start, time};

fn role(threshold: usize, keys: &[&SigningKey]) -> Role {
    Role { threshold, keys: keys.iter().map(|key| key.verifier().clone()).collect() }
}

fn root() -> SigningKey {
    key("root.test", 1)
}

fn chain(world: &World) -> Chain {
    read_chain(&world.store, &world.pin, None).unwrap()
}

/// The next version as a maintainer drafts it now, before it is changed.
fn draft(world: &World) -> Trust {
    let now = chain(world).current().clone();
    let log_index = world.open().unwrap().latest().log_size;
    Trust { version: now.version + 1, log_index, ..now }
}

fn signed(trust: &Trust, keys: &[&SigningKey]) -> Vec<u8> {
    note::sign(&note::compose(Kind::Trust, &origin(), &trust.to_toml()).unwrap(), keys).unwrap()
}

fn rotate(world: &World, store: &Memory, bytes: &[u8], registry: &SigningKey) -> Result<(), RotateError> {
    let keys = [SigningKey::parse(&registry.encode().unwrap()).unwrap()];
    let threads = std::num::NonZero::<usize>::MIN;
    let terms = Terms { keys: &keys, now: world.now, life: LIFE, renew: false, threads };
    publish::rotate(store, &world.pin, bytes, &terms, &mut |_| {}).map(drop)
}

fn compromised(key: &SigningKey, from: u64) -> Compromised {
    Compromised { key: key.verifier().clone(), from }
}

#[test]
fn every_role_is_rotated_and_what_is_in_force_stays_so() {
    let mut world = World::new();
    world.publish(&[world.sign(&profile("first-one", 1))]).unwrap();
    let (registry, publisher) = (key(ORIGIN, 33), key("new.test", 22));
    let (root_a, root_b) = (key("root-a.test", 41), key("root-b.test", 42));
    let next = Trust {
        registry: role(1, &[&registry]),
        publisher: role(1, &[&publisher]),
        root: role(2, &[&root_a, &root_b]),
        ..draft(&world)
    };
    rotate(&world, &world.store, &signed(&next, &[&root(), &root_a, &root_b]), &registry).unwrap();
    assert_eq!(world.open().unwrap().latest().trust, 2);
    assert_eq!(world.live(&profile("first-one", 1)), ["first-one"]);
    assert_eq!(world.verify().faults, []);
    let refused = world.publish(&[world.sign(&profile("second-one", 2))]);
    assert!(
        matches!(refused, Err(PublishError::Note { .. })),
        "the old registry key signs no more: {refused:?}"
    );
    world.registry = registry;
    let refused = world.publish(&[world.sign(&profile("second-one", 2))]);
    assert!(
        matches!(refused, Err(PublishError::Note { .. })),
        "the old publisher signs no more: {refused:?}"
    );
    world.publisher = publisher;
    world.publish(&[world.sign(&profile("second-one", 2))]).unwrap();
    assert_eq!(world.live(&profile("second-one", 2)), ["second-one"]);
    assert_eq!(world.verify().faults, []);
    // The third version needs the new root, and the old one has nothing to say.
    let third = Trust { expires: time("2029-12-01T00:00:00Z"), ..draft(&world) };
    let refused = rotate(&world, &world.store, &signed(&third, &[&root(), &root_a]), &world.registry);
    assert!(matches!(refused, Err(RotateError::Trust(TrustError::Signature { .. }))), "{refused:?}");
    rotate(&world, &world.store, &signed(&third, &[&root_b, &root_a]), &world.registry).unwrap();
    assert_eq!(world.verify().faults, []);
}

#[test]
fn a_stop_at_every_operation_of_a_rotation_leaves_the_old_or_the_new_one() {
    let world = World::new();
    world.publish(&[world.sign(&profile("first-one", 1))]).unwrap();
    let registry = key(ORIGIN, 33);
    let next = signed(&Trust { registry: role(1, &[&registry]), ..draft(&world) }, &[&root()]);
    let (mut old, mut new) = (0, 0);
    for stop in 0.. {
        let store = world.store.copy();
        store.fail_at.set(Some(stop));
        let stopped = rotate(&world, &store, &next, &registry).is_err();
        store.fail_at.set(None);
        let reader = Reader::open(&store, &world.anchor()).unwrap();
        assert_eq!(world.verify_store(&store).faults, [], "stopped at {stop}");
        assert!(reader.lookup(&first_key(&profile("first-one", 1))).unwrap().is_some());
        if reader.latest().trust == 1 {
            old += 1
        } else {
            new += 1
        }
        // Whoever comes next completes it: the same rotation again, or any publication with the new key.
        let again = store.copy();
        rotate(&world, &again, &next, &registry).unwrap();
        assert_eq!(Reader::open(&again, &world.anchor()).unwrap().latest().trust, 2);
        assert_eq!(world.verify_store(&again).faults, []);
        assert_eq!(world.verify_store(&again).notes, [""; 0]);
        if store.files.borrow().contains_key("trust/2.note") {
            let keys = [SigningKey::parse(&registry.encode().unwrap()).unwrap()];
            let threads = std::num::NonZero::<usize>::MIN;
            let terms = Terms { keys: &keys, now: world.now, life: LIFE, renew: true, threads };
            publish::publish(&store, &world.pin, &[], &terms, &mut |_| {}).unwrap();
            assert_eq!(Reader::open(&store, &world.anchor()).unwrap().latest().trust, 2);
        }
        if !stopped {
            break;
        }
    }
    assert!(old >= 2 && new >= 2, "{old} {new}");
}

#[test]
fn two_rotations_at_once_do_not_overwrite_each_other() {
    let world = World::new();
    let one = signed(&Trust { expires: time("2028-01-01T00:00:00Z"), ..draft(&world) }, &[&root()]);
    let two = signed(&Trust { expires: time("2029-01-01T00:00:00Z"), ..draft(&world) }, &[&root()]);
    world.store.set("trust/2.note", one.clone());
    let refused = rotate(&world, &world.store, &two, &world.registry);
    assert!(matches!(refused, Err(RotateError::Trust(TrustError::Version { .. }))), "{refused:?}");
    assert_eq!(world.store.get("trust/2.note"), one);
    // Made by somebody between the look and the write.
    let racing = World::new();
    let chain = chain(&racing);
    assert_eq!(chain.current().version, 1);
    let conflict = publish_swap(&racing.store, &one);
    assert!(matches!(conflict, Err(StoreError::Conflict { .. })), "{conflict:?}");
}

fn publish_swap(store: &Memory, bytes: &[u8]) -> Result<(), StoreError> {
    use capgate_registry::store::StoreMut;
    store.set("trust/2.note", b"another".to_vec());
    store.swap("trust/2.note", None, bytes)
}

#[test]
fn keys_that_cannot_sign_are_known_before_anything_is_written() {
    let world = World::new();
    let next = signed(&Trust { registry: role(1, &[&key(ORIGIN, 33)]), ..draft(&world) }, &[&root()]);
    let refused = rotate(&world, &world.store, &next, &world.registry);
    assert!(matches!(refused, Err(RotateError::Publish(PublishError::Note { .. }))), "{refused:?}");
    assert!(!world.store.files.borrow().contains_key("trust/2.note"));
}

#[test]
fn a_version_that_would_lose_entries_nobody_named_is_refused() {
    let world = World::new();
    world.publish(&[world.sign(&profile("first-one", 1))]).unwrap();
    let drafted = Trust { publisher: role(1, &[&key("new.test", 22)]), ..draft(&world) };
    // Published after the draft was made, by the key that it takes out.
    world.publish(&[world.sign(&profile("second-one", 2))]).unwrap();
    let refused = rotate(&world, &world.store, &signed(&drafted, &[&root()]), &world.registry);
    assert!(
        matches!(refused, Err(RotateError::Publish(PublishError::Disowned { first: 1, .. }))),
        "{refused:?}"
    );
    let anew = Trust { log_index: 2, ..drafted };
    rotate(&world, &world.store, &signed(&anew, &[&root()]), &world.registry).unwrap();
    assert_eq!(world.live(&profile("second-one", 2)), ["second-one"]);
    assert_eq!(world.verify().faults, []);
}

#[test]
fn a_compromised_key_counts_no_longer_from_the_index_that_is_named() {
    let mut world = World::new();
    let names = ["honest-one", "stolen-one", "stolen-two"];
    for (digest, name) in (1..).zip(names) {
        world.publish(&[world.sign(&profile(name, digest))]).unwrap();
    }
    let stolen = std::mem::replace(&mut world.publisher, key("new.test", 22));
    let next = Trust {
        publisher: role(1, &[&world.publisher]),
        compromised: vec![compromised(&stolen, 1)],
        ..draft(&world)
    };
    rotate(&world, &world.store, &signed(&next, &[&root()]), &world.registry).unwrap();
    assert_eq!(world.live(&profile("honest-one", 1)), ["honest-one"]);
    for (digest, name) in [(2, "stolen-one"), (3, "stolen-two")] {
        assert!(world.open().unwrap().lookup(&first_key(&profile(name, digest))).unwrap().is_none());
    }
    let report = world.verify();
    assert_eq!(report.faults, []);
    assert_eq!(report.notes.iter().filter(|note| note.contains("counts no longer")).count(), 2);
    // What the thief named can be published by those who may, in the same words or others.
    world.publish(&[world.sign(&profile("stolen-one", 2)), world.sign(&profile("stolen-two", 4))]).unwrap();
    assert_eq!(world.live(&profile("stolen-one", 2)), ["stolen-one"]);
    assert_eq!(world.live(&profile("stolen-two", 4)), ["stolen-two"]);
    assert_eq!(world.verify().faults, []);
}

#[test]
fn what_a_thief_superseded_is_back_and_what_was_revoked_is_not() {
    let mut world = World::new();
    world.publish(&[world.sign(&profile("honest-one", 1)), world.sign(&profile("honest-two", 2))]).unwrap();
    let first = world.store.get(CHECKPOINT);
    let evil = profile_with("evil-one", 1, "supersedes = \"honest-one\"");
    world.publish(&[world.sign(&evil), world.revocation("honest-two", "withdrawn")]).unwrap();
    assert_eq!(world.live(&profile("honest-two", 2)), [""; 0]);
    // In good faith somebody revokes the thief's profile before it is known whose it is.
    let honest = key("honest.test", 55);
    let stolen = std::mem::replace(&mut world.publisher, honest);
    let both = Trust { publisher: role(1, &[&stolen, &world.publisher]), ..draft(&world) };
    rotate(&world, &world.store, &signed(&both, &[&root()]), &world.registry).unwrap();
    world.publish(&[world.revocation("evil-one", "harmful")]).unwrap();
    let again = world.publish(&[world.revocation("honest-two", "harmful")]);
    assert!(matches!(again, Err(PublishError::Catalogue(CatalogueError::Gone(_)))), "{again:?}");
    let next = Trust {
        publisher: role(1, &[&world.publisher]),
        compromised: vec![compromised(&stolen, 2)],
        ..draft(&world)
    };
    rotate(&world, &world.store, &signed(&next, &[&root()]), &world.registry).unwrap();
    assert_eq!(world.live(&profile("honest-one", 1)), ["honest-one"]);
    // It is revoked already, whosever it was: nothing lets one revocation fill the log.
    let again = world.publish(&[world.revocation("evil-one", "harmful")]);
    assert!(matches!(again, Err(PublishError::Catalogue(CatalogueError::Gone(_)))), "{again:?}");
    // Nobody can tell whether its owner or the thief revoked it.
    let severity = |world: &World| {
        let record = world.open().unwrap().lookup(&first_key(&profile("honest-two", 2))).unwrap().unwrap();
        record.published[0].revoked.as_ref().unwrap().severity
    };
    assert_eq!(severity(&world), Severity::Withdrawn);
    let report = world.verify();
    assert_eq!(report.faults, []);
    let stands =
        |note: &&String| note.starts_with("entry 3 stands, since it revokes: `publisher.test` signed it");
    assert_eq!(report.notes.iter().filter(stands).count(), 1, "{:?}", report.notes);
    // Whoever counts may say it in their own words, once.
    world.publish(&[world.revocation("honest-two", "harmful")]).unwrap();
    assert_eq!(severity(&world), Severity::Harmful);
    let again = world.publish(&[world.revocation("honest-two", "withdrawn")]);
    assert!(matches!(again, Err(PublishError::Catalogue(CatalogueError::Gone(_)))), "{again:?}");
    assert_eq!(world.verify().faults, []);
    // Nor does an auditor who was there before find fault with what was said again.
    let begun = world.anchor().now;
    let audited = capgate_registry::verify::since(&world.store, &world.pin, &first, begun, &mut |_| {});
    assert_eq!((audited.faults, audited.entries), (vec![], 4));
}

#[test]
fn attack_a_key_that_is_named_from_the_first_index_on_brings_back_nothing_that_it_revoked() {
    let mut world = World::new();
    let honest = key("honest.test", 55);
    let both = Trust { publisher: role(1, &[&world.publisher, &honest]), ..draft(&world) };
    rotate(&world, &world.store, &signed(&both, &[&root()]), &world.registry).unwrap();
    let lost = std::mem::replace(&mut world.publisher, honest);
    world.publish(&[world.sign(&profile("harmful-one", 1))]).unwrap();
    let honest = std::mem::replace(&mut world.publisher, lost);
    world.publish(&[world.revocation("harmful-one", "harmful")]).unwrap();
    let lost = std::mem::replace(&mut world.publisher, honest);
    let next = Trust {
        publisher: role(1, &[&world.publisher]),
        compromised: vec![compromised(&lost, 0)],
        ..draft(&world)
    };
    rotate(&world, &world.store, &signed(&next, &[&root()]), &world.registry).unwrap();
    assert_eq!(world.live(&profile("harmful-one", 1)), [""; 0]);
    assert_eq!(world.verify().faults, []);
    // A copy that follows says so, too, and from now on the key revokes nothing.
    let copy = Memory::default();
    let threads = std::num::NonZero::<usize>::MIN;
    capgate_registry::sync::sync(&world.store, &copy, &world.anchor(), threads, &mut |_, _| {}).unwrap();
    assert_eq!(world.verify_store(&copy).faults, []);
    world.publish(&[world.sign(&profile("sound-one", 2))]).unwrap();
    world.publisher = lost;
    let refused = world.publish(&[world.revocation("sound-one", "harmful")]);
    assert!(matches!(refused, Err(PublishError::Note { .. })), "{refused:?}");
}

#[test]
fn attack_an_old_snapshot_does_not_bring_back_what_a_thief_signed() {
    // Before the rotation a reader grants what the thief published; a reader that saw the rotation refuses the old state.
    let mut world = World::new();
    world.publish(&[world.sign(&profile("stolen-one", 1))]).unwrap();
    let before = world.store.copy();
    let stolen = std::mem::replace(&mut world.publisher, key("new.test", 22));
    let next = Trust {
        publisher: role(1, &[&world.publisher]),
        compromised: vec![compromised(&stolen, 0)],
        ..draft(&world)
    };
    rotate(&world, &world.store, &signed(&next, &[&root()]), &world.registry).unwrap();
    let seen = world.open().unwrap().seen();
    assert!(Reader::open(&before, &world.anchor()).is_ok());
    let opened = Reader::open(&before, &Anchor { seen, ..world.anchor() });
    assert!(matches!(opened, Err(Doubt::Rollback(_))), "{opened:?}");
    let only_trust = Seen { trust: 2, ..Seen::default() };
    let opened = Reader::open(&before, &Anchor { seen: only_trust, ..world.anchor() });
    assert!(matches!(opened, Err(Doubt::Rollback(_))), "{opened:?}");
    // A record that was compiled before stands in no snapshot after; put there by the registry key, it is refused.
    let profile = Profile::parse(profile("stolen-one", 1).as_bytes()).unwrap();
    assert!(world.open().unwrap().lookup(&profile.keys()[0]).unwrap().is_none());
}

#[test]
fn a_version_that_ended_or_is_still_to_come_is_not_put_in_force() {
    let world = World::new();
    let ended = Trust { expires: world.now, ..draft(&world) };
    let ended = Trust { issued: time("2026-11-01T00:00:00Z"), ..ended };
    let to_come = Trust { issued: time("2026-12-02T00:00:00Z"), ..draft(&world) };
    for version in [ended, to_come] {
        let refused = rotate(&world, &world.store, &signed(&version, &[&root()]), &world.registry);
        assert!(matches!(refused, Err(RotateError::NotNow { version: 2, .. })), "{refused:?}");
        assert!(!world.store.files.borrow().contains_key("trust/2.note"));
    }
    // Put there all the same, `verify` says that no reader believes it.
    let to_come = Trust { issued: time("2026-12-02T00:00:00Z"), ..draft(&world) };
    world.store.set("trust/2.note", signed(&to_come, &[&root()]));
    world.publish_to(&world.store, &[], true).unwrap();
    let report = world.verify();
    assert!(report.is_ahead(world.now) && !report.is_ahead(time("2026-12-02T00:00:00Z")), "{report:?}");
    assert!(matches!(world.open(), Err(Doubt::ClockBehind(_))));
}

#[test]
fn what_was_compromised_stays_so_and_is_in_no_role() {
    let world = World::new();
    let stolen = key("stolen.test", 66);
    let next = Trust { compromised: vec![compromised(&stolen, 5)], ..draft(&world) };
    rotate(&world, &world.store, &signed(&next, &[&root()]), &world.registry).unwrap();
    let refused = |compromised: Vec<Compromised>| {
        let third = Trust { compromised, ..draft(&world) };
        rotate(&world, &world.store.copy(), &signed(&third, &[&root()]), &world.registry).is_err()
    };
    assert!(refused(Vec::new()), "forgotten");
    assert!(refused(vec![compromised(&stolen, 6)]), "from a later index");
    assert!(!refused(vec![compromised(&stolen, 4)]), "from an earlier one");
    assert!(refused(vec![compromised(&stolen, 5), compromised(&stolen, 5)]), "twice");
    assert!(refused(vec![compromised(&stolen, 5), compromised(&world.publisher, 5)]), "and a publisher");
    assert!(
        refused(vec![compromised(&stolen, 5), compromised(&key("other-name.test", 3), 5)]),
        "by another name"
    );
    assert_eq!(start(), world.now);
}
