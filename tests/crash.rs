//! The disk fails at every single operation, before it and in the middle of a write: a reader sees the old registry or
//! the new one, and the next publication completes what was interrupted.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use capgate::founding;
use capgate::world::folder::{Folder, PATIENCE};
use capgate::world::ops::{Disk, FileOps};
use capgate_registry::keys::SigningKey;
use capgate_registry::latest::Latest;
use capgate_registry::merkle::Hash;
use capgate_registry::note::Origin;
use capgate_registry::publish::{self, LIFE, Publication, PublishError, Terms};
use capgate_registry::reader::{Anchor, Reader, Seen};
use capgate_registry::record::{Doubt, Record};
use capgate_registry::store::Store as _;
use capgate_registry::trust::{Role, Trust};
use capgate_registry::verify::verify;
use jiff::Timestamp;

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// Before it does anything.
    Before,
    /// After half of the bytes; other operations fail before.
    Halfway,
}

/// A disk that dies at an operation and stays dead.
struct Dying {
    left: Cell<usize>,
    how: Failure,
    dead: Cell<bool>,
}

impl Dying {
    fn new(at: usize, how: Failure) -> Self {
        Self { left: Cell::new(at), how, dead: Cell::new(false) }
    }

    fn dies_now(&self) -> bool {
        if self.dead.get() {
            return true;
        }
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => self.dead.set(true),
        }
        self.dead.get()
    }

    fn step(&self) -> io::Result<()> {
        if self.dies_now() { Err(io::Error::other("the disk died")) } else { Ok(()) }
    }
}

impl FileOps for Dying {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        Disk.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        self.step()?;
        Disk.create(path)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        let was_alive = !self.dead.get();
        if let Err(e) = self.step() {
            if was_alive && self.how == Failure::Halfway {
                file.write_all(&bytes[..bytes.len() / 2]).unwrap();
            }
            return Err(e);
        }
        Disk.write(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.step()?;
        Disk.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        Disk.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        Disk.sync_dir(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        Disk.remove(path)
    }
}

/// A TEST key: its seed is public and it must never be trusted outside tests.
fn key(name: &str, seed: u8) -> SigningKey {
    SigningKey::from_seed(name, [seed; 32]).unwrap()
}

fn origin() -> Origin {
    Origin::parse(support::ORIGIN).unwrap()
}

fn start() -> Timestamp {
    support::NOW.parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    Timestamp::from_second(start().as_second() + seconds).unwrap()
}

fn shipped(id: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("profiles.d/{id}.toml"))).unwrap()
}

fn signed(id: &str) -> Vec<u8> {
    publish::sign_profile(&shipped(id), &origin(), &[&key("alice", 2)]).unwrap()
}

fn revocation(id: &str) -> Vec<u8> {
    let toml =
        format!("schema = \"1.0.0\"\nrevokes = \"{id}\"\nreason = \"a test\"\nseverity = \"harmful\"\n");
    publish::sign_revocation(&toml, &origin(), &[&key("alice", 2)]).unwrap()
}

/// One change of a registry.
#[derive(Clone, Copy)]
enum Change {
    Init,
    First,
    Second,
    Revoke,
    Renew,
}

/// Everything that leads up to the last one.
const HISTORY: [Change; 5] = [Change::Init, Change::First, Change::Second, Change::Revoke, Change::Renew];

fn trust(now: Timestamp) -> Trust {
    let role = |key: SigningKey| Role { threshold: 1, keys: vec![key.verifier().clone()] };
    Trust {
        version: 1,
        log_index: 0,
        issued: now,
        expires: "2027-12-01T00:00:00Z".parse().unwrap(),
        root: role(key("root", 1)),
        publisher: role(key("alice", 2)),
        registry: role(key(support::ORIGIN, 3)),
        compromised: Vec::new(),
    }
}

impl Change {
    fn make<O: FileOps>(self, folder: &Folder<O>, at: i64) -> Result<Publication, PublishError> {
        let _lock = folder.lock(PATIENCE).map_err(|e| PublishError::Staged(e.to_string()))?;
        let keys = [key(support::ORIGIN, 3)];
        let now = later(at);
        let terms =
            |renew| Terms { keys: &keys, now, life: LIFE, renew, threads: std::num::NonZero::<usize>::MIN };
        let notes = match self {
            Self::Init => {
                let founded =
                    founding::found(folder, &origin(), &trust(now), &[&key("root", 1)], &terms(false))?;
                return Ok(founded.publication);
            }
            Self::First => vec![signed(support::B10167)],
            Self::Second => vec![signed(support::B10359), signed("m1-ultra-25g76-25f84-mlx-lm-0-31-3")],
            Self::Revoke => vec![revocation(support::B10359)],
            Self::Renew => vec![],
        };
        let renew = matches!(self, Self::Renew);
        publish::publish(folder, &pin(folder.root()), &notes, &terms(renew), &mut |_| {})
    }
}

fn pin(root: &Path) -> Hash {
    Hash::of(&fs::read(root.join("trust/1.note")).unwrap_or_default())
}

