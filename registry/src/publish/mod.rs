//! Publishing: new entries, a new snapshot, one commit point.
//!
//! ```text
//! 1  complete whatever an earlier publication left behind its commit
//! 2  write log/staged/SIZE-ROOT        new entries and the signed checkpoint
//! 3  write snapshot/VERSION-ROOT.snap
//! 4  swap  snapshot/latest.note        the commit: before it the registry is the old one, after it the new one
//! 5  write tiles and bundles, then log/checkpoint; remove what was staged and snapshots that nobody reads any more
//! ```
//!
//! A stop anywhere before 4 leaves files that nothing names; after it, step 1 of the next publication finishes 5.

mod entries;
mod stage;

use std::io;
use std::num::NonZero;

use jiff::{SignedDuration, Timestamp};

use crate::combination::Key;
use crate::keys::{SigningKey, VerifierKey};
use crate::latest::{self, Latest};
use crate::log::{CHECKPOINT, LogError, LogReader, append};
use crate::merkle::{self, Hash};
use crate::note::{self, Kind, Note, NoteError, Origin};
use crate::profile::{Profile, ProfileId};
use crate::reader::{read_chain, read_latest, trust_path};
use crate::record::Doubt;
use crate::snapshot::{Catalogue, CatalogueError, Change, CompileError, compile};
use crate::store::{Listed, StoreError, StoreMut};
use crate::trust::{Chain, Role, Trust};

pub(crate) use entries::LogEntries;
pub use stage::{Overlay, committed_log, complete, verified_checkpoint};

/// Entries of the log that are in memory at once while it is read.
const BATCH: usize = 16 * 1024;

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
#[derive(Debug)]
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
        Some(latest) => restore(store, &chain, latest, terms)? | complete(store, &chain, latest)?,
        None => false,
    };
    let mut work = Work::load(store, &chain, old.as_ref(), terms.threads)?;
    let (appended, already) = work.admit(notes)?;
    if let Some(latest) = old.as_ref().filter(|_| appended.is_empty() && !terms.renew) {
        return Ok(Publication { latest: latest.clone(), appended, already, completed, changed: false });
    }
    let latest = work.commit(terms, progress)?;
    complete(store, &chain, &latest)?;
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

/// A publication in progress.
struct Work<'a> {
    store: &'a dyn StoreMut,
    chain: &'a Chain,
    old: Option<&'a Latest>,
    old_size: u64,
    old_root: Hash,
    catalogue: Catalogue,
    entries: LogEntries<'a>,
}

impl<'a> Work<'a> {
    fn load(
        store: &'a dyn StoreMut,
        chain: &'a Chain,
        old: Option<&'a Latest>,
        threads: NonZero<usize>,
    ) -> Result<Self, PublishError> {
        let old_size = old.map_or(0, |latest| latest.log_size);
        let old_root = old.map_or_else(merkle::empty_root, |latest| latest.log_root);
        let reader = LogReader::new(store, old_size);
        let mut catalogue = Catalogue::default();
        let mut entries = LogEntries::new(store, old_size);
        let mut tree = merkle::Frontier::new();
        for first in (0..old_size).step_by(BATCH) {
            let range = first..old_size.min(first + BATCH as u64);
            let batch: Vec<Vec<u8>> = reader.entries(range).collect::<Result<_, _>>()?;
            for entry in &batch {
                tree.push(merkle::leaf_hash(entry));
                entries.note_length(entry.len());
            }
            catalogue.add_all(first, &batch, chain.origin(), threads)?;
        }
        if tree.root() != old_root {
            return Err(LogError::Root { size: old_size, root: old_root }.into());
        }
        Ok(Self { store, chain, old, old_size, old_root, catalogue, entries })
    }

