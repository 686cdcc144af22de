//! What a witness remembers: the newest checkpoint of each log that it cosigned, and what contradicted it.
//!
//! ```text
//! witness                      the public key that this is the memory of
//! logs/HEX                     the checkpoint that was cosigned last; HEX is the SHA-256 of the log's origin
//! evidence/HEX/SIZE-ROOT       both checkpoints of one size that a log signed
//! ```
//!
//! What is cosigned is on the disk, under its name, before the cosignature is made. So a stop at any moment loses at most a
//! cosignature that nobody got, and never the memory of one that somebody has.

use std::fs;
use std::path::Path;
use std::time::Duration;

use capgate_registry::keys::SignError;
use capgate_registry::log::Checkpoint;
use capgate_registry::merkle::Hash;
use capgate_registry::store::{Store, StoreError, StoreMut};
use capgate_registry::trust::Role;
use capgate_registry::witness::{Held, Refusal, Request, WitnessKey, WitnessSigner, judge};
use jiff::Timestamp;

use crate::cli::WitnessArgs;
use crate::cmd::keys;
use crate::exit::Failure;
use crate::world::folder::{Folder, Lock, LockError};

const OWNER: &str = "witness";
/// Most bytes of a checkpoint that was written down.
const MAX_HELD: u64 = 16 * 1024;
/// Most bytes of a version's number.
const MAX_VERSION: u64 = 21;
/// Most checkpoints that are kept as evidence against one log: two of them prove it.
const MAX_EVIDENCE: usize = 64;
/// How long another one that uses the same memory is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// A witness with its memory, which nobody else uses meanwhile.
pub struct Memory {
    folder: Folder,
    signer: WitnessSigner,
    _lock: Lock,
}

/// Why there is no cosignature.
#[derive(Debug, thiserror::Error)]
pub enum NotCosigned {
    /// The request does not deserve one.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The key cannot sign where it is kept.
    #[error(transparent)]
    Key(#[from] SignError),
    /// The memory is damaged or cannot be written, so that nothing may be signed.
    #[error("{0}")]
    Memory(String),
}

impl From<StoreError> for NotCosigned {
    fn from(error: StoreError) -> Self {
        Self::Memory(error.to_string())
    }
}

/// Makes an empty memory for a key; one that is there already stays as it is.
pub fn create(args: &WitnessArgs) -> Result<WitnessKey, Failure> {
    let signer = WitnessSigner::new(keys::read(&args.key, &[])?);
    let shown = args.state.display();
    fs::create_dir_all(&args.state)
        .map_err(|e| Failure::failed(format!("the folder `{shown}` cannot be made: {e}")))?;
    let folder = Folder::new(&args.state);
    let _lock = lock(&folder)?;
    let line = format!("{}\n", signer.verifier());
    match folder.swap(OWNER, None, line.as_bytes()) {
        Ok(()) => Ok(signer.verifier().clone()),
        Err(StoreError::Conflict { .. }) => {
            check_owner(&folder, signer.verifier())?;
            Ok(signer.verifier().clone())
        }
        Err(e) => Err(Failure::failed(format!("`{shown}`: {e}"))),
    }
}

impl Memory {
    /// Opens the memory of a witness, and keeps others out.
    pub fn open(args: &WitnessArgs) -> Result<Self, Failure> {
        let folder = existing(&args.state)?;
        let known = owner(&args.state)?.parse().ok().map(|owner: WitnessKey| owner.key().clone());
        let signer = WitnessSigner::new(keys::read(&args.key, known.as_slice())?);
        let lock = lock(&folder)?;
        check_owner(&folder, signer.verifier())?;
        // A folder that was made just before a kill may not be on the disk yet.
        folder.settle().map_err(|e| Failure::failed(format!("`{}`: {e}", args.state.display())))?;
        Ok(Self { folder, signer, _lock: lock })
    }

    /// Whose it is.
    pub fn verifier(&self) -> &WitnessKey {
        self.signer.verifier()
    }

