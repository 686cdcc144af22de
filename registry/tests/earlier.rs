//! The snapshot that stands is taken over record by record into the next one, and never believed.

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
use capgate_registry::latest::Latest;
use capgate_registry::note::{self, Kind};
use capgate_registry::publish::{self, LIFE, Terms};
use capgate_registry::reader::Reader;
use capgate_registry::store::{Fill, Listed, ReadAt, Store, StoreError, StoreMut};
use capgate_registry::sync::sync;
use proptest::prelude::*;
use support::{Memory, World, origin, profile, profile_with};

fn latest(world: &World, store: &Memory) -> Latest {
    Reader::open(store, &world.anchor()).unwrap().latest().clone()
}

fn snapshot(world: &World, store: &Memory) -> Vec<u8> {
    store.get(&latest(world, store).snapshot_path())
}

/// One superseded, one revoked, and a few more.
fn some(world: &World) {
    let mut notes: Vec<_> = (1..6).map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect();
    notes.push(world.sign(&profile_with("profile-9", 2, "supersedes = \"profile-2\"\n")));
    notes.push(world.revocation("profile-3", "harmful"));
    world.publish(&notes).unwrap();
}

#[test]
fn no_changed_byte_of_the_snapshot_that_stands_reaches_the_next_one() {
    let world = World::new();
    some(&world);
    let next = [world.sign(&profile("profile-6", 6)), world.revocation("profile-1", "withdrawn")];
    let done = world.store.copy();
    world.publish_to(&done, &next, false).unwrap();
    assert_eq!(world.verify_store(&done).faults, []);
    let path = latest(&world, &world.store).snapshot_path();
    let bytes = world.store.get(&path);
    let records_end = 64 + u64::from_be_bytes(bytes[56..64].try_into().unwrap()) as usize;
    for at in 0..bytes.len() {
        // Of the notes, of hashes and of the zeros between the parts a share is enough. What is neither, among the records, is
        // their keys, numbers and lengths.
        let is_text = bytes[at] == b'\n' || (b' '..=b'~').contains(&bytes[at]);
        if (at > records_end || is_text) && at % 61 != 0 {
            continue;
        }
        let store = world.store.copy();
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        store.set(&path, changed);
        world.publish_to(&store, &next, false).unwrap();
        assert_eq!(latest(&world, &store), latest(&world, &done), "byte {at}");
        assert!(snapshot(&world, &store) == snapshot(&world, &done), "byte {at}");
    }
    for hostile in [None, Some(vec![]), Some(bytes[..bytes.len() / 2].to_vec())] {
        let store = world.store.copy();
        match hostile {
            Some(bytes) => store.set(&path, bytes),
            None => drop(store.files.borrow_mut().remove(&path)),
        }
        world.publish_to(&store, &next, false).unwrap();
        assert!(snapshot(&world, &store) == snapshot(&world, &done));
    }
}

/// Whoever has the registry key can sign an older snapshot as that of the newest log.
#[test]
fn attack_what_a_thief_left_out_of_the_snapshot_stands_in_the_next_one() {
    let world = World::new();
    some(&world);
    let before = world.store.copy();
    world.publish(&[world.revocation("profile-1", "harmful")]).unwrap();
    let (old, honest) = (latest(&world, &before), latest(&world, &world.store));
    let forged = Latest { size: old.size, root: old.root, ..honest };
    let text = note::compose(Kind::Latest, &origin(), &forged.to_toml()).unwrap();
    world.store.set("snapshot/latest.note", note::sign(&text, &[&world.registry]).unwrap());
    world.store.set(&forged.snapshot_path(), before.get(&old.snapshot_path()));
    assert_eq!(world.live(&profile("x-x", 1)), ["profile-1"], "a reader of the snapshot alone cannot know");
    world.publish(&[world.sign(&profile("profile-7", 7))]).unwrap();
    assert_eq!(world.live(&profile("x-x", 1)), [""; 0]);
    assert_eq!(world.verify().faults, []);
}

