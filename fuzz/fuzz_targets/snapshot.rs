//! A snapshot with changed bytes gives a record as it was, or nothing. Any bytes at all open or are refused.
#![no_main]

#[path = "../../registry/tests/support/mod.rs"]
mod support;

use std::cell::OnceCell;

use capgate_registry::combination::Key;
use capgate_registry::merkle::Hash;
use capgate_registry::snapshot::{Snapshot, recompile};
use capgate_registry::store::Store;
use libfuzzer_sys::fuzz_target;
use support::{Memory, World, first_key, profile};

struct Honest {
    bytes: Vec<u8>,
    size: u64,
    root: Hash,
    records: Vec<(Key, Vec<u8>)>,
}

thread_local! {
    static HONEST: OnceCell<Honest> = const { OnceCell::new() };
}

fn honest() -> Honest {
    let world = World::new();
    let tomls: Vec<String> = (0..5).map(|n| profile(&format!("profile-{n}"), n)).collect();
    let notes: Vec<_> = tomls.iter().map(|toml| world.sign(toml)).collect();
    world.publish(&notes).unwrap();
    let reader = world.open().unwrap();
    let find = |toml: &String| (first_key(toml), reader.snapshot().find(&first_key(toml)).unwrap().unwrap());
    let bytes = world.store.get(&reader.latest().snapshot_path());
    Honest {
        bytes,
        size: reader.latest().size,
        root: reader.latest().root,
        records: tomls.iter().map(find).collect(),
    }
}

fn open(bytes: Vec<u8>, size: u64, root: Hash) -> Option<Snapshot> {
    let store = Memory::default();
    store.set("a", bytes);
    Snapshot::open(store.open("a").unwrap(), size, root).ok()
}

fuzz_target!(|input: (u64, Vec<(u16, u8)>, &[u8])| {
    let (size, changes, raw) = input;
    HONEST.with(|cell| {
        let honest = cell.get_or_init(honest);
        let mut bytes = honest.bytes.clone();
        for (at, value) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        let Some(snapshot) = open(bytes, honest.size, honest.root) else { return };
        for (key, record) in &honest.records {
            if let Ok(Some(found)) = snapshot.find(key) {
                assert!(found == *record, "a changed record was proven");
            }
        }
        for position in 0..honest.size {
            if let Ok(found) = snapshot.record(position) {
                assert!(honest.records.iter().any(|(_, record)| found == *record));
            }
        }
    });
    if let Some(snapshot) = open(raw.to_vec(), size, Hash::of(raw)) {
        let _ = snapshot.find(&support::first_key(&profile("profile-1", 1)));
        let _ = recompile(&snapshot, &mut Vec::new());
    }
});
