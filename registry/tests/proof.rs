//! A proof answers what its registry answers, or less.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking"
)]

mod support;

use capgate_registry::combination::Key;
use capgate_registry::profile::Profile;
use capgate_registry::proof::Proof;
use capgate_registry::reader::{Anchor, Reader, Seen};
use capgate_registry::record::{Doubt, Lookup};
use support::{World, first_key, profile, time};

fn world(count: u64) -> World {
    let world = World::new();
    let notes: Vec<Vec<u8>> = (0..count).map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect();
    world.publish(&notes).unwrap();
    world
}

fn key(n: u64) -> Key {
    first_key(&profile("any-any", n))
}

#[test]
fn what_is_there_and_what_is_not_is_proven_at_every_awkward_size() {
    for count in [1, 2, 3, 255, 256, 257, 400] {
        let world = world(count);
        let (here, absent) = (key(count / 2), key(9_999));
        let made = Proof::collect(&world.store, &world.anchor(), &[here, absent]).unwrap();
        let bytes = made.encode();
        let proof = Proof::parse(&bytes).unwrap();
        assert_eq!(proof, made);
        let reader = Reader::open(&proof, &world.anchor()).unwrap();
        let whole = world.open().unwrap();
        assert_eq!(reader.view(), whole.view());
        assert_eq!(reader.lookup(&here).unwrap(), whole.lookup(&here).unwrap());
        assert!(reader.lookup(&here).unwrap().is_some() && reader.lookup(&absent).unwrap().is_none());
        // What it is not about it does not answer, neither yes nor no.
        if count > 250 {
            let other = (0..count).map(key).find(|k| *k != here && reader.lookup(k).is_err());
            let doubt = reader.lookup(&other.unwrap()).unwrap_err();
            assert!(
                matches!(&doubt, Doubt::Unreadable(what) if what.contains("the proof is not about that")),
                "{doubt}"
            );
            let snapshot = world.store.get(&whole.latest().snapshot_path()).len();
            assert!(bytes.len() * 5 < snapshot, "{} of {snapshot} bytes", bytes.len());
        }
    }
}

#[test]
fn the_rules_of_time_are_those_of_a_registry() {
    let world = world(3);
    let bytes = Proof::collect(&world.store, &world.anchor(), &[key(1)]).unwrap().encode();
    let proof = Proof::parse(&bytes).unwrap();
    let anchor = world.anchor();
    let code = |anchor: Anchor| Reader::open(&proof, &anchor).map(drop).map_err(|doubt| doubt.code());
    assert_eq!(code(anchor), Ok(()));
    assert_eq!(code(Anchor { now: time("2027-01-15T00:00:00Z"), ..anchor }), Err("registry-expired"));
    assert_eq!(code(Anchor { now: time("2026-11-15T00:00:00Z"), ..anchor }), Err("clock-behind"));
    let seen = Seen { version: 3, ..Seen::default() };
    assert_eq!(code(Anchor { seen, ..anchor }), Err("registry-rollback"));
    let pin = capgate_registry::merkle::Hash::of(b"another");
    assert_eq!(code(Anchor { pin, ..anchor }), Err("registry-wrong-key"));
}

#[test]
fn no_changed_byte_of_a_proof_answers_otherwise() {
    let world = world(5);
    let wanted = Profile::parse(profile("profile-1", 1).as_bytes()).unwrap();
    let bytes = Proof::collect(&world.store, &world.anchor(), &[key(1), key(77)]).unwrap().encode();
    let (mut malformed, mut refused, mut same) = (0, 0, 0);
    for at in 0..bytes.len() {
        for bit in [1, 0x80] {
            let mut changed = bytes.clone();
            changed[at] ^= bit;
            let Ok(proof) = Proof::parse(&changed) else {
                malformed += 1;
                continue;
            };
            let asked = Reader::open(&proof, &world.anchor())
                .and_then(|reader| Ok((reader.lookup(&key(1))?, reader.lookup(&key(77))?)));
            match asked {
                Err(_) => refused += 1,
                Ok((found, absent)) => {
                    let published = &found.unwrap().published;
                    assert_eq!((published.len(), &published[0].profile), (1, &wanted), "byte {at}");
                    assert!(absent.is_none(), "byte {at}");
                    same += 1;
                }
            }
        }
    }
    for length in 0..bytes.len() {
        assert!(
            Proof::parse(&bytes[..length]).map_or(true, |p| Reader::open(&p, &world.anchor()).is_err()),
            "{length}"
        );
    }
    assert!(malformed > 100 && refused > 4_000 && same < 600, "{malformed} {refused} {same}");
}

#[test]
fn a_revoked_profile_is_proven_with_its_revocation() {
    let world = world(2);
    world.publish(&[world.revocation("profile-1", "harmful")]).unwrap();
    let proof = Proof::collect(&world.store, &world.anchor(), &[key(1)]).unwrap();
    let record = Reader::open(&proof, &world.anchor()).unwrap().lookup(&key(1)).unwrap().unwrap();
    assert!(record.published[0].revoked.is_some());
}
