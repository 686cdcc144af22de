//! Snapshots of every awkward size: each record is found and proven, and the proofs are RFC 6962's.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

mod support;

use std::collections::BTreeMap;
use std::io;

use capgate_registry::combination::{Hex, Key};
use capgate_registry::merkle::{Hash, MemoryTree, leaf_hash, prove_inclusion, verify_inclusion};
use capgate_registry::note::Note;
use capgate_registry::snapshot::{Catalogue, Entries, RawRecord, Snapshot, compile, recompile};
use capgate_registry::store::{Store, StoreMut};
use support::{Memory, World, profile};

struct Listed(Vec<Vec<u8>>);

impl Entries for Listed {
    fn entry(&self, index: u64) -> io::Result<Vec<u8>> {
        Ok(self.0[usize::try_from(index).unwrap()].clone())
    }
}

struct Built {
    store: Memory,
    size: u64,
    root: Hash,
    entries: BTreeMap<Key, Vec<u8>>,
}

fn build(count: u64, world: &World) -> Built {
    let entries: Vec<Vec<u8>> =
        (0..count).map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect();
    let chain = support::chain_with(&world.publisher);
    let mut catalogue = Catalogue::default();
    for (index, entry) in (0..).zip(&entries) {
        assert!(catalogue.add(index, entry, &chain).unwrap());
    }
    let listed = Listed(entries);
    let mut bytes = Vec::new();
    let compiled = compile(&catalogue, &listed, &mut bytes, &mut |_| {}).unwrap();
    let store = Memory::default();
    store.put("a.snap", &bytes).unwrap();
    let entries = (0..count).map(|n| (support::first_key(&profile("x-x", n)), listed.0[n as usize].clone()));
    Built { store, size: compiled.size, root: compiled.root, entries: entries.collect() }
}

fn open(built: &Built) -> Snapshot {
    Snapshot::open(built.store.open("a.snap").unwrap(), built.size, built.root).unwrap()
}

#[test]
fn every_record_is_found_proven_and_in_order_at_every_awkward_size() {
    let world = World::new();
    for count in [0, 1, 2, 3, 7, 255, 256, 257, 371, 372, 373, 745, 1_000] {
        let built = build(count, &world);
        let snapshot = open(&built);
        assert_eq!(snapshot.size(), count);
        for (key, note) in &built.entries {
            let record = RawRecord::decode(&snapshot.find(key).unwrap().unwrap()).unwrap();
            assert_eq!((record.key, &record.profiles[0].note), (*key, note));
        }
        let keys: Vec<Key> =
            (0..count).map(|p| RawRecord::decode(&snapshot.record(p).unwrap()).unwrap().key).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(keys, built.entries.keys().copied().collect::<Vec<_>>());
        for absent in [Hex([0; 32]), Hex([255; 32]), Hex([128; 32])] {
            assert_eq!(snapshot.find(&absent).unwrap(), None);
        }
    }
}

#[test]
fn the_tree_is_rfc_6962s_and_its_proofs_verify_independently() {
    let world = World::new();
    for count in [1, 6, 300, 513] {
        let built = build(count, &world);
        let snapshot = open(&built);
        let leaves: MemoryTree = (0..count).map(|p| leaf_hash(&snapshot.record(p).unwrap())).collect();
        assert_eq!(leaves.root(), built.root);
        for position in 0..count {
            let record = snapshot.record(position).unwrap();
            let proof = prove_inclusion(&snapshot, position, count).unwrap();
            verify_inclusion(&leaf_hash(&record), position, count, &built.root, &proof).unwrap();
        }
    }
}

#[test]
fn a_snapshot_written_again_from_its_own_records_is_the_same() {
    let built = build(400, &World::new());
    let mut again = Vec::new();
    let compiled = recompile(&open(&built), &mut again).unwrap();
    assert_eq!((compiled.size, compiled.root), (built.size, built.root));
    assert_eq!(again, built.store.get("a.snap"));
}

#[test]
fn a_wrong_size_or_root_does_not_open() {
    let built = build(10, &World::new());
    let try_open = |size, root| Snapshot::open(built.store.open("a.snap").unwrap(), size, root).is_ok();
    assert!(try_open(10, built.root));
    assert!(!try_open(9, built.root) && !try_open(11, built.root) && !try_open(u64::MAX, built.root));
    assert!(!try_open(10, Hash::of(b"another")));
}

#[test]
fn attack_index_that_points_to_another_record_is_refused() {
    let built = build(3, &World::new());
    let bytes = built.store.get("a.snap");
    let keys: Vec<Key> = built.entries.keys().copied().collect();
    let place = bytes.windows(32).rposition(|w| w == keys[0].0).unwrap();
    let other = bytes.windows(32).rposition(|w| w == keys[1].0).unwrap();
    let mut changed = bytes.clone();
    changed.copy_within(other + 32..other + 44, place + 32);
    built.store.put("a.snap", &changed).unwrap();
    assert!(open(&built).find(&keys[0]).is_err());
    // Swapping the keys instead finds a record that does not prove itself there.
    let mut swapped = bytes;
    swapped[place..place + 32].copy_from_slice(&keys[1].0);
    built.store.put("a.snap", &swapped).unwrap();
    assert!(
        !matches!(open(&built).find(&keys[1]), Ok(Some(r)) if RawRecord::decode(&r).unwrap().key != keys[1])
    );
}

#[test]
fn notes_in_records_are_the_exact_bytes_of_the_log() {
    let world = World::new();
    let note = world.sign(&profile("one-profile", 1));
    world.publish(std::slice::from_ref(&note)).unwrap();
    let reader = world.open().unwrap();
    let record = RawRecord::decode(&reader.snapshot().record(0).unwrap()).unwrap();
    assert_eq!(record.profiles[0].note, note);
    assert!(Note::parse(&record.profiles[0].note).is_ok());
}

#[test]
fn attack_index_that_hides_a_record_is_refused_not_absent() {
    for count in [1, 2, 3, 300] {
        let built = build(count, &World::new());
        let bytes = built.store.get("a.snap");
        for key in built.entries.keys() {
            let place = bytes.windows(32).rposition(|w| w == key.0).unwrap();
            let mut changed = bytes.clone();
            changed[place + 31] ^= 1;
            built.store.put("a.snap", &changed).unwrap();
            let found = Snapshot::open(built.store.open("a.snap").unwrap(), built.size, built.root)
                .unwrap()
                .find(key);
            assert!(found.is_err(), "{count}: {found:?}");
            if count == 300 {
                break;
            }
        }
    }
}
