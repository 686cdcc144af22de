//! The registries before any attack. One history; what is shown of it differs.
//!
//! ```text
//! version  day    log             what happens
//! 1        1                      founded: two of two root keys, two of three publishers, one registry key
//! 2        2      0 1             `tested-one` and `other-one`
//! 3        3      2 3             `tested-two` supersedes `tested-one`; `third-one`
//! 4        4      4               `other-one` is revoked
//! 5        5                      trust 2: another registry key, `dave` for `carol`, whose key is compromised from 5 on
//! 6        6      5               `fourth-one`, signed by `dave`
//! 7        50                     renewed
//! ```

use std::num::NonZero;

use capgate_registry::keys::SigningKey;
use capgate_registry::merkle::Hash;
use capgate_registry::note::{self, Kind};
use capgate_registry::publish::{self, LIFE, Terms};
use capgate_registry::reader::{Anchor, Reader, Seen};
use capgate_registry::trust::{Compromised, Role, Trust};
use jiff::{SignedDuration, Timestamp};

use super::Honest;
use crate::support::{Memory, ORIGIN, key, origin, profile, profile_with, start, time};

/// TEST keys. Everybody has them.
pub struct Keys {
    pub roots: [SigningKey; 2],
    pub alice: SigningKey,
    pub bob: SigningKey,
    pub carol: SigningKey,
    pub dave: SigningKey,
    /// Retired with trust 2.
    pub first_registry: SigningKey,
    pub registry: SigningKey,
}

pub fn keys() -> Keys {
    Keys {
        roots: [key("root-a.test", 1), key("root-b.test", 11)],
        alice: key("alice.test", 2),
        bob: key("bob.test", 12),
        carol: key("carol.test", 22),
        dave: key("dave.test", 32),
        first_registry: key(ORIGIN, 3),
        registry: key(ORIGIN, 13),
    }
}

pub fn role(threshold: usize, keys: &[&SigningKey]) -> Role {
    Role { threshold, keys: keys.iter().map(|key| key.verifier().clone()).collect() }
}

pub fn day(day: i64) -> Timestamp {
    start() + SignedDuration::from_hours(24 * (day - 1))
}

/// The combination that every reader asks about: `tested-two` is in force for it.
pub fn wanted() -> String {
    profile("tested-one", 1)
}

/// The profile that is granted for [`wanted`].
pub const GRANTED: &str = "tested-two";

pub fn first_trust(keys: &Keys) -> Trust {
    Trust {
        version: 1,
        log_index: 0,
        issued: day(1),
        expires: time("2027-12-01T00:00:00Z"),
        root: role(2, &[&keys.roots[0], &keys.roots[1]]),
        publisher: role(2, &[&keys.alice, &keys.bob, &keys.carol]),
        registry: role(1, &[&keys.first_registry]),
        compromised: Vec::new(),
    }
}

pub fn second_trust(keys: &Keys) -> Trust {
    Trust {
        version: 2,
        log_index: 5,
        issued: day(5),
        publisher: role(2, &[&keys.alice, &keys.bob, &keys.dave]),
        registry: role(1, &[&keys.registry]),
        compromised: vec![Compromised { key: keys.carol.verifier().clone(), from: 5 }],
        ..first_trust(keys)
    }
}

pub fn sign_trust(trust: &Trust, keys: &[&SigningKey]) -> Vec<u8> {
    note::sign(&note::compose(Kind::Trust, &origin(), &trust.to_toml()).unwrap(), keys).unwrap()
}

pub fn sign_profile(toml: &str, keys: &[&SigningKey]) -> Vec<u8> {
    publish::sign_profile(toml, &origin(), keys).unwrap()
}

pub fn sign_revocation(id: &str, keys: &[&SigningKey]) -> Vec<u8> {
    let toml =
        format!("schema = \"1.0.0\"\nrevokes = \"{id}\"\nreason = \"a test\"\nseverity = \"harmful\"\n");
    publish::sign_revocation(&toml, &origin(), keys).unwrap()
}

/// Every published version, in order.
pub struct History {
    pub keys: Keys,
    pub root: Hash,
    pub versions: Vec<Memory>,
}

