//! Following another copy of a registry: what it has more is fetched, verified, and put in force here.
//!
//! Only the log's new entries are fetched; tiles and snapshot are computed from them and must come out as they were
//! signed. So a copy holds nothing that its own log does not lead to, however the source was changed, and whoever holds
//! the registry key cannot leave out of the snapshot what the log says. The commit is that of a publication, with the
//! signatures of the source in place of our own: a stop anywhere leaves the old or the new registry.

mod fork;
mod signatures;
mod source;
mod whole;
mod witnesses;

use std::num::NonZero;

use crate::latest::{self, Latest};
use crate::log::{CHECKPOINT, LogError, LogReader};
use crate::merkle::Hash;
use crate::note::Note;
use crate::publish::work::Work;
use crate::publish::{Overlay, PublishError, complete, complete_own, part_of};
use crate::reader::{Anchor, Seen, judge_age, read_chain, read_latest, trust_path, version_floor};
use crate::record::Doubt;
use crate::store::{Store, StoreError, StoreMut};
use crate::trust::{Chain, MAX_BYTES as MAX_TRUST};
use crate::witness::Quorum;
use signatures::{check_rotated, check_signatures};
use source::Theirs;
use whole::{is_whole, tiles_hold};

/// How often a source that changes while it is read is read again.
const ATTEMPTS: usize = 5;
/// Entries that are verified at once.
const BATCH: usize = 1024;

/// Says why nothing was taken over. What was there stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The source cannot be believed, or not any more.
    #[error(transparent)]
    Source(Doubt),
    /// What is here cannot be believed, so that nothing can be compared with it.
    #[error("this copy: {0}")]
    Here(Doubt),
    /// A version of the trust stands at the source that nothing in force is signed under yet.
    #[error("trust version {0} is being put in force at the source: try again when its maintainer is done")]
    Rotating(u64),
    /// The source changed each time it was read.
    #[error("the source changes while it is read: {0}")]
    Moving(String),
    /// The source's log and the one here contradict each other, and both are signed.
    #[error(
        "the source's log is not the one that was seen here: of {size} entries it has the root {theirs}, and here {ours} \
         was signed; somebody shows different histories to different readers"
    )]
    Fork {
        /// Entries of the smaller one.
        size: u64,
        /// Root here.
        ours: Hash,
        /// Root there.
        theirs: Hash,
        /// What the source signed: `latest.note`.
        latest: Vec<u8>,
        /// What the source signed: its checkpoint.
        checkpoint: Vec<u8>,
    },
    /// Files of the source are damaged.
    #[error("the source is damaged: {0}")]
    Damaged(String),
    /// An entry that no honest maintainer would have logged.
    #[error("entry {index} of the source's log: {what}")]
    Entry {
        /// Its index.
        index: u64,
        /// What is wrong.
        what: String,
    },
    /// A file could not be fetched.
    #[error(transparent)]
    Fetch(StoreError),
    /// This copy could not be read or written.
    #[error(transparent)]
    Write(#[from] PublishError),
}

impl From<StoreError> for SyncError {
    fn from(error: StoreError) -> Self {
        Self::Write(error.into())
    }
}

/// What is told while it works: entries fetched so far, and how many there are to fetch.
pub type Progress<'p> = dyn FnMut(u64, u64) + 'p;

/// What a synchronisation did.
#[derive(Debug, Clone)]
pub struct Synced {
    /// What is in force here now.
    pub latest: Latest,
    /// Entries that were fetched.
    pub fetched: u64,
    /// Whether anything changed.
    pub changed: bool,
    /// Whether this copy was damaged and was made anew.
    pub repaired: bool,
    /// What was verified, for the reader to remember.
    pub seen: Seen,
}