    /// Checks every note and takes up those that are new.
    #[allow(clippy::type_complexity, reason = "the two lists are named where they are used")]
    fn admit(&mut self, notes: &[Vec<u8>]) -> Result<(Vec<(ProfileId, u64)>, Vec<ProfileId>), PublishError> {
        let (mut appended, mut already) = (Vec::new(), Vec::new());
        for (position, bytes) in notes.iter().enumerate() {
            let what = format!("note {}", position + 1);
            let problem = |source| PublishError::Note { what: what.clone(), source };
            let note = Note::parse(bytes).map_err(problem)?;
            let publisher = &self.chain.current().publisher;
            let id = match Change::read(&note, self.chain.origin())? {
                Change::Revocation(revocation) => {
                    publisher.verify_any(&note).map_err(problem)?;
                    revocation.revokes
                }
                Change::Profile(profile) => {
                    publisher.verify(&note).map_err(problem)?;
                    if self.is_published(&profile, note.text())? {
                        already.push(profile.id);
                        continue;
                    }
                    self.check_conflict(&profile)?;
                    profile.id
                }
            };
            let index = self.old_size + self.entries.added() as u64;
            self.catalogue.add(index, bytes, self.chain.origin())?;
            self.entries.add(bytes.clone());
            appended.push((id, index));
        }
        Ok((appended, already))
    }

    /// Tells whether exactly this text was published; other content under the same id is an error.
    fn is_published(&self, profile: &Profile, text: &str) -> Result<bool, PublishError> {
        let Some(index) = self.catalogue.index_of(&profile.id) else { return Ok(false) };
        let earlier = self.entries.read(index).map_err(|e| StoreError::io("log", e))?;
        let same = Note::parse(&earlier).is_ok_and(|earlier| earlier.text() == text);
        if same { Ok(true) } else { Err(PublishError::OtherBytes(profile.id.clone())) }
    }

    fn check_conflict(&self, profile: &Profile) -> Result<(), PublishError> {
        let keys: Vec<Key> = profile.keys();
        let live = self.catalogue.live_under(&keys);
        match live.into_iter().find(|&id| profile.supersedes.as_ref() != Some(id)) {
            None => Ok(()),
            Some(other) => Err(PublishError::Conflict { id: profile.id.clone(), other: other.clone() }),
        }
    }

    /// Steps 2 to 4.
    fn commit(&self, terms: &Terms<'_>, progress: &mut dyn FnMut(u64)) -> Result<Latest, PublishError> {
        let signers = signers(&self.chain.current().registry, terms.keys)?;
        let reader = LogReader::new(self.store, self.old_size);
        let extension = append(&reader, &self.old_root, self.entries.new_entries())?;
        let version = self.old.map_or(0, |latest| latest.version).saturating_add(1);
        let mut compiled = None;
        let path = self.store.write(&mut |out| {
            let done = compile(&self.catalogue, &self.entries, out, progress).map_err(io::Error::other)?;
            compiled = Some(done);
            Ok(format!("snapshot/{version}-{}.snap", done.root))
        })?;
        let compiled = compiled.ok_or_else(|| PublishError::Staged(format!("`{path}` was not written")))?;
        let latest = Latest {
            version,
            size: compiled.size,
            root: compiled.root,
            log_size: extension.size,
            log_root: extension.root,
            trust: self.chain.current().version,
            issued: terms.now,
            expires: terms.now.saturating_add(terms.life).unwrap_or(terms.now),
        };
        let staged = stage::encode(self.chain, &latest, self.old_size, self.entries.new_entries(), &signers)?;
        self.store.put(&latest.staged_path(), &staged)?;
        let note = sign_latest(&latest, self.chain.origin(), &signers)?;
        let expected = match self.old {
            Some(_) => Some(self.store.read(latest::PATH, latest::MAX_BYTES)?),
            None => None,
        };
        self.check_unchanged(expected.as_deref())?;
        self.store.swap(latest::PATH, expected.as_deref(), &note)?;
        Ok(latest)
    }

    /// The bytes that the swap will replace must still be those that were read at the start.
    fn check_unchanged(&self, expected: Option<&[u8]>) -> Result<(), PublishError> {
        let now = if expected.is_some() { Some(read_latest(self.store, self.chain)?) } else { None };
        if now.as_ref() == self.old {
            Ok(())
        } else {
            Err(StoreError::Conflict { path: latest::PATH.into() }.into())
        }
    }
}

fn sign_latest(latest: &Latest, origin: &Origin, signers: &[&SigningKey]) -> Result<Vec<u8>, PublishError> {
    let signed =
        note::compose(Kind::Latest, origin, &latest.to_toml()).and_then(|text| note::sign(&text, signers));
    signed.map_err(|source| PublishError::Note { what: latest::PATH.into(), source })
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