/// What a reader sees: what is in force, and every record.
type Sight = Result<(Latest, Vec<Record>), String>;

fn look(root: &Path) -> Sight {
    let folder = Folder::new(root);
    let anchor = Anchor { pin: pin(root), seen: Seen::default(), now: later(1_000) };
    match Reader::open(&folder, &anchor) {
        Ok(reader) => {
            let records: Result<Vec<Record>, Doubt> = reader.records().collect();
            Ok((reader.latest().clone(), records.unwrap()))
        }
        Err(Doubt::Missing(_)) => Err("no registry".to_owned()),
        Err(doubt) => panic!("neither the old nor the new registry: {doubt}"),
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn check(root: &Path, at: usize) {
    let folder = Folder::new(root);
    let report = verify(&folder, &pin(root), later(1_000), &mut |_| {});
    assert!(report.faults.is_empty(), "operation {at}: {:?}", report.faults);
    assert!(report.notes.is_empty(), "operation {at}: {:?}", report.notes);
    let listed = folder.list().unwrap();
    assert!(listed.iter().all(|file| !file.path.starts_with("log/staged/")), "{listed:?}");
    let left: Vec<PathBuf> = fs::read_dir(root.join(".tmp")).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(left.is_empty(), "operation {at}: {left:?}");
}

/// Lets `change` fail at every operation, on copies of the registry in `before`.
fn fail_everywhere(change: Change, before: &Path, at: i64, how: Failure) -> usize {
    let old = look(before);
    let done = tempfile::tempdir().unwrap();
    copy(before, done.path());
    change.make(&Folder::new(done.path()), at).unwrap();
    let new = look(done.path());
    for operation in 0.. {
        let copied = tempfile::tempdir().unwrap();
        copy(before, copied.path());
        let dying = Folder::with_ops(copied.path(), Dying::new(operation, how));
        if change.make(&dying, at).is_ok() {
            assert_eq!(look(copied.path()), new);
            return operation;
        }
        let seen = look(copied.path());
        assert!(seen == old || seen == new, "operation {operation}: {seen:?}");
        // The same again completes it, or finds that it was done; after it everything is as if nothing had failed.
        let again = change.make(&Folder::new(copied.path()), at);
        if let Err(e) = again {
            assert!(!is_repeatable(change) && seen == new, "operation {operation}: {e}");
            let empty: &[Vec<u8>] = &[];
            complete(copied.path(), empty, at);
        }
        check(copied.path(), operation);
        let (seen, wanted) = (look(copied.path()).unwrap(), new.as_ref().unwrap());
        assert_eq!(seen.1, wanted.1, "operation {operation}");
        assert!(seen.0.version >= wanted.0.version && seen.0.log_root == wanted.0.log_root);
    }
    panic!("it never succeeds")
}

/// A second `init` and a second revocation of one profile are refused, and say so.
fn is_repeatable(change: Change) -> bool {
    !matches!(change, Change::Init | Change::Revoke)
}

fn complete(root: &Path, notes: &[Vec<u8>], at: i64) {
    let folder = Folder::new(root);
    let _lock = folder.lock(PATIENCE).unwrap();
    let keys = [key(support::ORIGIN, 3)];
    let terms = Terms {
        keys: &keys,
        now: later(at),
        life: LIFE,
        renew: false,
        threads: std::num::NonZero::<usize>::MIN,
    };
    publish::publish(&folder, &pin(root), notes, &terms, &mut |_| {}).unwrap();
}

fn fail_through_history(how: Failure) {
    let registry = tempfile::tempdir().unwrap();
    for (at, change) in (0..).zip(HISTORY) {
        let operations = fail_everywhere(change, registry.path(), at, how);
        assert!(operations > 10, "{operations}");
        println!("{operations} operations failed one by one");
        change.make(&Folder::new(registry.path()), at).unwrap();
    }
}

#[test]
fn a_failure_before_any_operation_leaves_the_old_or_the_new_registry() {
    fail_through_history(Failure::Before);
}

#[test]
fn a_half_written_file_leaves_the_old_or_the_new_registry() {
    fail_through_history(Failure::Halfway);
}

#[test]
fn two_publishers_at_once_both_land() {
    let world = support::World::new();
    let start = |id: &str| {
        let mut command = world.command();
        let args =
            ["publish", id, "--key", "alice.key", "--registry-key", "registry.key", "--now", support::NOW];
        command.args(args).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let both = [start(support::B10167), start(support::B10359)];
    for child in both {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let listed = world.run(&format!("list --format json --now {}", support::NOW)).ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    world.run(&format!("verify --now {}", support::NOW)).ok();
}

#[test]
fn a_publisher_that_waits_too_long_says_why() {
    let registry = tempfile::tempdir().unwrap();
    let folder = Folder::new(registry.path());
    let _held = folder.lock(PATIENCE).unwrap();
    let error = Folder::new(registry.path()).lock(std::time::Duration::from_millis(10)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("another publication is running on `{}`", registry.path().display())
    );
}
