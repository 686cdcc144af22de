//! Publishing: new entries, a new snapshot, one commit point.
//!
//! ```text
//! 1  complete whatever an earlier publication left behind its commit
//! 2  write snapshot/VERSION-ROOT.snap
//! 3  write log/staged/SIZE-ROOT…       new entries and the signed checkpoint
//! 4  swap  snapshot/latest.note        the commit: before it the registry is the old one, after it the new one
//! 5  write tiles and bundles, then log/checkpoint; remove what was staged and snapshots that nobody reads any more
//! ```
//!
//! A stop anywhere before 4 leaves files that nothing names; after it, step 1 of the next publication finishes 5.

mod entries;
mod overlay;
mod rotate;
mod stage;
mod staged;
pub(crate) mod work;

use std::num::NonZero;

use jiff::{SignedDuration, Timestamp};

use crate::keys::{SigningKey, VerifierKey};
use crate::latest::{self, Latest};
use crate::log::{CHECKPOINT, LogError};
use crate::merkle::Hash;
use crate::note::{self, Kind, NoteError, Origin};
use crate::profile::ProfileId;
use crate::reader::{read_chain, read_latest, trust_path};
use crate::record::Doubt;
use crate::snapshot::{CatalogueError, CompileError};
use crate::store::{Listed, StoreError, StoreMut};
use crate::trust::{Chain, Role, Trust};
use work::{Admitted, Work};

pub(crate) use entries::LogEntries;
pub use overlay::Overlay;
pub use rotate::{RotateError, rotate};
pub(crate) use stage::complete_own;
pub use stage::{committed_log, complete, verified_checkpoint};
pub use staged::{MAX_CHECKPOINT, MAX_STAGED};
pub(crate) use staged::{part_of, staged_checkpoint};

/// How long `latest.note` is believed unless it is said otherwise.
pub const LIFE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Says why nothing was published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The registry as it is cannot be believed.
    #[error(transparent)]
    Doubt(#[from] Doubt),
    /// A file could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log could not be read or continued.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A note is malformed, or not signed by those who must.
    #[error("{what}: {source}")]
    Note {
        /// Which one.
        what: String,
        /// What is wrong.
        #[source]
        source: NoteError,
    },
    /// An entry cannot follow those before it.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// An id was published before, with other bytes.
    #[error(
        "`{0}` was published before with other content; give the new profile an id of its own and `supersedes`"
    )]
    OtherBytes(ProfileId),
    /// A live profile stands under the same combination.
    #[error("`{id}` and the live `{other}` are about the same combination; add `supersedes = \"{other}\"`")]
    Conflict {
        /// The new profile.
        id: ProfileId,
        /// The live one.
        other: ProfileId,
    },
    /// There is no version after the one that was published last.
    #[error(
        "version {0} is the last that there can be: who signed it holds a registry key that must not be trusted any more"
    )]
    LastVersion(u64),
    /// Entries that were rightly logged would not have been under the version of the trust that waits.
    #[error(
        "the log has {size} entries, and under this version entry {first} would count no longer ({why}): version {version} \
         takes force at index {log_index}"
    )]
    Disowned {
        /// Entries of the log.
        size: u64,
        /// The first entry that would be lost.
        first: u64,
        /// Why it would.
        why: String,
        /// The version.
        version: u64,
        /// Where it takes force.
        log_index: u64,
    },
    /// There is a registry already.
    #[error("there is a registry already: `{0}` exists")]
    Exists(String),
    /// The clock stands before the last publication.
    #[error("the clock says {now}, but the registry was signed {issued}")]
    ClockBehind {
        /// The clock.
        now: Timestamp,
        /// The last signature.
        issued: Timestamp,
    },
    /// The log that was signed last is no prefix of the one that is about to be signed.
    #[error(
        "the checkpoint of {size} entries, root {root}, is no prefix of this log: keep both as evidence; files were \
         changed, lost or restored from an older copy"
    )]
    Fork {
        /// Entries of the log that was signed.
        size: u64,
        /// Its root.
        root: Hash,
    },
    /// There is a log, but what commits it is gone.
    #[error("`{found}` exists, but `snapshot/latest.note` does not: restore it before anything is published")]
    Uncommitted {
        /// A file that only a committed publication makes.
        found: String,
    },
    /// Somebody else's publication says something else than its own log leads to.
    #[error("{0}")]
    Foreign(String),
    /// What was cosigned is not what is in force any more.
    #[error("somebody published while the witnesses were asked: what they cosigned is not in force any more")]
    Superseded,
    /// The staged entries of an interrupted publication are gone or damaged.
    #[error("an interrupted publication cannot be completed: {0}")]
    Staged(String),
}

