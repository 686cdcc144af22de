//! Entries that wait for their commit: many of them, hostile ones, and a stop at each write around them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

mod support;

use std::cell::RefCell;
use std::num::NonZero;

use capgate_registry::keys::SigningKey;
use capgate_registry::latest::{self, Latest};
use capgate_registry::log::{Checkpoint, LogReader, append};
use capgate_registry::merkle::empty_root;
use capgate_registry::note::{self, Kind};
use capgate_registry::publish::{self, LIFE, Terms, committed_log, complete};
use capgate_registry::reader::{Reader, read_chain};
use capgate_registry::store::{Fill, Listed, ReadAt, Store, StoreError, StoreMut};
use capgate_registry::sync::{SyncError, Synced, sync};
use support::{Memory, World, profile};

fn notes(world: &World, numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    numbers.map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect()
}

fn follow(world: &World, source: &dyn Store, to: &dyn StoreMut) -> Result<Synced, SyncError> {
    sync(source, to, &world.anchor(), NonZero::<usize>::MIN, &mut |_, _| {})
}

fn latest(world: &World, store: &Memory) -> Latest {
    Reader::open(store, &world.anchor()).unwrap().latest().clone()
}

fn staged(store: &Memory) -> Vec<String> {
    store.files.borrow().keys().filter(|path| path.starts_with("log/staged/")).cloned().collect()
}

/// A store that takes nothing any more once `latest.note` was replaced.
struct Committed<'a>(&'a Memory);

impl Store for Committed<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        self.0.read(path, cap)
    }
    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.0.open(path)
    }
    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.0.list()
    }
}

impl StoreMut for Committed<'_> {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        self.0.write(fill)
    }
    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        self.0.swap(path, expected, new)?;
        self.0.fail_at.set(Some(0));
        Ok(())
    }
    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.0.remove(path)
    }
}

/// The registry right behind the commit of `notes`, before any tile is written.
fn committed(world: &World, notes: &[Vec<u8>]) -> Memory {
    let store = world.store.copy();
    let keys = [SigningKey::parse(&world.registry.encode().unwrap()).unwrap()];
    let threads = NonZero::<usize>::MIN;
    let terms = Terms { keys: &keys, now: world.now, life: LIFE, renew: false, threads };
    publish::publish(&Committed(&store), &world.pin, notes, &terms, &mut |_| {}).unwrap_err();
    store.fail_at.set(None);
    assert!(!staged(&store).is_empty());
    store
}

/// What happened to two stores, in order.
#[derive(Default)]
struct Events(RefCell<Vec<(&'static str, String, u64)>>);

/// A store that is watched.
struct Watched<'a> {
    store: &'a Memory,
    name: &'static str,
    events: &'a Events,
}

impl Watched<'_> {
    fn note(&self, path: &str, number: u64) {
        self.events.0.borrow_mut().push((self.name, path.to_owned(), number));
    }
}

impl Store for Watched<'_> {
    /// Noted with the bytes that its caller would take.
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        self.note(path, cap);
        self.store.read(path, cap)
    }
    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.store.open(path)
    }
    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.store.list()
    }
}

impl StoreMut for Watched<'_> {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        let path = self.store.write(fill)?;
        self.note(&path, self.store.get(&path).len() as u64);
        Ok(path)
    }
    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        self.store.swap(path, expected, new)
    }
    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.store.remove(path)
    }
}

/// The head of a staged file up to its first entry.
fn head(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().take(3).collect();
    let length: usize = lines[2].parse().unwrap();
    bytes[..lines.iter().map(|line| line.len() + 1).sum::<usize>() + length].to_vec()
}

#[test]
fn attack_a_huge_staged_file_is_refused_before_it_is_read() {
    let world = World::new();
    world.publish(&notes(&world, 0..3)).unwrap();
    let source = committed(&world, &notes(&world, 3..4));
    let path = latest(&world, &source).staged_path();
    let mut huge = head(&source.get(&path));
    huge.resize(huge.len() + (1 << 20), 0);
    source.set(&path, huge);
    let (events, copy) = (Events::default(), Memory::default());
    let watched = Watched { store: &source, name: "source", events: &events };
    let refused = follow(&world, &watched, &copy).unwrap_err();
    assert!(matches!(refused, SyncError::Fetch(StoreError::TooLarge { .. })), "{refused:?}");
    let events = events.0.into_inner();
    let most = events.iter().filter(|(_, read, _)| *read == path).map(|(.., cap)| *cap).max();
    // All four may be new, where whoever staged them was slow: four of the longest, a checkpoint and three lines.
    assert_eq!(most, Some(4 * 65_537 + 16_384 + 64));
    assert!(copy.files.borrow().is_empty());
}

