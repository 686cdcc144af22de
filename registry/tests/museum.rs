//! A museum of hostile registries: each is refused, with its own reason.
//!
//! `registry/tests/museum/` holds one folder for each case as it would be served, and `case.toml` beside it: the attack,
//! what the attacker must hold, the reader that meets it, and what lookup, `verify` and `sync` must say. The tests read
//! the folders as they are checked in. `CAPGATE_BLESS=1 cargo test -p capgate-registry --test museum` makes them anew
//! from TEST keys; without it the folders must be what would be made, byte for byte.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking"
)]

mod curator;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use capgate_registry::reader::{Anchor, Seen};
use capgate_registry::store::Store;
use curator::case::{Says, Told};
use curator::honest::{GRANTED, History, day};
use curator::judge::{Silent, fits, lookup, lookup_says, proof_says, sync_says, verify_says};
use curator::readme::readme;
use curator::{Case, Group, groups};
use support::Memory;

/// A proof in a folder of the museum.
const PROOF: &str = "registry.proof";

/// Every file under `folder`, by its name within it.
fn read_all(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// The folder, made anew first where that is asked for.
fn museum() -> PathBuf {
    static ONCE: Once = Once::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/museum");
    ONCE.call_once(|| {
        if std::env::var_os("CAPGATE_BLESS").is_some() {
            let history = History::make();
            let _ = fs::remove_dir_all(&folder);
            for (name, bytes) in made(&history, &groups(&history)) {
                let path = folder.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
        }
    });
    folder
}

/// The registry that stands in a folder of the museum.
fn checked_in(name: &str) -> Memory {
    let store = Memory::default();
    if name == "nothing" {
        return store;
    }
    for (path, bytes) in read_all(&museum().join(name).join("registry")) {
        store.set(&path, bytes);
    }
    assert!(!store.files.borrow().is_empty(), "{name} has no registry");
    store
}

/// Everything that the museum should hold.
fn made(history: &History, groups: &[Group]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut put = |name: &str, store: &Memory| {
        for (path, bytes) in store.files.borrow().iter() {
            files.insert(format!("{name}/registry/{path}"), bytes.clone());
        }
    };
    for honest in history.shown() {
        put(honest.name, &honest.store);
    }
    for case in groups.iter().flat_map(|group| &group.cases).filter(|case| !case.told.made_by_test) {
        put(case.name, &case.store);
    }
    for case in groups.iter().flat_map(|group| &group.cases) {
        let proof = case.proof.iter().map(|proof| (format!("{}/{PROOF}", case.name), proof.clone()));
        files.extend(proof);
        files.insert(format!("{}/case.toml", case.name), case.told.to_toml().into_bytes());
    }
    files.insert("README.md".to_owned(), readme(&history.shown(), groups).into_bytes());
    files
}

#[test]
fn the_museum_is_what_its_generator_makes() {
    let history = History::make();
    let made = made(&history, &groups(&history));
    let found = read_all(&museum());
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&made), "CAPGATE_BLESS=1 writes the museum anew");
    for (name, bytes) in &made {
        assert!(found[name] == *bytes, "{name} is not what is made: CAPGATE_BLESS=1 writes the museum anew");
    }
}

#[test]
fn honest_registries_are_granted() {
    let history = History::make();
    for honest in history.shown() {
        let store = checked_in(honest.name);
        let now = curator::thief::latest_of(&store).issued;
        let anchor = Anchor { pin: honest.root, seen: Seen::default(), now };
        assert_eq!(lookup(&store, &anchor), Ok(vec![GRANTED.to_owned()]), "{}", honest.name);
        let (report, _) = verify_says(&store, &honest.root, now);
        assert_eq!((report.faults, report.notes), (vec![], vec![]), "{}", honest.name);
    }
}

/// A refusal leaves every file as it was. What may be new is trust, which its own signatures vouch for, and a snapshot
/// that nothing names.
fn kept(before: &BTreeMap<String, Vec<u8>>, copy: &Memory) -> bool {
    let after = copy.files.borrow();
    let new = after.keys().filter(|path| !before.contains_key(*path));
    before.iter().all(|(path, bytes)| after.get(path) == Some(bytes))
        && new.into_iter().all(|path| path.starts_with("trust/") || path.ends_with(".snap"))
}