/// Brings `to` to the state of `source`. The caller holds the lock of `to`, if it has one.
///
/// `anchor` names the pin and what its owner has seen; what `to` holds is remembered beside it.
pub fn sync(
    source: &dyn Store,
    to: &dyn StoreMut,
    anchor: &Anchor,
    threads: NonZero<usize>,
    progress: &mut Progress<'_>,
) -> Result<Synced, SyncError> {
    sync_witnessed(source, to, anchor, None, threads, progress)
}

/// The same for a site that demands witnesses: what they have not cosigned replaces nothing.
pub fn sync_witnessed(
    source: &dyn Store,
    to: &dyn StoreMut,
    anchor: &Anchor,
    demand: Option<&Quorum>,
    threads: NonZero<usize>,
    progress: &mut Progress<'_>,
) -> Result<Synced, SyncError> {
    let mut last = SyncError::Moving(String::new());
    for _ in 0..ATTEMPTS {
        let mut read = Vec::new();
        match once(source, to, anchor, demand, threads, progress, &mut read) {
            // What was named a moment ago is gone: somebody published meanwhile.
            Err(SyncError::Fetch(StoreError::NotFound { path })) => {
                last = SyncError::Moving(format!("`{path}` is missing"));
            }
            Err(e @ SyncError::Moving(_)) => last = e,
            // Files of two publications contradict each other, and nobody is to blame.
            Err(e @ SyncError::Damaged(_)) if has_moved(source, &read) => {
                last = SyncError::Moving(e.to_string());
            }
            done => return done,
        }
    }
    Err(last)
}

fn has_moved(source: &dyn Store, read: &[u8]) -> bool {
    source.read(latest::PATH, latest::MAX_BYTES).is_ok_and(|now| !read.is_empty() && now != read)
}

/// What is here.
struct Ours {
    chain: Chain,
    latest: Option<Latest>,
}

impl Ours {
    fn read(to: &dyn StoreMut, pin: &Hash) -> Result<Option<Self>, SyncError> {
        let chain = match read_chain(to, pin, None) {
            Ok(chain) => chain,
            Err(Doubt::Missing(_)) => return Ok(None),
            Err(doubt) => return Err(SyncError::Here(doubt)),
        };
        let latest = match read_latest(to, &chain) {
            Ok(latest) => Some(latest),
            Err(Doubt::Missing(_)) => None,
            Err(doubt) => return Err(SyncError::Here(doubt)),
        };
        Ok(Some(Self { chain, latest }))
    }

    /// Finishes what a stop left behind its commit. Where that fails, the log is fetched anew.
    fn finish(&self, to: &dyn StoreMut) {
        if let Some(latest) = &self.latest
            && let Some(chain) = self.chain.as_of(latest.trust)
        {
            let _ = complete(to, &chain, latest);
        }
    }
}

fn once(
    source: &dyn Store,
    to: &dyn StoreMut,
    anchor: &Anchor,
    demand: Option<&Quorum>,
    threads: NonZero<usize>,
    progress: &mut Progress<'_>,
    read: &mut Vec<u8>,
) -> Result<Synced, SyncError> {
    let ours = Ours::read(to, &anchor.pin)?;
    if let Some(ours) = &ours {
        ours.finish(to);
    }
    let theirs = Theirs::read(source, ours.as_ref().map(|ours| &ours.chain), anchor)?;
    read.clone_from(&theirs.bytes);
    let here = ours.as_ref().and_then(|ours| ours.latest.as_ref());
    judge_age(&theirs.latest, &theirs.chain, &remembering(anchor, here, &theirs.chain)).map_err(|doubt| {
        // A log that contradicts the one here is more than an old one.
        here.and_then(|here| fork::shorter(to, here, &theirs))
            .or_else(|| fork::as_seen(&anchor.seen, &theirs))
            .unwrap_or(SyncError::Source(doubt))
    })?;
    let whole = here.is_none_or(|here| is_whole(to, here));
    if here == Some(&theirs.latest) && whole {
        witnesses::follow(source, to, &theirs, demand)?;
        return Ok(synced(anchor, &theirs, 0, false, false));
    }
    let sound = whole && here.is_none_or(|here| tiles_hold(to, here));
    let loaded = if sound { Some(Work::load(to, &theirs.chain, here, threads)) } else { None };
    let (work, anew) = match loaded {
        Some(Ok(work)) => (work, false),
        None | Some(Err(PublishError::Log(_) | PublishError::Store(_) | PublishError::Catalogue(_))) => {
            (Work::load_nothing(to, &theirs.chain, here)?, true)
        }
        Some(Err(e)) => return Err(e.into()),
    };
    if let Some(ours) = ours.as_ref().filter(|_| !anew) {
        check_rotated(to, ours, &theirs, threads)?;
    }
    let copy = Copy { to, here, seen: &anchor.seen, demand, anew, threads };
    let fetched = take_over(source, &copy, &theirs, work, progress)?;
    Ok(synced(anchor, &theirs, fetched, true, anew))
}