impl From<CompileError> for PublishError {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Catalogue(e) => Self::Catalogue(e),
            CompileError::Io(source) => Self::Store(StoreError::io("snapshot", source)),
        }
    }
}

/// Who signs, when, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'k> {
    /// Registry keys, as many as the trust wants.
    pub keys: &'k [SigningKey],
    /// The time.
    pub now: Timestamp,
    /// How long `latest.note` is believed.
    pub life: SignedDuration,
    /// Sign a new `latest.note` even if there is nothing new.
    pub renew: bool,
    /// How many threads read the log.
    pub threads: NonZero<usize>,
}

/// What a publication did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// What is in force now.
    pub latest: Latest,
    /// Ids that were published or revoked, with their log index.
    pub appended: Vec<(ProfileId, u64)>,
    /// Ids that had been published before, with the same content.
    pub already: Vec<ProfileId>,
    /// Whether an interrupted publication was completed first.
    pub completed: bool,
    /// Whether a new `latest.note` was signed.
    pub changed: bool,
}

/// Signs a profile for a registry.
pub fn sign_profile(toml: &str, origin: &Origin, keys: &[&SigningKey]) -> Result<Vec<u8>, NoteError> {
    note::sign(&note::compose(Kind::Profile, origin, toml)?, keys)
}

/// Signs a revocation for a registry.
pub fn sign_revocation(toml: &str, origin: &Origin, keys: &[&SigningKey]) -> Result<Vec<u8>, NoteError> {
    note::sign(&note::compose(Kind::Revocation, origin, toml)?, keys)
}

/// Writes the first trust note of a new registry and returns its digest, by which every reader pins it.
pub fn init(
    store: &dyn StoreMut,
    origin: &Origin,
    trust: &Trust,
    root_keys: &[&SigningKey],
) -> Result<Hash, PublishError> {
    let path = trust_path(1);
    match store.read(&path, latest::MAX_BYTES) {
        Err(e) if e.is_not_found() => {}
        Err(e) => return Err(e.into()),
        Ok(_) => return Err(PublishError::Exists(path)),
    }
    let problem = |source| PublishError::Note { what: path.clone(), source };
    let text = note::compose(Kind::Trust, origin, &trust.to_toml()).map_err(problem)?;
    let bytes = note::sign(&text, root_keys).map_err(problem)?;
    let digest = Hash::of(&bytes);
    // What cannot be read back must not become the root of everything.
    Chain::open([bytes.as_slice()], &digest).map_err(|e| Doubt::Malformed(e.to_string()))?;
    store.put(&path, &bytes)?;
    Ok(digest)
}