#[test]
fn a_damaged_snapshot_of_a_copy_is_whole_again_after_the_next_entry() {
    let world = World::new();
    some(&world);
    let copy = Memory::default();
    let follow =
        || sync(&world.store, &copy, &world.anchor(), NonZero::new(2).unwrap(), &mut |_, _| {}).unwrap();
    follow();
    let path = latest(&world, &copy).snapshot_path();
    let mut bytes = copy.get(&path);
    bytes[200] ^= 1;
    copy.set(&path, bytes);
    world.publish(&[world.sign(&profile("profile-7", 7))]).unwrap();
    let done = follow();
    assert!(done.fetched == 1 && !done.repaired, "{done:?}");
    assert!(snapshot(&world, &copy) == snapshot(&world, &world.store));
    copy.files.borrow_mut().remove(&path);
    assert_eq!(world.verify_store(&copy).faults, []);
}

/// Notes which files are opened.
struct Opens<'m>(&'m Memory, RefCell<Vec<String>>);

impl Store for Opens<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        self.0.read(path, cap)
    }
    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.1.borrow_mut().push(path.to_owned());
        self.0.open(path)
    }
    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.0.list()
    }
}

impl StoreMut for Opens<'_> {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        self.0.write(fill)
    }
    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        self.0.swap(path, expected, new)
    }
    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.0.remove(path)
    }
}

#[test]
fn what_stands_in_the_snapshot_is_not_looked_for_in_the_log() {
    let world = World::new();
    let notes: Vec<_> = (0..400).map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect();
    world.publish(&notes).unwrap();
    let opens = Opens(&world.store, RefCell::default());
    let keys = [SigningKey::parse(&world.registry.encode().unwrap()).unwrap()];
    let threads = NonZero::new(3).unwrap();
    let terms = Terms { keys: &keys, now: world.now, life: LIFE, renew: false, threads };
    let next = [
        world.sign(&profile_with("newer-one", 7, "supersedes = \"profile-7\"\n")),
        world.revocation("profile-8", "harmful"),
    ];
    publish::publish(&opens, &world.pin, &next, &terms, &mut |_| {}).unwrap();
    assert_eq!(world.verify().faults, []);
    let opens = opens.1.into_inner();
    let bundles = opens.iter().filter(|path| path.starts_with("log/tile/entries/")).count();
    // Only the one that is revoked is another record now, with a note that was there before.
    assert_eq!(bundles, 1, "{opens:?}");
}

/// A step of a history.
#[derive(Debug, Clone)]
enum Step {
    New(u64),
    Supersede(usize),
    Revoke(usize),
    Publish,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..12u64).prop_map(Step::New),
        2 => any::<prop::sample::Index>().prop_map(|at| Step::Supersede(at.index(40))),
        2 => any::<prop::sample::Index>().prop_map(|at| Step::Revoke(at.index(40))),
        3 => Just(Step::Publish),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// `verify` compiles from the log alone and compares bytes.
    #[test]
    fn any_history_in_any_steps_leads_to_the_snapshot_of_its_log(steps in steps()) {
        let world = World::new();
        let (mut ids, mut waiting) = (Vec::<(String, u64)>::new(), Vec::new());
        for step in steps {
            let id = format!("profile-{}", ids.len());
            match step {
                Step::New(n) => {
                    waiting.push(world.sign(&profile(&id, n)));
                    ids.push((id, n));
                }
                Step::Supersede(at) if !ids.is_empty() => {
                    let (earlier, n) = ids[at % ids.len()].clone();
                    waiting.push(world.sign(&profile_with(&id, n, &format!("supersedes = \"{earlier}\"\n"))));
                    ids.push((id, n));
                }
                Step::Revoke(at) if !ids.is_empty() => {
                    waiting.push(world.revocation(&ids[at % ids.len()].0, "withdrawn"));
                }
                Step::Supersede(..) | Step::Revoke(_) | Step::Publish => {}
            }
            if matches!(step, Step::Publish) {
                // One that contradicts the others is refused, and those before it are published without it.
                for note in waiting.drain(..) {
                    let _ = world.publish(&[note]);
                }
                prop_assert_eq!(world.verify().faults, []);
            }
        }
        let _ = world.publish(&waiting);
        prop_assert_eq!(world.verify().faults, []);
    }
}
