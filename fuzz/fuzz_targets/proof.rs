//! A proof with changed bytes answers as its registry does, or not at all. Any bytes are refused or written again alike.
#![no_main]

#[path = "../../registry/tests/support/mod.rs"]
mod support;

use std::cell::OnceCell;

use capgate_registry::combination::Key;
use capgate_registry::proof::Proof;
use capgate_registry::reader::Reader;
use capgate_registry::record::{Lookup, Record};
use libfuzzer_sys::fuzz_target;
use support::{World, first_key, profile};

/// Profiles in the registry; the keys that are asked for are those of the first ones, and one that is absent.
const PROFILES: u64 = 20;

struct Honest {
    world: World,
    proof: Vec<u8>,
    keys: Vec<Key>,
    answers: Vec<Option<Record>>,
}

thread_local! {
    static HONEST: OnceCell<Honest> = const { OnceCell::new() };
}

fn honest() -> Honest {
    let world = World::new();
    let notes: Vec<_> = (0..PROFILES).map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect();
    world.publish(&notes).unwrap();
    let keys: Vec<Key> = [0, 1, 2, 9_999].map(|n| first_key(&profile("any-any", n))).to_vec();
    let reader = world.open().unwrap();
    let answers: Vec<_> = keys.iter().map(|key| reader.lookup(key).unwrap()).collect();
    assert!(answers[0].is_some() && answers[3].is_none());
    let proof = Proof::collect(&world.store, &world.anchor(), &[keys[0], keys[3]]).unwrap().encode();
    Honest { world, proof, keys, answers }
}

fn check(bytes: &[u8], honest: &Honest) {
    let Ok(proof) = Proof::parse(bytes) else { return };
    assert_eq!(proof.encode(), bytes, "a proof has one spelling");
    let Ok(reader) = Reader::open(&proof, &honest.world.anchor()) else { return };
    for (key, answer) in honest.keys.iter().zip(&honest.answers) {
        if let Ok(found) = reader.lookup(key) {
            assert!(found == *answer, "a changed proof changed what a lookup says");
        }
    }
}

fuzz_target!(|input: (Vec<(u16, u8, u8, &[u8])>, &[u8])| {
    let (changes, raw) = input;
    HONEST.with(|cell| {
        let honest = cell.get_or_init(honest);
        let mut bytes = honest.proof.clone();
        for (at, how, count, new) in changes {
            let at = usize::from(at) % (bytes.len() + 1);
            let end = (at + usize::from(count)).min(bytes.len());
            match how % 3 {
                0 => drop(bytes.splice(at..end, new.iter().copied())),
                1 => bytes.truncate(at),
                // What stands in one place may be put in another.
                _ => bytes.extend_from_within(at..end),
            }
        }
        check(&bytes, honest);
        check(raw, honest);
    });
});