/// What is brought to another state.
struct Copy<'a> {
    to: &'a dyn StoreMut,
    /// What is in force there.
    here: Option<&'a Latest>,
    /// What its owner has seen, which may be more.
    seen: &'a Seen,
    /// The witnesses that its site demands.
    demand: Option<&'a Quorum>,
    /// Whether it is damaged, so that all of it is written again.
    anew: bool,
    threads: NonZero<usize>,
}

/// What its owner has seen, and what this copy shows that it was given.
fn remembering(anchor: &Anchor, here: Option<&Latest>, chain: &Chain) -> Anchor {
    let mut seen = anchor.seen;
    // One that was restored from before a registry key was taken out says nothing about versions since.
    let is_earlier = |here: &Latest| chain.registry_epoch(here.trust) < chain.registry_epoch(seen.trust);
    let is_newer = |here: &Latest| !is_earlier(here) && here.version >= version_floor(&seen, chain, here);
    if let Some(here) = here.filter(|here| is_newer(here)) {
        seen.version = here.version;
        seen.root = Some(here.root);
        seen.trust = seen.trust.max(here.trust);
        if here.log_size >= seen.log_size {
            (seen.log_size, seen.log_root) = (here.log_size, Some(here.log_root));
        }
        seen.time = seen.time.into_iter().chain([here.issued]).max();
    }
    Anchor { seen, ..*anchor }
}

fn synced(anchor: &Anchor, theirs: &Theirs, fetched: u64, changed: bool, repaired: bool) -> Synced {
    let latest = theirs.latest.clone();
    let seen = Seen {
        version: latest.version,
        root: Some(latest.root),
        log_size: latest.log_size,
        log_root: Some(latest.log_root),
        trust: theirs.chain.current().version,
        // A clock that was right once is not believed to go back.
        time: anchor.seen.time.into_iter().chain([latest.issued, theirs.chain.current().issued]).max(),
    };
    Synced { latest, fetched, changed, repaired, seen }
}

fn take_over(
    source: &dyn Store,
    copy: &Copy<'_>,
    theirs: &Theirs,
    mut work: Work<'_>,
    progress: &mut Progress<'_>,
) -> Result<u64, SyncError> {
    let log = theirs.log(source)?;
    if copy.here.is_none() {
        // There is no history that this one could contradict, so nothing is fetched that will be refused.
        witnesses::checked(copy.to, theirs, &log, copy.demand)?;
    }
    let first = work.old_size();
    let checkpoint = fetch(copy, theirs, &log, &mut work, progress);
    let checkpoint = checkpoint.inspect_err(|_| work.abandon(&theirs.latest.staged_path()))?;
    for (version, note) in theirs.own_notes()? {
        put_once(copy.to, &trust_path(version), &note)?;
    }
    if copy.anew {
        // It would say that the damaged tiles are complete. That of somebody who published there meanwhile stays.
        work.check_unchanged()?;
        copy.to.remove(CHECKPOINT)?;
    }
    work.commit_signed(&theirs.latest, &theirs.own_lines()?, &checkpoint, &mut |_| {}).map_err(
        |e| match e {
            PublishError::Foreign(what) => SyncError::Damaged(what),
            e => e.into(),
        },
    )?;
    complete_own(copy.to, &theirs.chain, &theirs.latest)?;
    Ok(theirs.latest.log_size.saturating_sub(first))
}