    /// The checkpoint of a log that was cosigned last.
    pub fn held(&self, origin: &str) -> Result<Option<Held>, NotCosigned> {
        let path = path_of(origin);
        match self.folder.read(&path, MAX_HELD) {
            Ok(bytes) => Held::parse(bytes, origin)
                .map(Some)
                // To go on as if nothing had been cosigned could sign a second history.
                .map_err(|e| NotCosigned::Memory(format!("`{path}` is damaged: {e}"))),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Judges a request, writes down what is to be cosigned, and then cosigns it: a signature line.
    pub fn cosign(&mut self, request: &Request, log: &Role, now: Timestamp) -> Result<String, NotCosigned> {
        let origin = request.checkpoint.origin.as_str();
        let held = self.held(origin)?;
        match judge(request, log, held.as_ref()) {
            Ok(()) => {}
            Err(split @ Refusal::Split { .. }) => {
                if let Some(held) = &held {
                    self.keep(origin, &held.checkpoint, &held.bytes)?;
                }
                self.keep(origin, &request.checkpoint, &request.bytes)?;
                return Err(split.into());
            }
            Err(refusal) => return Err(refusal.into()),
        }
        // Again, too, where it is there already: whoever was killed in the middle left it in the file system's cache at best.
        self.folder.put(&path_of(origin), &request.bytes)?;
        Ok(self.signer.cosign(request.note.text(), now)?)
    }

    /// The newest version of a log's trust that was ever met, `version` included, which is remembered.
    pub fn meet_trust(&mut self, origin: &str, version: u64) -> Result<u64, NotCosigned> {
        let path = format!("trust/{}", Hash::of(origin.as_bytes()));
        let met = match self.folder.read(&path, MAX_VERSION) {
            Ok(bytes) => std::str::from_utf8(&bytes)
                .ok()
                .and_then(|text| text.trim_end().parse().ok())
                .ok_or_else(|| NotCosigned::Memory(format!("`{path}` is damaged")))?,
            Err(e) if e.is_not_found() => 0,
            Err(e) => return Err(e.into()),
        };
        if version > met {
            self.folder.put(&path, format!("{version}\n").as_bytes())?;
        }
        Ok(version.max(met))
    }

    fn keep(&self, origin: &str, checkpoint: &Checkpoint, bytes: &[u8]) -> Result<(), StoreError> {
        let folder = format!("evidence/{}", Hash::of(origin.as_bytes()));
        let path = format!("{folder}/{}-{}", checkpoint.size, checkpoint.root);
        let kept = self.folder.list()?.iter().filter(|file| file.path.starts_with(&folder)).count();
        if kept >= MAX_EVIDENCE || self.folder.open(&path).is_ok() {
            return Ok(());
        }
        self.folder.put(&path, bytes)
    }
}

/// Every checkpoint in a memory: those that were cosigned last, and those that are evidence.
pub fn contents(state: &Path) -> Result<Vec<(bool, Checkpoint, String)>, Failure> {
    let folder = existing(state)?;
    let failed = |e: StoreError| Failure::failed(format!("`{}`: {e}", state.display()));
    let mut found = Vec::new();
    for file in folder.list().map_err(failed)? {
        let is_evidence = file.path.starts_with("evidence/");
        if !is_evidence && !file.path.starts_with("logs/") {
            continue;
        }
        let bytes = folder.read(&file.path, MAX_HELD).map_err(failed)?;
        let damaged = |e: String| {
            Failure::invalid(format!("`{}` is damaged: {e}", state.join(&file.path).display()))
                .help("a witness whose memory is damaged must be replaced by one with a new key")
        };
        let held = Held::parse_any(bytes).map_err(|e| damaged(e.to_string()))?;
        found.push((is_evidence, held.checkpoint, file.path));
    }
    Ok(found)
}

/// Whose memory it is.
pub fn owner(state: &Path) -> Result<String, Failure> {
    let folder = existing(state)?;
    let bytes =
        folder.read(OWNER, 1_000).map_err(|e| Failure::failed(format!("`{}`: {e}", state.display())))?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

fn path_of(origin: &str) -> String {
    format!("logs/{}", Hash::of(origin.as_bytes()))
}

fn existing(state: &Path) -> Result<Folder, Failure> {
    if state.join(OWNER).is_file() {
        return Ok(Folder::new(state));
    }
    Err(Failure::failed(format!("`{}` is no witness's memory", state.display())).help(
        "for a new key make one with `capgate witness init`; for one that cosigned already, restore its own",
    ))
}

fn lock(folder: &Folder) -> Result<Lock, Failure> {
    folder.lock(PATIENCE).map_err(|e| match e {
        LockError::Busy(path) => {
            Failure::failed(format!("another witness is using `{}`", path.display())).help("end it first")
        }
        e @ LockError::Io { .. } => Failure::failed(e.to_string()),
    })
}

fn check_owner(folder: &Folder, key: &WitnessKey) -> Result<(), Failure> {
    let owner = owner(folder.root())?;
    if owner == key.to_string() {
        return Ok(());
    }
    let shown = folder.root().display();
    Err(Failure::invalid(format!("`{shown}` is the memory of `{owner}`, not of this key"))
        .help("give the key that belongs to it, or make another memory with `capgate witness init`"))
}
