//! What the tests of the registry share: a store in memory that can fail, TEST keys, profiles.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Write};

use capgate_registry::combination::Key;
use capgate_registry::keys::SigningKey;
use capgate_registry::latest::{self, Latest};
use capgate_registry::merkle::Hash;
use capgate_registry::note::{self, Kind, Origin};
use capgate_registry::profile::Profile;
use capgate_registry::publish::{self, LIFE, Publication, PublishError, Terms};
use capgate_registry::reader::{Anchor, Reader, Seen, read_chain, read_latest};
use capgate_registry::record::{Doubt, Lookup};
use capgate_registry::store::{Fill, Listed, ReadAt, Store, StoreError, StoreMut};
use capgate_registry::trust::{Chain, Role, Trust};
use jiff::{SignedDuration, Timestamp};

/// Files in memory. `fail_at` counts operations that change something; the one it reaches fails, and so do all after.
#[derive(Default)]
pub struct Memory {
    pub files: RefCell<BTreeMap<String, Vec<u8>>>,
    pub operations: Cell<u64>,
    pub fail_at: Cell<Option<u64>>,
}

impl Memory {
    pub fn set(&self, path: &str, bytes: Vec<u8>) {
        self.files.borrow_mut().insert(path.to_owned(), bytes);
    }

    pub fn get(&self, path: &str) -> Vec<u8> {
        self.files.borrow().get(path).cloned().unwrap_or_else(|| panic!("no {path}"))
    }

    pub fn copy(&self) -> Self {
        Self { files: self.files.clone(), ..Self::default() }
    }

    fn step(&self, path: &str) -> Result<(), StoreError> {
        let now = self.operations.get();
        self.operations.set(now + 1);
        match self.fail_at.get() {
            Some(at) if now >= at => Err(StoreError::io(path, io::Error::other("the disk failed"))),
            _ => Ok(()),
        }
    }
}

struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
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

impl Store for Memory {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let files = self.files.borrow();
        let bytes = files.get(path).ok_or_else(|| StoreError::NotFound { path: path.to_owned() })?;
        let size = bytes.len() as u64;
        if size > cap {
            Err(StoreError::TooLarge { path: path.to_owned(), size, cap })
        } else {
            Ok(bytes.clone())
        }
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        Ok(Box::new(Bytes(self.read(path, u64::MAX)?)))
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let files = self.files.borrow();
        Ok(files.iter().map(|(path, b)| Listed { path: path.clone(), size: b.len() as u64 }).collect())
    }
}

/// Passes writes on until the store fails in the middle of one.
struct Failing<'m>(&'m Memory, Vec<u8>);

impl Write for Failing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.step("a write").map_err(io::Error::other)?;
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl StoreMut for Memory {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        self.step("create")?;
        let mut out = Failing(self, Vec::new());
        let path = fill(&mut out).map_err(|e| StoreError::io("a write", e))?;
        self.step("rename")?;
        self.set(&path, out.1);
        Ok(path)
    }

    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        self.step(path)?;
        if self.files.borrow().get(path).map(Vec::as_slice) != expected {
            return Err(StoreError::Conflict { path: path.to_owned() });
        }
        self.set(path, new.to_vec());
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        self.step(path)?;
        self.files.borrow_mut().remove(path);
        Ok(())
    }
}

pub const ORIGIN: &str = "registry.test/capgate";

pub fn origin() -> Origin {
    Origin::parse(ORIGIN).unwrap()
}

pub fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub fn start() -> Timestamp {
    time("2026-12-01T00:00:00Z")
}

/// A TEST key: its seed is public and it must never be trusted outside tests.
pub fn key(name: &str, seed: u8) -> SigningKey {
    SigningKey::from_seed(name, [seed; 32]).unwrap()
}

/// A registry with TEST keys: one root, one publisher, one registry key.
pub struct World {
    pub store: Memory,
    pub pin: Hash,
    pub publisher: SigningKey,
    pub registry: SigningKey,
    pub now: Timestamp,
}

impl World {
    pub fn new() -> Self {
        let (root, publisher, registry) = (key("root.test", 1), key("publisher.test", 2), key(ORIGIN, 3));
        let role = |key: &SigningKey| Role { threshold: 1, keys: vec![key.verifier().clone()] };
        let trust = Trust {
            version: 1,
            log_index: 0,
            issued: start(),
            expires: time("2027-12-01T00:00:00Z"),
            root: role(&root),
            publisher: role(&publisher),
            registry: role(&registry),
            compromised: Vec::new(),
        };
        let store = Memory::default();
        let pin = publish::init(&store, &origin(), &trust, &[&root]).unwrap();
        let world = Self { store, pin, publisher, registry, now: start() };
        world.publish(&[]).unwrap();
        world
    }

    pub fn publish(&self, notes: &[Vec<u8>]) -> Result<Publication, PublishError> {
        self.publish_to(&self.store, notes, false)
    }