#[test]
fn attack_staged_entries_that_are_empty_or_of_another_number_are_malformed() {
    let world = World::new();
    world.publish(&notes(&world, 0..3)).unwrap();
    let honest = committed(&world, &notes(&world, 3..5));
    let path = latest(&world, &honest).staged_path();
    let bytes = honest.get(&path);
    let chain = read_chain(&honest, &world.pin, None).unwrap();
    let completed = |staged: Vec<u8>| {
        let store = honest.copy();
        store.set(&path, staged);
        complete(&store, &chain, &latest(&world, &honest)).map_err(|e| e.to_string())
    };
    assert_eq!(completed(bytes.clone()), Ok(true));
    let (start, end) = (head(&bytes).len(), bytes.len());
    let first = usize::from(u16::from_be_bytes([bytes[start], bytes[start + 1]])) + 2;
    let empty = [&bytes[..start], &[0, 0], &bytes[start + first..]].concat();
    let fewer = [&bytes[..start], &bytes[start + first..]].concat();
    let more = [&bytes[..], &bytes[start..end]].concat();
    for hostile in [empty, fewer, more, bytes[..end - 1].to_vec(), bytes[..start].to_vec()] {
        let said = completed(hostile).unwrap_err();
        assert!(said.ends_with(&format!("`{path}` is malformed")), "{said}");
    }
    // More than the log will have, and a length that no checkpoint has.
    let replaced = |from: &str, to: &str| {
        let lines = String::from_utf8_lossy(&bytes[..start]).into_owned();
        [lines.replacen(from, to, 1).as_bytes(), &bytes[start..]].concat()
    };
    for hostile in [replaced("v1\n3\n", "v1\n6\n"), replaced("v1\n3\n", "v1\n3\n9")] {
        assert!(completed(hostile).unwrap_err().ends_with("is malformed"));
    }
}

#[test]
fn a_stop_around_a_border_of_staged_files_leaves_the_old_or_the_new_registry() {
    let world = World::new();
    world.publish(&notes(&world, 0..1_022)).unwrap();
    let old = world.store.get("snapshot/latest.note");
    let follower = Memory::default();
    follow(&world, &world.store, &follower).unwrap();
    let more = notes(&world, 1_022..1_027);
    let done = world.store.copy();
    world.publish_to(&done, &more, false).unwrap();
    assert_eq!((world.verify_store(&done).faults, staged(&done)), (vec![], vec![]));
    let new = done.get("snapshot/latest.note");
    let followed = follower.copy();
    follow(&world, &done, &followed).unwrap();
    assert_eq!((world.verify_store(&followed).faults, staged(&followed)), (vec![], vec![]));
    // What a copy does at its own border is the same, with the signatures of its source.
    let stopped_copy = |stop| {
        let copy = follower.copy();
        copy.fail_at.set(Some(stop));
        let stopped = follow(&world, &done, &copy).is_err();
        copy.fail_at.set(None);
        let latest = copy.get("snapshot/latest.note");
        assert!(latest == old || latest == new, "a mixture after operation {stop} of a copy");
        follow(&world, &done, &copy).unwrap();
        assert!(*copy.files.borrow() == *followed.files.borrow(), "operation {stop} of a copy");
        stopped
    };
    let operations = followed.operations.get();
    assert!((operations - 30..operations).all(stopped_copy) && !stopped_copy(operations));
    let (mut kept, mut waiting, mut moved) = (0, 0, 0);
    for stop in (0..=done.operations.get()).rev() {
        let store = world.store.copy();
        store.fail_at.set(Some(stop));
        let _ = world.publish_to(&store, &more, false);
        store.fail_at.set(None);
        let found = store.get("snapshot/latest.note");
        assert!(found == old || found == new, "a mixture after operation {stop}");
        if staged(&store).len() == 2 {
            waiting += 1;
            assert_eq!(world.verify_store(&store).faults, [], "operation {stop} damaged the registry");
        }
        // Who follows it gets the one or the other, whole.
        let copy = follower.copy();
        follow(&world, &store, &copy).unwrap();
        let whole = if found == new { &followed } else { &follower };
        assert!(*copy.files.borrow() == *whole.files.borrow(), "operation {stop} reached a copy");
        world.publish_to(&store, &more, false).unwrap();
        assert!(*store.files.borrow() == *done.files.borrow(), "operation {stop} was not completed");
        if found == new {
            moved += 1;
        } else {
            kept += 1;
        }
        // Before that, the snapshot is written, which other tests stop at every record of.
        if kept == 8 {
            break;
        }
    }
    assert!(waiting >= 5 && moved >= 8, "{waiting} {moved}");
}