/// Publishes signed notes. The caller holds the store's lock, if it has one.
///
/// `progress` is told after each record of the new snapshot.
pub fn publish(
    store: &dyn StoreMut,
    pin: &Hash,
    notes: &[Vec<u8>],
    terms: &Terms<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Publication, PublishError> {
    put_in_force(store, pin, notes, terms, progress, &mut |_, refused| Err(refused))
}

/// Publishes those of the signed notes that fit, and returns the position of each other one, with the reason. One that
/// refers to such a one does not fit either. Whatever is no fault of one document is an error all the same.
pub fn publish_what_fits(
    store: &dyn StoreMut,
    pin: &Hash,
    notes: &[Vec<u8>],
    terms: &Terms<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<(Publication, Vec<(usize, PublishError)>), PublishError> {
    let mut left = Vec::new();
    let done = put_in_force(store, pin, notes, terms, progress, &mut |position, refused| match refused {
        PublishError::Catalogue(_) | PublishError::Conflict { .. } | PublishError::OtherBytes(_) => {
            left.push((position, refused));
            Ok(())
        }
        refused => Err(refused),
    })?;
    Ok((done, left))
}

fn put_in_force(
    store: &dyn StoreMut,
    pin: &Hash,
    notes: &[Vec<u8>],
    terms: &Terms<'_>,
    progress: &mut dyn FnMut(u64),
    refuse: &mut dyn FnMut(usize, PublishError) -> Result<(), PublishError>,
) -> Result<Publication, PublishError> {
    let chain = read_chain(store, pin, None)?;
    let old = match read_latest(store, &chain) {
        Ok(latest) => Some(latest),
        Err(Doubt::Missing(_)) => {
            check_unpublished(store)?;
            None
        }
        Err(doubt) => return Err(doubt.into()),
    };
    if let Some(issued) = old.as_ref().map(|l| l.issued).filter(|&issued| terms.now < issued) {
        return Err(PublishError::ClockBehind { now: terms.now, issued });
    }
    let completed = match &old {
        Some(latest) => {
            // What is in force may be older than the newest trust: then this publication completes a rotation.
            let then = chain.as_of(latest.trust).unwrap_or_else(|| chain.clone());
            restore(store, &then, latest, terms)? | complete(store, &then, latest)?
        }
        None => false,
    };
    // Entries may have come between the check of a rotation and the file that it wrote.
    if let Some(latest) = old.as_ref().filter(|latest| latest.trust < chain.current().version) {
        rotate::refuse_disowned(store, &chain, latest)?;
    }
    let mut work = Work::load(store, &chain, old.as_ref(), terms.threads)?;
    let (mut appended, mut already) = (Vec::new(), Vec::new());
    for (position, note) in notes.iter().enumerate() {
        match work.admit(position, note) {
            Ok(Admitted::Appended(id, index)) => appended.push((id, index)),
            Ok(Admitted::Already(id)) => already.push(id),
            Err(refused) => refuse(position, refused)?,
        }
    }
    if let Some(latest) = old.as_ref().filter(|_| appended.is_empty() && !terms.renew) {
        return Ok(Publication { latest: latest.clone(), appended, already, completed, changed: false });
    }
    let latest = work.commit(terms, progress)?;
    complete_own(store, &chain, &latest)?;
    stage::sign_standing(store, &chain, &latest, &signers(&chain.current().registry, terms.keys)?)?;
    Ok(Publication { latest, appended, already, completed, changed: true })
}

/// Without `latest.note` a registry is new only if nothing else was ever committed: to begin again beside an old log
/// would sign a second history and forget every revocation.
fn check_unpublished(store: &dyn StoreMut) -> Result<(), PublishError> {
    let committed = |path: &str| {
        let first = path.starts_with("snapshot/1-");
        path.starts_with("log/tile/") || path == CHECKPOINT || (path.ends_with(".snap") && !first)
    };
    match store.list()?.into_iter().find(|file| committed(&file.path)) {
        None => Ok(()),
        Some(Listed { path, .. }) => Err(PublishError::Uncommitted { found: path }),
    }
}

/// Puts a lost checkpoint back, if the keys at hand may sign it.
fn restore(
    store: &dyn StoreMut,
    chain: &Chain,
    latest: &Latest,
    terms: &Terms<'_>,
) -> Result<bool, PublishError> {
    match signers(&chain.current().registry, terms.keys) {
        Ok(keys) => stage::restore_checkpoint(store, chain, latest, &keys),
        // Who cannot sign is told so where a signature is needed.
        Err(_) => Ok(false),
    }
}

/// The keys of `role` among `keys`; too few are an error here, before anything is written.
fn signers<'k>(role: &Role, keys: &'k [SigningKey]) -> Result<Vec<&'k SigningKey>, PublishError> {
    let known = |key: &VerifierKey| role.keys.iter().any(|k| k == key);
    let signers: Vec<&SigningKey> = keys.iter().filter(|key| known(key.verifier())).collect();
    if signers.len() >= role.threshold {
        return Ok(signers);
    }
    let names = signers.iter().map(|key| key.verifier().name().to_owned()).collect();
    let source = NoteError::TooFew { needed: role.threshold, signers: names };
    Err(PublishError::Note { what: "the registry keys at hand".into(), source })
}