impl History {
    pub fn make() -> Self {
        let keys = keys();
        let store = Memory::default();
        let roots = [&keys.roots[0], &keys.roots[1]];
        let root = publish::init(&store, &origin(), &first_trust(&keys), &roots).unwrap();
        let mut made = Self { keys, root, versions: Vec::new() };
        let (alice, bob, carol) = (&made.keys.alice, &made.keys.bob, &made.keys.carol);
        let tested = profile_with("tested-two", 1, "supersedes = \"tested-one\"\n");
        let days = [
            vec![],
            vec![
                sign_profile(&profile("tested-one", 1), &[alice, bob]),
                sign_profile(&profile("other-one", 2), &[alice, carol]),
            ],
            vec![sign_profile(&tested, &[alice, bob]), sign_profile(&profile("third-one", 3), &[bob, carol])],
            vec![sign_revocation("other-one", &[alice])],
        ];
        for (at, notes) in (1..).zip(days) {
            let terms = terms(&made.keys.first_registry, day(at));
            publish::publish(&store, &root, &notes, &terms.as_terms(), &mut |_| {}).unwrap();
            made.versions.push(lean(&store));
        }
        let next = sign_trust(&second_trust(&made.keys), &roots_of(&made.keys));
        let terms = terms(&made.keys.registry, day(5));
        publish::rotate(&store, &root, &next, &terms.as_terms(), &mut |_| {}).unwrap();
        made.versions.push(lean(&store));
        let fourth = sign_profile(&profile("fourth-one", 4), &[&made.keys.alice, &made.keys.dave]);
        made.publish(&store, &[fourth], day(6));
        made.publish(&store, &[], day(50));
        made
    }

    fn publish(&mut self, store: &Memory, notes: &[Vec<u8>], now: Timestamp) {
        let terms = terms(&self.keys.registry, now);
        publish::publish(store, &self.root, notes, &terms.as_terms(), &mut |_| {}).unwrap();
        self.versions.push(lean(store));
    }

    /// Version N.
    pub fn version(&self, number: usize) -> &Memory {
        &self.versions[number - 1]
    }

    /// What the museum shows of it.
    pub fn shown(&self) -> Vec<Honest> {
        let shown =
            |name, about, number| Honest { name, about, store: self.version(number).copy(), root: self.root };
        vec![
            shown("honest", "Version 6: what every reader should hold.", 6),
            shown("honest-before", "Version 4, before the rotation: the copy of a guest that was away.", 4),
            shown("honest-renewed", "Version 7: version 6, signed anew on day 50.", 7),
        ]
    }

    /// What a reader of a version remembers.
    pub fn seen(&self, number: usize) -> Seen {
        let store = self.version(number);
        let latest = capgate_registry::reader::read_latest(
            store,
            &capgate_registry::reader::read_chain(store, &self.root, None).unwrap(),
        );
        let anchor = Anchor { pin: self.root, seen: Seen::default(), now: latest.unwrap().issued };
        Reader::open(store, &anchor).unwrap().seen()
    }
}

pub fn roots_of(keys: &Keys) -> [&SigningKey; 2] {
    [&keys.roots[0], &keys.roots[1]]
}

/// One registry key and a time.
struct By(Vec<SigningKey>, Timestamp);

impl By {
    fn as_terms(&self) -> Terms<'_> {
        Terms { keys: &self.0, now: self.1, life: LIFE, renew: true, threads: NonZero::<usize>::MIN }
    }
}

fn terms(key: &SigningKey, now: Timestamp) -> By {
    By(vec![SigningKey::parse(&key.encode().unwrap()).unwrap()], now)
}

/// Without what a published registry keeps for readers that are underway: older partial tiles and the snapshot before.
fn lean(store: &Memory) -> Memory {
    let chain = capgate_registry::reader::read_chain(store, &digest_of_first(store), None).unwrap();
    let latest = capgate_registry::reader::read_latest(store, &chain).unwrap();
    let lean = store.copy();
    let tiles: Vec<String> =
        capgate_registry::log::Tile::all(latest.log_size).map(|tile| tile.path()).collect();
    lean.files.borrow_mut().retain(|path, _| {
        let stale_tile = path.starts_with("log/tile/") && !tiles.contains(path);
        let stale_snapshot = path.ends_with(".snap") && *path != latest.snapshot_path();
        !stale_tile && !stale_snapshot
    });
    lean
}

fn digest_of_first(store: &Memory) -> Hash {
    Hash::of(&store.get("trust/1.note"))
}
