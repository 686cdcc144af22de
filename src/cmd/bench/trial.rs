//! The throwaway prefix of an override arm: a library, a registry of its own with an origin `trial/…`, a policy, a restated
//! host statement and a log.
//!
//! Its keys are made in memory and never written. It is made before one process and removed behind it; what a bench that
//! was killed left is removed by the next one, which knows it by its lock that nobody holds.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use capgate_guest::prefix::{LIBRARY, Prefix};
use capgate_policy::host::HostStatement;
use capgate_policy::line::Line;
use capgate_registry::combination::{Hex, Sha256Digest};
use capgate_registry::evidence::manifest::Host;
use capgate_registry::keys::SigningKey;
use capgate_registry::merkle::Hash;
use capgate_registry::note::{self, Kind, Origin};
use capgate_registry::publish::{self, Terms};
use capgate_registry::trust::{Role, Trust};
use jiff::{SignedDuration, Timestamp};

use crate::cmd::install::make_folder;
use crate::cmd::prefix;
use crate::decision_log;
use crate::exit::Failure;
use crate::founding;
use crate::installed::{LOGS, REGISTRY, STATE};
use crate::world::folder::Folder;
use crate::world::place::Place;
use crate::world::{clock, file, home};

/// Largest log of one process that is read.
const MAX_LOG: u64 = 1 << 20;

/// Where trials are made.
#[derive(Debug)]
pub struct Trials {
    folder: PathBuf,
}

impl Trials {
    /// The folder of this user's trials, which nobody else can write. It is made if it is not there.
    pub fn open() -> Result<Self, Failure> {
        let help =
            "set `XDG_STATE_HOME` to a folder that only you can write, in folders that nobody else can";
        let state = home::state()
            .ok_or_else(|| Failure::failed("there is no home folder to try values in").help(help))?;
        let folder = prefix::plain(&state.join("capgate/trials"))?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|e| not_made(&folder, &e))?;
        prefix::open(&folder).map_err(|failure| failure.help(help))?;
        Ok(Self { folder })
    }

    /// Removes what benches that were killed have left, and says how many trials that were.
    pub fn sweep() -> usize {
        let Some(folder) = home::state().map(|state| state.join("capgate/trials")) else { return 0 };
        let Ok(_alone) = Place::open(&folder).and_then(Place::lock) else { return 0 };
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let dead = entries.filter(|entry| {
            // Whoever made it holds the lock as long as it lives.
            Place::open(&entry.path()).and_then(Place::lock).is_ok()
        });
        dead.filter(|entry| fs::remove_dir_all(entry.path()).is_ok()).count()
    }

    /// Makes a prefix with that library, in which one profile counts, or none.
    pub fn make(&self, plan: &Plan<'_>) -> Result<Trial, Failure> {
        let name = Hex::<8>(file::random().map_err(|e| not_made(&self.folder, &e))?).to_string();
        let root = self.folder.join(&name);
        // Nobody sweeps between the folder and its lock.
        let alone = self.alone()?;
        make_folder(&root, 0o700).map_err(|e| not_made(&root, &e))?;
        let lock = Place::open(&root).and_then(Place::lock).map_err(|e| not_made(&root, &e))?;
        drop(alone);
        let trial = Trial { root, origin: format!("trial/{name}"), _lock: lock };
        trial.fill(plan)?;
        Ok(trial)
    }

    fn alone(&self) -> Result<File, Failure> {
        let error = |e: std::io::Error| not_made(&self.folder, &e);
        let folder = File::open(&self.folder).map_err(error)?;
        folder.lock().map_err(error)?;
        Ok(folder)
    }
}

/// What a trial is made of.
#[derive(Debug)]
pub struct Plan<'a> {
    /// capgate's own library.
    pub library: &'a Path,
    /// Its SHA-256.
    pub shim: Sha256Digest,
    /// The profile, where one is to count.
    pub profile: Option<String>,
    /// The Mac.
    pub host: &'a Host,
    /// How long the process may take, in seconds.
    pub seconds: u64,
}

/// A trial. It is removed when it is dropped.
#[derive(Debug)]
pub struct Trial {
    root: PathBuf,
    /// The origin of its registry.
    pub origin: String,
    _lock: File,
}

impl Trial {
    fn fill(&self, plan: &Plan<'_>) -> Result<(), Failure> {
        let folders = ["lib", "etc", STATE, REGISTRY, "var", "var/log", LOGS];
        for folder in folders.map(|name| self.root.join(name)) {
            make_folder(&folder, 0o700).map_err(|e| not_made(&folder, &e))?;
        }
        self.copy(plan)?;
        let now = clock::now(None);
        let keys = Keys::make(&self.origin)?;
        let pin = self.publish(plan, &keys, now)?;
        let site =
            format!("schema = \"1.0.0\"\nmode = \"enforce\"\nhost_keys = [\"{}\"]\n", keys.host.verifier());
        self.put("root.note", format!("sha256:{pin}\n").as_bytes())?;
        self.put("site.toml", site.as_bytes())?;
        self.put("host.note", &statement(plan, &keys, now)?)?;
        self.put(capgate_guest::trial::NAME, format!("{}\n", std::process::id()).as_bytes())
    }

