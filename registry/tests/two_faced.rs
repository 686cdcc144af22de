//! A store that shows something else the second time: what is signed is what was hashed, whatever it says later.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::cell::Cell;
use std::io;
use std::num::NonZero;

use capgate_registry::keys::SigningKey;
use capgate_registry::latest;
use capgate_registry::publish::{self, LIFE, Terms};
use capgate_registry::store::{Fill, Listed, ReadAt, Store, StoreError, StoreMut};
use capgate_registry::verify::Fault;
use support::{Memory, World, profile};

const BUNDLE: &str = "log/tile/entries/000.p/2";

/// After so many times that it was asked, the bundle has the second entry's bytes in the place of the first one.
struct TwoFaced<'a> {
    store: &'a Memory,
    honest: Cell<u64>,
    lied: Cell<bool>,
}

/// Positioned reads of what is shown.
struct Shown(Vec<u8>);

impl ReadAt for Shown {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let found = self.0.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn size(&self) -> u64 {
        self.0.len() as u64
    }
}

impl TwoFaced<'_> {
    fn shown(&self, path: &str) -> Option<Vec<u8>> {
        if path != BUNDLE {
            return None;
        }
        let left = self.honest.get();
        self.honest.set(left.saturating_sub(1));
        let mut bytes = self.store.get(path);
        let middle = bytes.len() / 2;
        let (first, second) = bytes.split_at_mut(middle);
        if left == 0 {
            self.lied.set(true);
            first.copy_from_slice(second);
        }
        Some(bytes)
    }
}

impl Store for TwoFaced<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        self.shown(path).map_or_else(|| self.store.read(path, cap), Ok)
    }
    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.shown(path).map_or_else(|| self.store.open(path), |bytes| Ok(Box::new(Shown(bytes))))
    }
    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.store.list()
    }
}

impl StoreMut for TwoFaced<'_> {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        self.store.write(fill)
    }
    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        self.store.swap(path, expected, new)
    }
    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.store.remove(path)
    }
}

/// Two profiles of the same length, and a snapshot that is damaged, so that every record is made from the log.
fn damaged() -> World {
    let world = World::new();
    world.publish(&[world.sign(&profile("profile-0", 0)), world.sign(&profile("profile-1", 1))]).unwrap();
    assert_eq!(world.store.get(BUNDLE).len() % 2, 0);
    let snapshot = world.open().unwrap().latest().snapshot_path();
    let size = world.store.get(&snapshot).len();
    world.store.set(&snapshot, vec![0; size]);
    world
}

/// All but that of the snapshot which was damaged, and stays beside the next one.
fn faults(world: &World) -> Vec<Fault> {
    let faults = world.verify().faults;
    faults.into_iter().filter(|fault| !fault.file.starts_with("snapshot/2-")).collect()
}

#[test]
fn attack_nothing_is_signed_that_was_not_hashed() {
    let (mut signed, mut refused, mut committed) = (0, 0, 0);
    for honest in 0..12 {
        let world = damaged();
        let before = world.store.get(latest::PATH);
        let store = TwoFaced { store: &world.store, honest: Cell::new(honest), lied: Cell::default() };
        let keys = [SigningKey::parse(&world.registry.encode().unwrap()).unwrap()];
        let threads = NonZero::<usize>::MIN;
        let terms = Terms { keys: &keys, now: world.now, life: LIFE, renew: false, threads };
        let note = world.sign(&profile("profile-2", 2));
        match publish::publish(&store, &world.pin, &[note], &terms, &mut |_| {}) {
            Ok(_) => {
                signed += 1;
                assert_eq!(world.live(&profile("profile-0", 0)), ["profile-0"], "after {honest}");
                assert_eq!(faults(&world), [], "after {honest}");
            }
            Err(e) => {
                refused += 1;
                let e = e.to_string();
                let said =
                    ["changed while it was read", "lead to", "is not the one that the log's tiles say"];
                assert!(said.iter().any(|said| e.contains(said)), "{honest}: {e}");
                // What was committed by then is completed by the next one who is shown the truth.
                if world.store.get(latest::PATH) != before {
                    committed += 1;
                    world.publish(&[]).unwrap();
                    assert_eq!(world.live(&profile("profile-0", 0)), ["profile-0"], "after {honest}");
                    assert_eq!(faults(&world), [], "after {honest}");
                }
            }
        }
    }
    assert!(signed > 0 && refused > committed && committed > 0, "{signed} {refused} {committed}");
}

#[test]
fn attack_verify_believes_no_second_answer() {
    let world = World::new();
    world.publish(&[world.sign(&profile("profile-0", 0)), world.sign(&profile("profile-1", 1))]).unwrap();
    let mut sound = 0;
    for honest in 0..24 {
        let store = TwoFaced { store: &world.store, honest: Cell::new(honest), lied: Cell::default() };
        let report = capgate_registry::verify::verify(&store, &world.pin, world.anchor().now, &mut |_| {});
        sound += u64::from(report.faults.is_empty());
        assert_eq!(report.faults.is_empty(), !store.lied.get(), "after {honest}: {report:?}");
    }
    assert!((1..24).contains(&sound), "{sound}");
}