#[test]
fn a_copy_holds_no_more_than_one_staged_file_in_memory_and_stops_anywhere() {
    let world = World::new();
    world.publish(&notes(&world, 0..2_100)).unwrap();
    let (events, copy) = (Events::default(), Memory::default());
    let source = Watched { store: &world.store, name: "source", events: &events };
    let to = Watched { store: &copy, name: "copy", events: &events };
    follow(&world, &source, &to).unwrap();
    let path = latest(&world, &copy).staged_path();
    let events = events.0.into_inner();
    let at = |name: &str, wanted: &str| {
        let found = events.iter().position(|(who, path, _)| *who == name && path == wanted);
        found.unwrap_or_else(|| panic!("{wanted}"))
    };
    // What was fetched is put aside before what comes behind it is fetched.
    assert!(at("source", "log/tile/entries/007") < at("copy", &format!("{path}-1024")));
    assert!(at("copy", &format!("{path}-1024")) < at("source", "log/tile/entries/008.p/52"));
    assert!(at("copy", &format!("{path}-2048")) < at("copy", &path));
    assert_eq!((world.verify_store(&copy).faults, staged(&copy)), (vec![], vec![]));

    // Stopped behind the commit, it is completed by whoever comes next, and read meanwhile.
    let mut stops = 0;
    for stop in (copy.operations.get() - 60..copy.operations.get()).step_by(20) {
        let stopped = Memory::default();
        stopped.fail_at.set(Some(stop));
        follow(&world, &world.store, &stopped).unwrap_err();
        stopped.fail_at.set(None);
        stops += usize::from(staged(&stopped).len() == 3);
        let second = Memory::default();
        follow(&world, &stopped, &second).unwrap();
        assert_eq!(second.get("log/tile/entries/008.p/52"), world.store.get("log/tile/entries/008.p/52"));
        follow(&world, &world.store, &stopped).unwrap();
        assert_eq!(*stopped.files.borrow(), *copy.files.borrow());
    }
    assert!(stops >= 2, "{stops}");
}

#[test]
fn what_a_refused_source_made_a_copy_put_aside_is_removed() {
    let world = World::new();
    world.publish(&notes(&world, 0..2_050)).unwrap();
    let hostile = world.store.copy();
    let bundle = "log/tile/entries/008.p/2";
    let mut bytes = hostile.get(bundle);
    let at = bytes.len() - 9;
    bytes[at] ^= 1;
    hostile.set(bundle, bytes);
    let (events, copy) = (Events::default(), Memory::default());
    let to = Watched { store: &copy, name: "copy", events: &events };
    follow(&world, &hostile, &to).unwrap_err();
    assert!(events.0.borrow().iter().any(|(_, path, _)| path.ends_with("-1024")), "nothing was put aside");
    assert!(copy.files.borrow().is_empty(), "{:?}", staged(&copy));
}

/// A store in which somebody else completes the publication while it is being completed.
struct Raced<'a> {
    store: &'a Memory,
    other: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl Store for Raced<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        self.store.read(path, cap)
    }
    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.store.open(path)
    }
    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.store.list()
    }
}

impl StoreMut for Raced<'_> {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        if let Some(other) = self.other.borrow_mut().take() {
            other();
        }
        self.store.write(fill)
    }
    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        self.store.swap(path, expected, new)
    }
    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.store.remove(path)
    }
}

