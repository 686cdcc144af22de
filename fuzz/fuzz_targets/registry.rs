//! A registry with any changed files: lookups give what was signed or nothing, `verify` finds a fault, and completing
//! an interrupted publication never makes it worse.
#![no_main]

#[path = "../../registry/tests/support/mod.rs"]
mod support;

use std::cell::OnceCell;

use capgate_registry::publish::complete;
use capgate_registry::reader::{Reader, read_chain, read_latest};
use capgate_registry::record::{Lookup, Record};
use libfuzzer_sys::fuzz_target;
use support::{Memory, World, first_key, profile, profile_with};

struct Honest {
    world: World,
    tomls: Vec<String>,
    paths: Vec<String>,
    records: Vec<Option<Record>>,
}

thread_local! {
    static HONEST: OnceCell<Honest> = const { OnceCell::new() };
}

/// Stopped right behind its commit, so that the staged file still counts.
fn honest() -> Honest {
    let world = World::new();
    let tomls = vec![
        profile("one-live", 1),
        profile("two-next", 2),
        profile_with("two-newer", 2, "supersedes = \"two-next\"\n"),
    ];
    world.publish(&[world.sign(&tomls[0]), world.sign(&tomls[1])]).unwrap();
    let last = [world.sign(&tomls[2]), world.revocation("one-live", "harmful")];
    let whole = world.store.copy();
    world.publish_to(&whole, &last, false).unwrap();
    let committed = whole.get("snapshot/latest.note");
    for stop in 0.. {
        let store = world.store.copy();
        store.fail_at.set(Some(stop));
        let _ = world.publish_to(&store, &last, false);
        store.fail_at.set(None);
        if store.get("snapshot/latest.note") == committed {
            *world.store.files.borrow_mut() = store.files.into_inner();
            break;
        }
    }
    let records = lookups(&world, &world.store, &tomls);
    let paths = world.store.files.borrow().keys().cloned().collect();
    Honest { world, tomls, paths, records }
}

fn lookups(world: &World, store: &Memory, tomls: &[String]) -> Vec<Option<Record>> {
    let reader = Reader::open(store, &world.anchor());
    tomls.iter().map(|toml| reader.as_ref().ok()?.lookup(&first_key(toml)).ok()?).collect()
}

fuzz_target!(|changes: Vec<(u8, u8, u16, Vec<u8>)>| {
    HONEST.with(|cell| {
        let Honest { world, tomls, paths, records } = cell.get_or_init(honest);
        let store = world.store.copy();
        for (path, how, at, bytes) in changes {
            let path = &paths[usize::from(path) % paths.len()];
            let mut file = store.files.borrow().get(path).cloned().unwrap_or_default();
            let at = usize::from(at).min(file.len());
            let end = (at + bytes.len()).min(file.len());
            match how % 4 {
                0 => drop(file.splice(at..end, bytes)),
                1 => drop(file.splice(at..at, bytes)),
                2 => file.truncate(at),
                _ => file = bytes,
            }
            store.set(path, file);
        }
        let changed = *store.files.borrow() != *world.store.files.borrow();
        for (found, honest) in lookups(world, &store, tomls).iter().zip(records) {
            assert!(found.is_none() || found == honest, "a changed file changed what a lookup says");
        }
        let report = world.verify_store(&store);
        // A file that waits to be written again, or one that is to be removed, may hold anything.
        let reading = changed && report.faults.is_empty();
        let Ok(chain) = read_chain(&store, &world.pin, None) else { return };
        let Ok(latest) = read_latest(&store, &chain) else { return };
        let _ = complete(&store, &chain, &latest);
        for (found, honest) in lookups(world, &store, tomls).iter().zip(records) {
            assert!(found.is_none() || found == honest, "completing changed what a lookup says");
        }
        if reading {
            assert_eq!(world.verify_store(&store).faults, [], "what verified was damaged by completing it");
        }
    });
});