    pub fn publish_to(
        &self,
        store: &Memory,
        notes: &[Vec<u8>],
        renew: bool,
    ) -> Result<Publication, PublishError> {
        let keys = [SigningKey::parse(&self.registry.encode().unwrap()).unwrap()];
        let terms =
            Terms { keys: &keys, now: self.now, life: LIFE, renew, threads: std::num::NonZero::<usize>::MIN };
        publish::publish(store, &self.pin, notes, &terms, &mut |_| {})
    }

    /// Puts the newest trust in force as nothing of ours would: no entry is held against it.
    pub fn force_trust(&self, trust: u64) {
        let chain = read_chain(&self.store, &self.pin, None).unwrap();
        let before = read_latest(&self.store, &chain).unwrap();
        let latest = Latest { version: before.version + 1, trust, ..before.clone() };
        self.store.set(&latest.snapshot_path(), self.store.get(&before.snapshot_path()));
        let text = note::compose(Kind::Latest, &origin(), &latest.to_toml()).unwrap();
        self.store.set(latest::PATH, note::sign(&text, &[&self.registry]).unwrap());
    }

    pub fn sign(&self, toml: &str) -> Vec<u8> {
        publish::sign_profile(toml, &origin(), &[&self.publisher]).unwrap()
    }

    pub fn revocation(&self, id: &str, severity: &str) -> Vec<u8> {
        let toml = format!(
            "schema = \"1.0.0\"\nrevokes = \"{id}\"\nreason = \"a test\"\nseverity = \"{severity}\"\n"
        );
        publish::sign_revocation(&toml, &origin(), &[&self.publisher]).unwrap()
    }

    pub fn anchor(&self) -> Anchor {
        Anchor { pin: self.pin, seen: Seen::default(), now: self.now + SignedDuration::from_hours(1) }
    }

    pub fn open(&self) -> Result<Reader, Doubt> {
        Reader::open(&self.store, &self.anchor())
    }

    pub fn verify(&self) -> capgate_registry::verify::Report {
        self.verify_store(&self.store)
    }

    pub fn verify_store(&self, store: &Memory) -> capgate_registry::verify::Report {
        capgate_registry::verify::verify(store, &self.pin, self.anchor().now, &mut |_| {})
    }

    /// What a lookup of `toml`'s first key gives: ids that are live there.
    pub fn live(&self, toml: &str) -> Vec<String> {
        let record = self.open().unwrap().lookup(&first_key(toml)).unwrap();
        let published = record.map(|r| r.published).unwrap_or_default();
        published.into_iter().filter(|p| p.revoked.is_none()).map(|p| p.profile.id.to_string()).collect()
    }
}

/// A chain of one version in which `publisher` is the only publisher, as a thief would compile with.
pub fn chain_with(publisher: &SigningKey) -> Chain {
    let role = |key: &SigningKey| Role { threshold: 1, keys: vec![key.verifier().clone()] };
    let trust = Trust {
        version: 1,
        log_index: 0,
        issued: start(),
        expires: time("2027-12-01T00:00:00Z"),
        root: role(&key("root.test", 1)),
        publisher: role(publisher),
        registry: role(&key(ORIGIN, 3)),
        compromised: Vec::new(),
    };
    let text = note::compose(Kind::Trust, &origin(), &trust.to_toml()).unwrap();
    let bytes = note::sign(&text, &[&key("root.test", 1)]).unwrap();
    Chain::open([bytes.as_slice()], &Hash::of(&bytes)).unwrap()
}

pub fn first_key(toml: &str) -> Key {
    Profile::parse(toml.as_bytes()).unwrap().keys()[0]
}

/// A small publishable profile; `digest` makes its combination.
pub fn profile(id: &str, digest: u64) -> String {
    profile_with(id, digest, "")
}

pub fn profile_with(id: &str, digest: u64, more: &str) -> String {
    format!(
        r#"schema = "1.0.0"
id = "{id}"
verdict = "override"
summary = "a test"
{more}
[host]
chip = "Apple M1 Ultra"
os = {{ version = "26.6.1", build = "25G76" }}
apple_family = 1007
max_threadgroup_memory = 32768
feature_level = "unrecorded"

[guest]
os = {{ version = "26.5.2", build = "25F84" }}
model = "VirtualMac2,1"
stock = {{ apple_family = 1005, max_threadgroup_memory = 32768 }}

[workload]
name = "llama-bench"
version = "b10167"
sha256 = "{:064x}"

[[override]]
apple_family_max = 1009
max_threadgroup_memory = 65536
acknowledges = ["above-host-family", "above-host-memory", "images-unrecorded"]

[[evidence]]
kind = "speed"
override = {{ apple_family_max = 1009, max_threadgroup_memory = 65536 }}
bundle = "sha256:{:064x}"
source = "https://example.org/bundle"
measured = 2026-08-09
[[evidence.test]]
name = "pp512"
stock = {{ n = 10, median = 431.8625, cv = 0.005 }}
override = {{ n = 10, median = 4786.7, cv = 0.005 }}
"#,
        digest + 1,
        7
    )
}