/// Fetches what is new and verifies all that must hold before anything is replaced; the checkpoint is as it is to stand
/// here. As many entries are in memory as one staged file has.
fn fetch(
    copy: &Copy<'_>,
    theirs: &Theirs,
    log: &Overlay<'_>,
    work: &mut Work<'_>,
    progress: &mut Progress<'_>,
) -> Result<Vec<u8>, SyncError> {
    let (first, end) = (work.old_size(), theirs.latest.log_size);
    let staged = theirs.latest.staged_path();
    let reader = LogReader::new(log, end);
    let mut at = first;
    while at < end {
        let part = part_of(at, first, end);
        let mut batch = Vec::new();
        for index in part.clone() {
            batch.push(reader.entry(index).map_err(fetch_error)?);
            progress(index.saturating_sub(first) + 1, end.saturating_sub(first));
        }
        check_signatures(at, &batch, &theirs.chain, copy.threads)?;
        work.take(batch, &staged, copy.threads).map_err(|e| foreign(at, e))?;
        at = part.end;
    }
    if work.log_root() != theirs.latest.log_root {
        return Err(fork::explain(copy.to, log, copy.here, theirs));
    }
    // What replaces a damaged copy must still continue what that copy had signed.
    let here = copy.here.filter(|_| copy.anew).map(|here| (here.log_size, here.log_root));
    // So must what replaces a copy that is lost, or older than what was seen.
    let seen = copy.seen.log_root.map(|root| (copy.seen.log_size, root)).filter(|(size, _)| *size <= end);
    for before in here.into_iter().chain(seen) {
        fork::refuse(work, log, before, theirs)?;
    }
    // One version says one thing; whoever signed it twice may not have the first one replaced.
    let epoch = |latest: &Latest| theirs.chain.registry_epoch(latest.trust);
    let is_same =
        |here: &Latest| here.version == theirs.latest.version && epoch(here) == epoch(&theirs.latest);
    if copy.here.is_some_and(|here| is_same(here) && *here != theirs.latest) {
        let what = format!("version {} is not the one that was seen", theirs.latest.version);
        return Err(SyncError::Source(Doubt::Rollback(what)));
    }
    witnesses::checked(copy.to, theirs, log, copy.demand)
}

/// A version of the trust never changes.
fn put_once(to: &dyn StoreMut, path: &str, note: &[u8]) -> Result<(), SyncError> {
    match to.swap(path, None, note) {
        Err(StoreError::Conflict { .. })
            if to.read(path, MAX_TRUST as u64).is_ok_and(|found| same_text(&found, note)) =>
        {
            Ok(())
        }
        done => Ok(done?),
    }
}

/// Lines of keys that nobody knows are covered by no signature, so two copies may differ in them. Both were verified.
fn same_text(one: &[u8], other: &[u8]) -> bool {
    match (Note::parse(one), Note::parse(other)) {
        (Ok(one), Ok(other)) => one.text() == other.text(),
        _ => false,
    }
}

fn fetch_error(error: LogError) -> SyncError {
    match error {
        LogError::Store(e) => SyncError::Fetch(e),
        e => SyncError::Damaged(e.to_string()),
    }
}

/// What entries contradict is the source's fault, whatever else may fail is ours.
fn foreign(first: u64, error: PublishError) -> SyncError {
    match error {
        PublishError::Catalogue(e) => {
            SyncError::Entry { index: first, what: format!("or one behind it: {e}") }
        }
        e => e.into(),
    }
}