    fn copy(&self, plan: &Plan<'_>) -> Result<(), Failure> {
        let error = |e| not_made(&self.library(), &e);
        let mut library = file::open_regular(plan.library).map_err(error)?;
        let place = Place::open(&self.root.join("lib")).map_err(error)?;
        let copied = place.create(OsStr::new(LIBRARY), &mut library, 0o755).map_err(error)?;
        if copied == plan.shim {
            return Ok(());
        }
        Err(Failure::failed(format!("the library `{}` changed meanwhile", plan.library.display()))
            .help("begin again: what was measured before was measured with another one"))
    }

    /// Signs it for as long as the process may run, and no longer.
    fn publish(&self, plan: &Plan<'_>, keys: &Keys, now: Timestamp) -> Result<Hash, Failure> {
        let error = |e: &dyn std::fmt::Display| Failure::failed(format!("the trial cannot be signed: {e}"));
        let role = |key: &SigningKey| Role { threshold: 1, keys: vec![key.verifier().clone()] };
        let trust = Trust {
            version: 1,
            log_index: 0,
            issued: now,
            expires: later(now, plan.seconds)?,
            root: role(&keys.root),
            publisher: role(&keys.publisher),
            registry: role(&keys.registry),
            compromised: Vec::new(),
        };
        let life = trust.expires.duration_since(now);
        let signers = std::slice::from_ref(&keys.registry);
        let terms =
            Terms { keys: signers, now, life, renew: false, threads: std::num::NonZero::<usize>::MIN };
        let folder = Folder::new(self.root.join(REGISTRY));
        let founded =
            founding::found(&folder, &keys.origin, &trust, &[&keys.root], &terms).map_err(|e| error(&e))?;
        if let Some(profile) = &plan.profile {
            let note =
                publish::sign_profile(profile, &keys.origin, &[&keys.publisher]).map_err(|e| error(&e))?;
            publish::publish(&folder, &founded.root, &[note], &terms, &mut |_| {}).map_err(|e| error(&e))?;
        }
        Ok(founded.root)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let folder = self.root.join(STATE);
        let written = Place::open(&folder).and_then(|place| place.replace(OsStr::new(name), bytes, 0o600));
        written.map_err(|e| not_made(&folder.join(name), &e))
    }

    /// The library to insert.
    pub fn library(&self) -> PathBuf {
        self.root.join("lib").join(LIBRARY)
    }

    /// What was decided in it so far.
    pub fn decisions(&self) -> Vec<Line> {
        let user = rustix::process::getuid().as_raw();
        let log = Prefix::at(&self.root).and_then(|prefix| prefix.log(user));
        let bytes = log.ok().and_then(|log| file::read(&log, MAX_LOG).ok()).unwrap_or_default();
        decision_log::read(&bytes).0
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // What cannot be removed now, the next bench removes.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Keys that live as long as the making of one trial.
struct Keys {
    origin: Origin,
    root: SigningKey,
    publisher: SigningKey,
    registry: SigningKey,
    host: SigningKey,
}

impl Keys {
    fn make(origin: &str) -> Result<Self, Failure> {
        let error = |e: &dyn std::fmt::Display| Failure::failed(format!("no key can be made: {e}"));
        let key = |name: &str| {
            let seed = file::random().map_err(|e| error(&e))?;
            SigningKey::from_seed(name, seed).map_err(|e| error(&e))
        };
        Ok(Self {
            origin: Origin::parse(origin).map_err(|e| error(&e))?,
            root: key("root.trial")?,
            publisher: key("publisher.trial")?,
            registry: key(origin)?,
            host: key("host.trial")?,
        })
    }
}

/// Says again, under the trial's origin, what is known of the host.
fn statement(plan: &Plan<'_>, keys: &Keys, now: Timestamp) -> Result<Vec<u8>, Failure> {
    let statement = HostStatement {
        chip: plan.host.chip.clone(),
        os: plan.host.os.clone(),
        feature_level: plan.host.feature_level,
        mac_addresses: Vec::new(),
        least_version: 0,
        issued: now,
        expires: later(now, plan.seconds)?,
    };
    let text = note::compose(Kind::Host, &keys.origin, &statement.to_toml());
    let signed = text.and_then(|text| note::sign(&text, &[&keys.host]));
    signed.map_err(|e| Failure::failed(format!("the trial's statement cannot be signed: {e}")))
}

/// Some minutes more than the process may take.
fn later(now: Timestamp, seconds: u64) -> Result<Timestamp, Failure> {
    let life =
        SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(86_400)) + SignedDuration::from_mins(10);
    now.checked_add(life).map_err(|_| Failure::failed("the clock of this machine is set to the end of time"))
}

fn not_made(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("`{}` cannot be made for the trial: {error}", path.display()))
}
