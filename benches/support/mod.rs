//! What the benchmarks share: a folder as a store, TEST keys, and registries of any size, built once.

#![allow(dead_code, reason = "each benchmark uses its own part")]

pub mod counting;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use capgate_registry::combination::Key;
use capgate_registry::keys::SigningKey;
use capgate_registry::merkle::Hash;
use capgate_registry::note::Origin;
use capgate_registry::profile::Profile;
use capgate_registry::publish::{self, Terms};
use capgate_registry::reader::{Anchor, Seen};
use capgate_registry::store::{Fill, Listed, ReadAt, Store, StoreError, StoreMut};
use capgate_registry::trust::{Role, Trust};
use jiff::{SignedDuration, Timestamp};

/// A folder without locks and syncs: benchmarks measure the registry, not the disk.
pub struct Plain(pub PathBuf);

struct Opened(File, u64);

impl ReadAt for Opened {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn size(&self) -> u64 {
        self.1
    }
}

impl Store for Plain {
    fn read(&self, path: &str, _cap: u64) -> Result<Vec<u8>, StoreError> {
        fs::read(self.0.join(path)).map_err(|e| StoreError::io(path, e))
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        let file = File::open(self.0.join(path)).map_err(|e| StoreError::io(path, e))?;
        let size = file.metadata().map_err(|e| StoreError::io(path, e))?.len();
        Ok(Box::new(Opened(file, size)))
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let mut found = Vec::new();
        for folder in ["snapshot", "log/staged"] {
            for entry in fs::read_dir(self.0.join(folder)).into_iter().flatten().flatten() {
                let name = entry.file_name().into_string().unwrap_or_default();
                found.push(Listed { path: format!("{folder}/{name}"), size: 0 });
            }
        }
        Ok(found)
    }
}

impl StoreMut for Plain {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        let temporary = self.0.join(".writing");
        let write = || -> io::Result<String> {
            let mut out = BufWriter::with_capacity(1 << 20, File::create(&temporary)?);
            let path = fill(&mut out)?;
            out.flush()?;
            let target = self.0.join(&path);
            fs::create_dir_all(target.parent().unwrap_or(&self.0))?;
            fs::rename(&temporary, target)?;
            Ok(path)
        };
        let mut write = write;
        write().map_err(|e| StoreError::io(".writing", e))
    }

    fn swap(&self, path: &str, _expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        self.put(path, new)
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        fs::remove_file(self.0.join(path)).map_err(|e| StoreError::io(path, e))
    }
}

const ORIGIN: &str = "registry.test/bench";

/// When everything here was signed.
pub fn start() -> Timestamp {
    Timestamp::from_second(1_796_083_200).unwrap_or_default()
}

/// TEST keys: their seeds are public and must never be trusted outside benchmarks.
fn key(name: &str, seed: u8) -> SigningKey {
    SigningKey::from_seed(name, [seed; 32]).unwrap_or_else(|e| panic!("{e}"))
}

/// A registry on disk and what it takes to read it.
pub struct Built {
    pub store: Plain,
    pub pin: Hash,
}

impl Built {
    pub fn anchor(&self) -> Anchor {
        let now = start() + SignedDuration::from_hours(1);
        Anchor { pin: self.pin, seen: Seen::default(), now }
    }
}

pub fn registry_key() -> SigningKey {
    key(ORIGIN, 3)
}

/// Where registries are kept between runs.
pub fn data() -> PathBuf {
    std::env::var_os("CAPGATE_BENCH_DATA").map_or_else(|| PathBuf::from("target/bench-data"), PathBuf::from)
}

/// The registry of `count` profiles under `target/bench-data`, built where it is not there yet.
pub fn registry(count: u64) -> Built {
    let store = Plain(data().join(count.to_string()));
    let done = store.0.join("done");
    if let Ok(pin) = fs::read_to_string(&done) {
        return Built { store, pin: pin.parse().unwrap_or_else(|e| panic!("{e}")) };
    }
    drop(fs::remove_dir_all(&store.0));
    fs::create_dir_all(&store.0).unwrap_or_else(|e| panic!("{e}"));
    let pin = build(&store, count);
    fs::write(done, pin.to_string()).unwrap_or_else(|e| panic!("{e}"));
    Built { store, pin }
}

fn build(store: &Plain, count: u64) -> Hash {
    let (root, publisher, registry) = (key("root.test", 1), key("publisher.test", 2), registry_key());
    let role = |key: &SigningKey| Role { threshold: 1, keys: vec![key.verifier().clone()] };
    let trust = Trust {
        version: 1,
        log_index: 0,
        issued: start(),
        expires: start() + SignedDuration::from_hours(24 * 365),
        root: role(&root),
        publisher: role(&publisher),
        registry: role(&registry),
        compromised: Vec::new(),
    };
    let origin = Origin::parse(ORIGIN).unwrap_or_else(|e| panic!("{e}"));
    let pin = publish::init(store, &origin, &trust, &[&root]).unwrap_or_else(|e| panic!("{e}"));
    let keys = [registry];
    let mut from = 0;
    while from < count {
        let to = count.min(from + 500_000);
        eprintln!("building {}: profiles {from} to {to}", store.0.display());
        let sign =
            |n| publish::sign_profile(&profile(n), &origin, &[&publisher]).unwrap_or_else(|e| panic!("{e}"));
        let notes: Vec<Vec<u8>> = (from..to).map(sign).collect();
        let terms =
            Terms { keys: &keys, now: start(), life: publish::LIFE, renew: false, threads: threads() };
        publish::publish(store, &pin, &notes, &terms, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
        from = to;
    }
    pin
}

/// A profile, signed for the registries here.
pub fn signed(n: u64) -> Vec<u8> {
    let origin = Origin::parse(ORIGIN).unwrap_or_else(|e| panic!("{e}"));
    let publisher = key("publisher.test", 2);
    publish::sign_profile(&profile(n), &origin, &[&publisher]).unwrap_or_else(|e| panic!("{e}"))
}

/// The key of profile `n`.
pub fn key_of(n: u64) -> Key {
    let profile = Profile::parse(profile(n).as_bytes()).unwrap_or_else(|e| panic!("{e:?}"));
    profile.keys().first().copied().unwrap_or_else(|| panic!("no key"))
}

/// A publishable profile with one piece of evidence, about 1,100 bytes.
pub fn profile(n: u64) -> String {
    let text = include_str!("../../tests/profiles/good.toml");
    text.replace("a-profile", &format!("bench-{n}")).replace(
        "28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7",
        &format!("{:064x}", n + 1),
    )
}

/// As many threads as there are processors.
pub fn threads() -> std::num::NonZero<usize> {
    std::thread::available_parallelism().unwrap_or(std::num::NonZero::<usize>::MIN)
}

/// Highest memory use of this process so far, in MiB (Linux).
pub fn peak_memory_mib() -> u64 {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() / 1024
}
