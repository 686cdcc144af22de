//! A publication that stops at any write, rename or removal leaves the old or the new registry, and the next one
//! completes it. Here the store in memory fails; the folder's own system calls are failed in the tests of the command.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

mod support;

use capgate_registry::latest::Latest;
use capgate_registry::reader::Reader;
use capgate_registry::record::{Lookup, Record};
use support::{Memory, World, first_key, profile, profile_with};

type State = (Latest, Vec<Option<Record>>);

fn state(world: &World, store: &Memory, tomls: &[String]) -> State {
    let reader = Reader::open(store, &world.anchor()).unwrap();
    let records = tomls.iter().map(|toml| reader.lookup(&first_key(toml)).unwrap()).collect();
    (reader.latest().clone(), records)
}

/// Fails `step` at every operation in turn, on a copy of what `before` made.
fn stop_everywhere(name: &str, before: &World, tomls: &[String], step: &dyn Fn(&World, &Memory) -> bool) {
    let old = state(before, &before.store, tomls);
    let finished = before.store.copy();
    assert!(step(before, &finished));
    let new = state(before, &finished, tomls);
    let operations = finished.operations.get();
    assert!(operations > 5, "{name} takes {operations} operations");
    for stop in 0..operations {
        let store = before.store.copy();
        store.fail_at.set(Some(stop));
        let done = step(before, &store);
        store.fail_at.set(None);
        let found = state(before, &store, tomls);
        assert!(found == old || found == new, "{name}: a mixture after operation {stop}");
        assert!(!done || found == new, "{name}: said done at operation {stop}");
        let faults: Vec<_> = before.verify_store(&store).faults;
        assert_eq!(faults, [], "{name}: operation {stop} damaged the registry");
        // Doing it again completes it; a revocation that was committed says so.
        step(before, &store);
        let repaired = state(before, &store, tomls);
        assert_eq!(repaired.1, new.1, "{name}: operation {stop} was not completed");
        before.publish_to(&store, &[], true).unwrap();
        assert_eq!(before.verify_store(&store).faults, [], "{name}: operation {stop} left something");
    }
    println!("{name}: stopped at each of {operations} operations");
}

#[test]
fn a_stop_at_every_operation_leaves_the_old_or_the_new_registry() {
    let tomls = vec![
        profile("one-live", 1),
        profile("two-next", 2),
        profile_with("two-newer", 2, "supersedes = \"two-next\"\n"),
    ];
    let world = World::new();
    let first = [world.sign(&tomls[0]), world.sign(&tomls[1])];
    stop_everywhere("first publication", &world, &tomls, &|w, store| {
        w.publish_to(store, &first, false).is_ok()
    });
    world.publish(&first).unwrap();
    let second = [world.sign(&tomls[2])];
    stop_everywhere("supersession", &world, &tomls, &|w, store| w.publish_to(store, &second, false).is_ok());
    let revocation = [world.revocation("one-live", "harmful")];
    stop_everywhere("revocation", &world, &tomls, &|w, store| {
        w.publish_to(store, &revocation, false).is_ok()
    });
}

#[test]
fn many_publications_cross_tile_borders_and_stay_whole() {
    let world = World::new();
    let mut number = 0;
    for batch in [1, 5, 249, 1, 1, 2, 255, 3] {
        let notes: Vec<_> = (0..batch)
            .map(|_| {
                number += 1;
                world.sign(&profile(&format!("profile-{number}"), number))
            })
            .collect();
        world.publish(&notes).unwrap();
    }
    assert_eq!(world.open().unwrap().latest().log_size, number);
    let report = world.verify();
    assert_eq!((report.faults.as_slice(), report.entries, report.records), (&[][..], number, number));
    for digest in [1, 256, 257, 512, number] {
        assert_eq!(world.live(&profile("x-x", digest)), [format!("profile-{digest}")]);
    }
}

#[test]
fn a_snapshot_that_lost_its_version_to_another_is_no_fault() {
    let world = World::new();
    // Stopped before its commit, then another one stopped behind its own.
    let count = |store: &Memory| store.files.borrow().keys().filter(|p| p.ends_with(".snap")).count();
    let before = count(&world.store);
    for stop in 0.. {
        let store = world.store.copy();
        store.fail_at.set(Some(stop));
        world.publish_to(&store, &[world.sign(&profile("first-one", 1))], false).unwrap_err();
        store.fail_at.set(None);
        if Reader::open(&store, &world.anchor()).unwrap().latest().version == 1 && count(&store) == before + 1
        {
            let mut met = 0;
            for stop in 0.. {
                let again = store.copy();
                again.fail_at.set(Some(stop));
                let done = world.publish_to(&again, &[world.sign(&profile("second-one", 2))], false);
                again.fail_at.set(None);
                let report = world.verify_store(&again);
                assert_eq!(report.faults, [], "{stop}");
                met += u32::from(report.notes.iter().any(|note| note.contains("was never committed")));
                if done.is_ok() {
                    assert_eq!(report.notes, [""; 0]);
                    assert!(met > 0);
                    return;
                }
            }
        }
    }
}