#[test]
fn two_who_complete_one_publication_at_once_both_find_it_complete() {
    let world = World::new();
    let store = committed(&world, &notes(&world, 0..2_050));
    let latest = latest(&world, &store);
    let names = staged(&store);
    let staged_path = latest.staged_path();
    assert_eq!(names, [staged_path.clone(), format!("{staged_path}-1024"), format!("{staged_path}-2048")]);
    let chain = read_chain(&store, &world.pin, None).unwrap();
    let other = || assert!(complete(&store, &chain, &latest).unwrap());
    let raced = Raced { store: &store, other: RefCell::new(Some(Box::new(other))) };
    assert!(complete(&raced, &chain, &latest).unwrap());
    assert_eq!((world.verify_store(&store).faults, staged(&store)), (vec![], vec![]));
    // Where nobody completed it, a file that is gone is an error.
    let lost = committed(&world, &notes(&world, 0..2_050));
    lost.files.borrow_mut().remove(&names[1]);
    let said = complete(&lost, &chain, &latest).unwrap_err().to_string();
    assert_eq!(said, format!("`{}` is missing", names[1]));
}

#[test]
fn entries_that_somebody_slow_staged_from_further_back_are_completed_all_the_same() {
    let world = World::new();
    let early = world.store.copy();
    let all = notes(&world, 0..3);
    world.publish(&all[..1]).unwrap();
    // Whoever is second commits all of them and is stopped; whoever had begun before the first one stages the same log again.
    let store = committed(&world, &all);
    let path = latest(&world, &store).staged_path();
    let slow = {
        let world = World { store: early, ..World::new() };
        committed(&world, &all).get(&path)
    };
    assert!(slow.starts_with(b"capgate staged v1\n0\n") && store.get(&path) != slow);
    store.set(&path, slow.clone());
    assert_eq!(world.verify_store(&store).faults, []);
    let copy = Memory::default();
    follow(&world, &store, &copy).unwrap();
    world.publish_to(&store, &notes(&world, 3..4), false).unwrap();
    let report = world.verify_store(&store);
    assert_eq!((report.faults, report.entries), (vec![], 4));
    // A log that was signed and is none of its prefixes is still a fork.
    let forked = committed(&world, &all);
    forked.set(&path, slow);
    let other = World { store: World::new().store, ..World::new() };
    other.publish(&notes(&world, 7..8)).unwrap();
    forked.set("log/checkpoint", other.store.get("log/checkpoint"));
    let refused = world.publish_to(&forked, &[], true).unwrap_err().to_string();
    assert!(refused.starts_with("the checkpoint of 1 entries"), "{refused}");
}

/// What a thief of the registry key signs, who has no publisher's: a log of these entries that waits to be written out.
fn stolen(world: &World, entries: &[Vec<u8>]) -> Memory {
    let store = world.store.copy();
    let before = latest(world, &store);
    let log = append(&LogReader::new(&store, 0), &empty_root(), entries).unwrap();
    let latest =
        Latest { version: before.version + 1, log_size: log.size, log_root: log.root, ..before.clone() };
    let origin = support::origin();
    let checkpoint = Checkpoint { origin: origin.clone(), size: log.size, root: log.root };
    let checkpoint = note::sign(&checkpoint.to_text(), &[&world.registry]).unwrap();
    let mut staged = format!("capgate staged v1\n0\n{}\n", checkpoint.len()).into_bytes();
    staged.extend(checkpoint);
    for entry in entries {
        staged.extend(u16::try_from(entry.len()).unwrap().to_be_bytes());
        staged.extend(entry);
    }
    store.set(&latest.staged_path(), staged);
    store.set(&latest.snapshot_path(), store.get(&before.snapshot_path()));
    let text = note::compose(Kind::Latest, &origin, &latest.to_toml()).unwrap();
    store.set(latest::PATH, note::sign(&text, &[&world.registry]).unwrap());
    store
}

#[test]
fn attack_entries_that_wait_end_where_publishers_signed_nothing_and_where_they_repeat() {
    let world = World::new();
    let signed = notes(&world, 0..1).remove(0);
    for (entries, says) in [
        (vec![signed.clone(), vec![b'x']], "entry 1 that waits: "),
        (vec![signed.clone(), signed.clone()], "entry 1 that waits was logged too often"),
    ] {
        let store = stolen(&world, &entries);
        let chain = read_chain(&store, &world.pin, None).unwrap();
        let refused =
            committed_log(&store, &chain, &latest(&world, &store)).map(drop).unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
        let copy = Memory::default();
        let refused = follow(&world, &store, &copy).unwrap_err().to_string();
        assert!(refused.contains(says) && copy.files.borrow().is_empty(), "{refused}");
        let report = world.verify_store(&store);
        assert!(report.faults.iter().any(|fault| fault.what.contains(says)), "{report:?}");
    }
}