/// What is wrong with what the readers say of a case.
fn judge(name: &str, told: &Told, store: &dyn Store) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut hold = |reader: &str, expected: &Says, found: &[Says]| {
        if !found.iter().any(|found| fits(expected, found)) {
            wrong.push(format!("{name}: {reader}\n    should say {expected:?}\n    and says   {found:?}"));
        }
    };
    hold("lookup", &told.lookup, &[lookup_says(store, told)]);
    if let Some(expected) = &told.verify {
        let (_, mut said) = verify_says(store, &told.root, told.now);
        if said.is_empty() {
            said.push(Says::Accepts("no fault".to_owned()));
        }
        hold("verify", expected, &said);
    }
    if let Some(expected) = &told.sync {
        let copy = checked_in(&told.copy);
        let before = copy.files.borrow().clone();
        let said = sync_says(store, &copy, told);
        let unchanged = kept(&before, &copy);
        hold("sync", expected, std::slice::from_ref(&said));
        let (report, _) = verify_says(&copy, &told.root, told.now);
        let still_nothing = told.copy == "nothing" && matches!(said, Says::Refuses { .. });
        if !still_nothing && !report.faults.is_empty() {
            wrong.push(format!("{name}: after sync the copy has {:?}", report.faults));
        }
        if matches!(said, Says::Refuses { .. }) && !unchanged {
            wrong.push(format!("{name}: sync refused and changed the copy"));
        }
    }
    wrong
}

fn judge_proof(name: &str, told: &Told) -> Vec<String> {
    let said = proof_says(&fs::read(museum().join(name).join(PROOF)).unwrap(), told);
    let wrong = !fits(&told.lookup, &said);
    wrong
        .then(|| format!("{name}: lookup\n    should say {:?}\n    and says   {said:?}", told.lookup))
        .into_iter()
        .collect()
}

#[test]
fn every_case_is_refused_with_its_own_reason() {
    let history = History::make();
    let groups = groups(&history);
    let mut wrong = Vec::new();
    let mut refusals = [0; 3];
    let mut count = 0;
    for case in groups.iter().flat_map(|group| &group.cases) {
        let Case { name, .. } = *case;
        let toml = fs::read(museum().join(name).join("case.toml")).unwrap_or_default();
        let told = Told::parse(name, &toml);
        wrong.extend(match &case.proof {
            Some(_) => judge_proof(name, &told),
            None if case.silent.is_some() => {
                judge(name, &told, &Silent { store: &case.store, path: case.silent.unwrap() })
            }
            None if told.made_by_test => judge(name, &told, &case.store),
            None => judge(name, &told, &checked_in(name)),
        });
        wrong.extend(twin(name, &told));
        let said = [Some(&told.lookup), told.verify.as_ref(), told.sync.as_ref()];
        let refused = said.map(|said| matches!(said, Some(Says::Refuses { .. })));
        assert!(refused.contains(&true), "{name} is refused by nobody");
        let granted = matches!(&told.lookup, Says::Accepts(id) if id != GRANTED);
        assert!(!granted || told.limit.is_some(), "{name}: something else is granted, and nothing says why");
        refusals.iter_mut().zip(refused).for_each(|(sum, refused)| *sum += usize::from(refused));
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let [lookups, verifications, syncs] = refusals;
    println!("{count} cases: {lookups} refused by a lookup, {verifications} by verify, {syncs} by sync");
}

/// The same reader accepts what stood there before the attack.
fn twin(name: &str, told: &Told) -> Option<String> {
    let store = checked_in(&told.twin);
    let anchor = Anchor { pin: told.root, seen: told.seen, now: told.twin_now.unwrap_or(told.now) };
    let granted = lookup(&store, &anchor);
    let faults = verify_says(&store, &told.root, anchor.now).1;
    let sound = granted.as_deref() == Ok(&[GRANTED.to_owned()]) && faults.is_empty();
    (!sound).then(|| format!("{name}: the twin `{}` gives {granted:?}, {faults:?}", told.twin))
}

/// The museum's snapshots are written by code of its own, so that the order of records can be wrong.
#[test]
fn what_the_thief_writes_is_the_format() {
    let history = History::make();
    for version in [1, 2, 3, 4, 5, 6, 7] {
        let store = history.version(version);
        let records: Vec<Vec<u8>> =
            curator::thief::records_of(store).iter().map(|record| record.encode()).collect();
        let (file, root) = curator::thief::snapshot_file(&records);
        let latest = curator::thief::latest_of(store);
        assert_eq!(root, latest.root);
        assert!(file == store.get(&latest.snapshot_path()), "version {version}");
    }
    assert_eq!(day(1), support::start());
}

#[test]
fn no_mixture_of_two_versions_is_a_third() {
    let history = History::make();
    let counts = curator::mixes::every_subset(&history);
    println!("every subset of files of every two of 6 versions: {counts}");
    assert!(counts.tried > 1_000 && counts.refused > 0 && counts.honest > 0);
    let counts = curator::mixes::every_file_synced(&history);
    println!("every single file of every two of 6 versions, fetched by two copies: {counts}");
    assert!(counts.tried > 400 && counts.refused > 0 && counts.honest > 0);
}
