//! Whoever holds a registry key can sign the last version that there is. Taking the key out begins anew.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::num::NonZero;

use capgate_registry::keys::SigningKey;
use capgate_registry::latest::{self, LAST_VERSION, Latest};
use capgate_registry::note::{self, Kind};
use capgate_registry::publish::{self, LIFE, PublishError, Terms};
use capgate_registry::reader::{Anchor, Reader, Seen, read_chain, version_floor};
use capgate_registry::record::Doubt;
use capgate_registry::sync::{SyncError, Synced, sync};
use capgate_registry::trust::{Role, Trust};
use support::{Memory, ORIGIN, World, key, origin, profile};

fn latest_of(world: &World) -> Latest {
    world.open().unwrap().latest().clone()
}

/// Signs what is in force again, as another version.
fn sign_as(world: &World, store: &Memory, version: u64) {
    let before = latest_of(world);
    let forged = Latest { version, ..before.clone() };
    store.set(&forged.snapshot_path(), store.get(&before.snapshot_path()));
    let text = note::compose(Kind::Latest, &origin(), &forged.to_toml()).unwrap();
    store.set(latest::PATH, note::sign(&text, &[&world.registry]).unwrap());
}

/// Registry keys change; what is published next is signed by `signer`.
fn rotate(world: &mut World, keys: &[&SigningKey], signer: SigningKey) {
    let now = read_chain(&world.store, &world.pin, None).unwrap().current().clone();
    let registry = Role { threshold: 1, keys: keys.iter().map(|key| key.verifier().clone()).collect() };
    let next = Trust { version: now.version + 1, log_index: latest_of(world).log_size, registry, ..now };
    let text = note::compose(Kind::Trust, &origin(), &next.to_toml()).unwrap();
    let bytes = note::sign(&text, &[&key("root.test", 1)]).unwrap();
    world.registry = signer;
    let keys = [SigningKey::parse(&world.registry.encode().unwrap()).unwrap()];
    let terms =
        Terms { keys: &keys, now: world.now, life: LIFE, renew: false, threads: NonZero::<usize>::MIN };
    publish::rotate(&world.store, &world.pin, &bytes, &terms, &mut |_| {}).unwrap();
}

fn follow(world: &World, from: &Memory, to: &Memory, seen: Seen) -> Result<Synced, SyncError> {
    let anchor = Anchor { seen, ..world.anchor() };
    sync(from, to, &anchor, NonZero::<usize>::MIN, &mut |_, _| {})
}

#[test]
fn attack_the_last_version_is_named_and_the_next_registry_key_begins_anew() {
    let mut world = World::new();
    world.publish(&[world.sign(&profile("first-one", 1))]).unwrap();
    let honest = world.store.copy();
    sign_as(&world, &world.store, LAST_VERSION);
    let signed = world.store.get(latest::PATH);
    let stuck = world.publish(&[world.sign(&profile("second-one", 2))]);
    assert!(matches!(stuck, Err(PublishError::LastVersion(LAST_VERSION))), "{stuck:?}");
    assert!(world.store.get(latest::PATH) == signed, "nothing is signed that no reader can parse");
    // What somebody else is about to commit behind it stays.
    world.store.set("snapshot/1-x.snap", vec![]);
    world.publish(&[]).unwrap();
    assert_eq!(world.store.get("snapshot/1-x.snap"), [0; 0]);
    world.store.files.borrow_mut().remove("snapshot/1-x.snap");
    let copy = Memory::default();
    let thief = world.store.copy();
    let seen = follow(&world, &thief, &copy, Seen::default()).unwrap().seen;
    assert_eq!(seen.version, LAST_VERSION);
    // What is older is a rollback for as long as the thief's key is trusted.
    let back = follow(&world, &honest, &copy, seen);
    assert!(matches!(back, Err(SyncError::Source(Doubt::Rollback(_)))), "{back:?}");

    let new = key(ORIGIN, 33);
    rotate(&mut world, &[&new], key(ORIGIN, 33));
    assert_eq!(latest_of(&world).version, 1);
    assert_eq!(world.verify().faults, []);
    let is_left = |start: &str| world.store.files.borrow().keys().any(|path| path.starts_with(start));
    assert!(!is_left(&format!("snapshot/{LAST_VERSION}-")), "nobody reads it any more");
    world.publish(&[world.sign(&profile("second-one", 2))]).unwrap();
    assert_eq!(latest_of(&world).version, 2);
    assert_eq!(world.verify().faults, []);
    // Whoever followed the thief goes on, by what was seen or by what is there, and never goes back to the thief.
    let reader = Reader::open(&world.store, &Anchor { seen, ..world.anchor() }).unwrap();
    assert_eq!(version_floor(&seen, reader.chain(), reader.latest()), 0);
    for (to, seen) in [(copy.copy(), Seen::default()), (Memory::default(), seen), (copy.copy(), seen)] {
        let now = follow(&world, &world.store, &to, seen).unwrap().seen;
        assert_eq!((now.version, now.trust), (2, 2));
        assert_eq!(world.verify_store(&to).faults, []);
        let back = follow(&world, &thief, &to, now);
        assert!(matches!(back, Err(SyncError::Source(Doubt::Rollback(_)))), "{back:?}");
        // Nor does a copy that was restored from the thief's time raise the floor.
        let now = follow(&world, &world.store, &copy.copy(), now).unwrap().seen;
        assert_eq!(now.version, 2);
    }
    // What was seen before the thief does as well.
    let back = Reader::open(&thief, &Anchor { seen: Seen { trust: 2, ..Seen::default() }, ..world.anchor() });
    assert!(matches!(back, Err(Doubt::Rollback(_))), "{back:?}");
}

#[test]
fn attack_versions_count_on_where_no_registry_key_is_taken_out() {
    let mut world = World::new();
    world.publish(&[world.sign(&profile("first-one", 1))]).unwrap();
    let seen = Seen { version: 9, trust: 1, ..Seen::default() };
    let more = key(ORIGIN, 33);
    let first = SigningKey::parse(&world.registry.encode().unwrap()).unwrap();
    rotate(&mut world, &[&first, &more], key(ORIGIN, 33));
    let opened = Reader::open(&world.store, &Anchor { seen, ..world.anchor() });
    assert!(matches!(opened, Err(Doubt::Rollback(_))), "{opened:?}");
    // Nor where whoever remembers does not know under which trust it was.
    rotate(&mut world, &[&more], key(ORIGIN, 33));
    let opened = Reader::open(&world.store, &Anchor { seen: Seen { trust: 0, ..seen }, ..world.anchor() });
    assert!(matches!(opened, Err(Doubt::Rollback(_))), "{opened:?}");
    Reader::open(&world.store, &Anchor { seen, ..world.anchor() }).unwrap();
    // The log never goes back, whoever signs.
    let longer = Seen { log_size: 2, ..seen };
    let opened = Reader::open(&world.store, &Anchor { seen: longer, ..world.anchor() });
    assert!(matches!(opened, Err(Doubt::Rollback(_))), "{opened:?}");
    // A plausible version is not begun anew.
    assert_eq!(latest_of(&world).version, 4);
}
