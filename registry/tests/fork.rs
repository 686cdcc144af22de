//! Two histories under the same keys, where little or nothing of the first one is left: it is known by what was seen.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::num::NonZero;

use capgate_registry::reader::Anchor;
use capgate_registry::sync::{SyncError, Synced, sync};
use support::{Memory, World, profile};

fn follow_at(source: &Memory, to: &Memory, anchor: &Anchor) -> Result<Synced, SyncError> {
    sync(source, to, anchor, NonZero::new(2).unwrap(), &mut |_, _| {})
}

fn follow(world: &World, to: &Memory) -> Synced {
    follow_at(&world.store, to, &world.anchor()).unwrap()
}

/// One profile for each of the numbers.
fn publish(world: &World, numbers: std::ops::Range<u64>) {
    let notes: Vec<Vec<u8>> = numbers.map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect();
    world.publish(&notes).unwrap();
}

#[test]
fn attack_another_history_is_named_by_what_was_seen_where_the_copy_is_gone_or_older() {
    let (world, other) = (World::new(), World::new());
    publish(&world, 0..2);
    let older = Memory::default();
    follow(&world, &older);
    publish(&world, 2..3);
    let seen = follow(&world, &Memory::default()).seen;
    let anchor = Anchor { seen, ..world.anchor() };
    for (more, damage) in [(3, false), (5, false), (5, true)] {
        let store = other.store.copy();
        let notes: Vec<Vec<u8>> =
            (100..100 + more).map(|n| other.sign(&profile(&format!("other-{n}"), n))).collect();
        other.publish_to(&store, &notes, false).unwrap();
        other.publish_to(&store, &[], true).unwrap();
        other.publish_to(&store, &[], true).unwrap();
        for copy in [Memory::default(), older.copy()] {
            if damage {
                copy.files.borrow_mut().remove("log/checkpoint");
            }
            let before = copy.files.borrow().clone();
            match follow_at(&store, &copy, &anchor) {
                Err(SyncError::Fork { .. }) => {}
                done => panic!("{more}: {done:?}"),
            }
            assert_eq!(*copy.files.borrow(), before);
        }
    }
    // The history that was seen comes back.
    for copy in [Memory::default(), older.copy()] {
        follow_at(&world.store, &copy, &anchor).unwrap();
        publish(&world, world.open().unwrap().latest().log_size..world.open().unwrap().latest().log_size + 1);
        follow_at(&world.store, &copy, &anchor).unwrap();
        assert_eq!(world.verify_store(&copy).faults, []);
    }
}

/// Whoever made a second history serves the first one's tiles beside the second one's entries.
#[test]
fn attack_tiles_of_the_first_history_do_not_hide_a_second_one() {
    let (world, other) = (World::new(), World::new());
    publish(&world, 0..256);
    let copy = Memory::default();
    let seen = follow(&world, &copy).seen;
    let notes: Vec<Vec<u8>> = (1000..1257).map(|n| other.sign(&profile(&format!("other-{n}"), n))).collect();
    other.publish(&notes).unwrap();
    other.publish_to(&other.store, &[], true).unwrap();
    for path in ["log/tile/0/000", "log/tile/1/000.p/1"] {
        other.store.set(path, world.store.get(path));
    }
    copy.files.borrow_mut().remove("log/checkpoint");
    let anchor = Anchor { seen, ..world.anchor() };
    for (copy, anchor) in [(copy, world.anchor()), (Memory::default(), anchor)] {
        let done = follow_at(&other.store, &copy, &anchor);
        assert!(matches!(done, Err(SyncError::Fork { size: 256, .. })), "{done:?}");
    }
}
