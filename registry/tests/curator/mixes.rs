//! Mix and match: files of one version among those of another. What a reader accepts is one of the versions, never a third.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZero;

use capgate_registry::combination::Key;
use capgate_registry::merkle::Hash;
use capgate_registry::reader::{Anchor, Reader, Seen};
use capgate_registry::record::{Lookup, Record};
use capgate_registry::sync::sync;
use capgate_registry::verify::verify;

use super::honest::{History, day};
use crate::support::{Memory, first_key, profile};

/// Versions that are mixed: those that are fresh on one day.
const VERSIONS: std::ops::RangeInclusive<usize> = 1..=6;

/// What became of mixtures.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub tried: u64,
    /// Nothing could be asked.
    pub refused: u64,
    /// Accepted, and it is one of the versions as far as a reader can tell.
    pub honest: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mixtures, {} refused, {} an honest version", self.tried, self.refused, self.honest)
    }
}

/// What a reader can learn: which version this is, and what stands under each key, `None` for a doubt.
#[derive(Debug, PartialEq)]
struct State {
    version: u64,
    roots: (Hash, Hash),
    trust: u64,
    answers: Vec<Option<Option<Record>>>,
}

fn keys() -> Vec<Key> {
    [1, 2, 3, 4, 77].map(|digest| first_key(&profile("any-one", digest))).to_vec()
}

fn anchor(h: &History) -> Anchor {
    Anchor { pin: h.root, seen: Seen::default(), now: day(7) }
}

fn state(h: &History, store: &Memory) -> Option<State> {
    let reader = Reader::open(store, &anchor(h)).ok()?;
    let latest = reader.latest();
    let answers = keys().iter().map(|key| reader.lookup(key).ok()).collect();
    let roots = (latest.root, latest.log_root);
    Some(State { version: latest.version, roots, trust: latest.trust, answers })
}

fn honest(h: &History) -> BTreeMap<u64, State> {
    let states = VERSIONS.map(|version| state(h, h.version(version)).unwrap());
    states.map(|state| (state.version, state)).collect()
}

/// Every file that either version has, where the two differ.
fn differing(one: &Memory, other: &Memory) -> Vec<String> {
    let (one, other) = (one.files.borrow(), other.files.borrow());
    let paths: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    paths.into_iter().filter(|path| one.get(*path) != other.get(*path)).cloned().collect()
}

/// `base` with `path` as it is in `other`, or without it.
fn mix(base: &Memory, other: &Memory, path: &str) {
    let found = other.files.borrow().get(path).cloned();
    match found {
        Some(bytes) => base.set(path, bytes),
        None => drop(base.files.borrow_mut().remove(path)),
    }
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    VERSIONS.flat_map(|one| VERSIONS.map(move |other| (one, other))).filter(|(one, other)| one != other)
}

/// Takes every proper subset of the files in which two versions differ from one, and the rest from the other.
pub fn every_subset(h: &History) -> Counts {
    let honest = honest(h);
    let mut counts = Counts::default();
    // Subsets of (a, b) are the complements of those of (b, a).
    for (one, other) in pairs().filter(|(one, other)| one < other) {
        let paths = differing(h.version(one), h.version(other));
        for subset in 1..(1u32 << paths.len()) - 1 {
            let store = h.version(one).copy();
            let chosen = paths.iter().enumerate().filter(|(at, _)| subset & (1 << at) != 0);
            chosen.for_each(|(_, path)| mix(&store, h.version(other), path));
            counts.tried += 1;
            let Some(found) = state(h, &store) else {
                counts.refused += 1;
                continue;
            };
            assert_eq!(Some(&found), honest.get(&found.version), "{one} {other} {subset:b} {paths:?}");
            counts.honest += 1;
        }
    }
    counts
}

/// Takes each single file from one version and the rest from another, and lets an empty and an older copy follow.
pub fn every_file_synced(h: &History) -> Counts {
    let honest = honest(h);
    let mut counts = Counts::default();
    for (one, other) in pairs() {
        for path in differing(h.version(one), h.version(other)) {
            let store = h.version(one).copy();
            mix(&store, h.version(other), &path);
            for copy in [Memory::default(), h.version(2).copy()] {
                let before = state(h, &copy);
                counts.tried += 1;
                let synced = sync(&store, &copy, &anchor(h), NonZero::<usize>::MIN, &mut |_, _| {});
                let after = state(h, &copy);
                if synced.is_err() {
                    assert_eq!(after, before, "{one} {other} {path}");
                    counts.refused += 1;
                    continue;
                }
                let after = after.unwrap();
                assert_eq!(Some(&after), honest.get(&after.version), "{one} {other} {path}");
                let faults = verify(&copy, &h.root, day(7), &mut |_| {}).faults;
                assert_eq!(faults, [], "{one} {other} {path}");
                counts.honest += 1;
            }
        }
    }
    counts
}
