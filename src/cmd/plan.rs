//! A registry that is about to be changed: the folder, and where else it is published.
//!
//! With `--to`, what is published there is the truth and the folder a working copy of it: the copy is brought up to date
//! first, the commit is made there, and the copy follows. Whoever loses a race does it again on top of the winner.

use std::fs;
use std::path::{Path, PathBuf};

use capgate_registry::keys::SigningKey;
use capgate_registry::latest;
use capgate_registry::merkle::Hash;
use capgate_registry::publish::{self, Publication, PublishError, RotateError, Terms};
use capgate_registry::reader::{Anchor, read_chain, read_latest};
use capgate_registry::record::Doubt;
use capgate_registry::store::{Store, StoreError, StoreMut};
use capgate_registry::sync::{SyncError, Synced, sync};
use capgate_registry::trust::Chain;
use jiff::{SignedDuration, Timestamp};

use super::sync::memory;
use super::{keys, opened, published};
use crate::cli::{KeyArg, RegistryArgs, SigningArgs};
use crate::exit::{Exit, Failure};
use crate::ui::{Ui, progress};
use crate::world::folder::Folder;
use crate::world::layered::Layered;
use crate::world::source::Published;
use crate::world::{clock, threads};

/// How often a publication is tried again on top of somebody else's.
const ATTEMPTS: usize = 20;

/// A registry that is about to be changed.
pub struct Plan {
    /// Its folder.
    pub folder: Folder,
    /// Digest of its first root.
    pub root: Hash,
    /// Its verified trust.
    pub chain: Chain,
    /// The time.
    pub now: Timestamp,
    path: PathBuf,
    to: Option<Published>,
}

/// Why nothing was committed.
pub enum NotDone<E> {
    /// The publication itself failed.
    Refused(E),
    /// The place where it is published could not be reached or contradicts the folder.
    Failed(Failure),
}

impl<E> From<Failure> for NotDone<E> {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// An error that says whether somebody else was first.
pub trait MayConflict {
    /// Tells whether trying again on top of what is there now may work.
    fn is_conflict(&self) -> bool;
}

impl MayConflict for PublishError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(StoreError::Conflict { .. }))
    }
}

impl MayConflict for RotateError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Publish(e) if e.is_conflict())
    }
}

impl Plan {
    /// Opens a registry to change it. One that expired can be changed: that is how it is repaired.
    pub fn open(ui: &Ui, args: &RegistryArgs, to: Option<&str>) -> Result<Self, Failure> {
        let now = clock::now(args.now);
        if now > clock::now(None).saturating_add(SignedDuration::from_mins(5)).unwrap_or(now) {
            ui.warn(format!(
                "`--now {now}` is still to come: no reader believes what is signed with it before then"
            ));
        }
        let to = to.map(Published::open).transpose()?;
        if to.is_some() {
            fs::create_dir_all(&args.registry).map_err(|e| {
                Failure::failed(format!("the folder `{}` cannot be made: {e}", args.registry.display()))
            })?;
        }
        let folder = opened::folder(&args.registry)?;
        if let Some(to) = &to {
            let _lock = opened::lock(&folder)?;
            reconcile(ui, &folder, to, args.root, now)?;
        }
        let chain =
            read_chain(&folder, &args.root, None).map_err(|doubt| opened::doubted(&doubt, &args.registry))?;
        published::refuse_older(&args.root, &folder, &chain)?;
        Ok(Self { folder, root: args.root, chain, now, path: args.registry.clone(), to })
    }

    /// The folder as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The private keys that may say what is in force.
    pub fn registry_keys(&self, given: &[KeyArg]) -> Result<Vec<SigningKey>, Failure> {
        keys::of_role(given, &self.chain.current().registry, "registry")
    }

    /// Publishes signed notes and says what was done.
    pub fn publish(
        &mut self,
        ui: &Ui,
        notes: &[Vec<u8>],
        signing: &SigningArgs,
    ) -> Result<Publication, Failure> {
        let keys = self.registry_keys(&signing.registry_key)?;
        let terms = signing.terms(&keys, self.now, threads());
        self.publish_on(ui, notes, &terms)
    }

    /// The same on these terms.
    pub fn publish_on(
        &mut self,
        ui: &Ui,
        notes: &[Vec<u8>],
        terms: &Terms<'_>,
    ) -> Result<Publication, Failure> {
        let done = self.try_publish(ui, notes, terms)?;
        done.map_err(|e| opened::not_published(&e, &self.path))
    }

    /// The same, with the reason why nothing was published as it is.
    pub fn try_publish(
        &mut self,
        ui: &Ui,
        notes: &[Vec<u8>],
        terms: &Terms<'_>,
    ) -> Result<Result<Publication, PublishError>, Failure> {
        self.publish_with(ui, |store, root, progress| publish::publish(store, root, notes, terms, progress))
    }

    /// Publishes those of the notes that fit, and returns the position of each other one, with the reason.
    pub fn publish_what_fits(
        &mut self,
        ui: &Ui,
        notes: &[Vec<u8>],
        terms: &Terms<'_>,
    ) -> Result<(Publication, Vec<(usize, PublishError)>), Failure> {
        let done = self.publish_with(ui, |store, root, progress| {
            publish::publish_what_fits(store, root, notes, terms, progress)
        })?;
        done.map_err(|e| opened::not_published(&e, &self.path))
    }

    fn publish_with<T>(
        &mut self,
        ui: &Ui,
        work: impl Fn(&dyn StoreMut, &Hash, &mut dyn FnMut(u64)) -> Result<T, PublishError>,
    ) -> Result<Result<T, PublishError>, Failure> {
        let bar = progress::counter("records compiled:");
        let root = self.root;
        let done = self.commit(ui, |store| work(store, &root, &mut |done| bar.set_position(done)));
        bar.finish_and_clear();
        match done {
            Ok(done) => Ok(Ok(done)),
            Err(NotDone::Refused(e)) => Ok(Err(e)),
            Err(NotDone::Failed(failure)) => Err(failure),
        }
    }

    /// Does it under the lock, where the registry is published.
    pub fn commit<T, E: MayConflict>(
        &mut self,
        ui: &Ui,
        mut work: impl FnMut(&dyn StoreMut) -> Result<T, E>,
    ) -> Result<T, NotDone<E>> {
        let _lock = opened::lock(&self.folder)?;
        let done = self.commit_locked(ui, &mut work)?;
        // A rotation has made the chain longer.
        if let Ok(chain) = read_chain(&self.folder, &self.root, None) {
            published::remember(ui, &self.root, &self.folder, &chain);
        }
        Ok(done)
    }

    /// The `latest.note` of the place, if it says what the folder says.
    #[expect(clippy::option_option, reason = "there may be none at both")]
    fn base(&self, to: &Published) -> Option<Option<Vec<u8>>> {
        let bytes = match to.store().read(latest::PATH, latest::MAX_BYTES) {
            Ok(bytes) => Some(bytes),
            Err(StoreError::NotFound { .. }) => None,
            Err(_) => return None,
        };
        let there = Layered::new(to.store(), &self.folder, bytes.clone());
        let said = |store: &dyn Store| {
            let chain = read_chain(store, &self.root, None)?;
            read_latest(store, &chain)
        };
        match (said(&there), said(&self.folder)) {
            (Ok(there), Ok(here)) => (there == here).then_some(bytes),
            (Err(Doubt::Missing(_)), Err(Doubt::Missing(_))) => Some(bytes),
            _ => None,
        }
    }

    fn commit_locked<T, E: MayConflict>(
        &self,
        ui: &Ui,
        work: &mut impl FnMut(&dyn StoreMut) -> Result<T, E>,
    ) -> Result<T, NotDone<E>> {
        let Some(to) = &self.to else { return work(&self.folder).map_err(NotDone::Refused) };
        let mut tried = 0;
        let done = loop {
            let held = to.lock()?;
            let base = self.base(to);
            let done = base.clone().map(|base| work(&Layered::new(to.store(), &self.folder, base)));
            drop(held);
            tried += 1;
            let has_moved = || base.as_ref().is_some_and(|base| has_moved(to, base.as_deref()));
            match done {
                Some(Err(e)) if tried == ATTEMPTS || !(e.is_conflict() || has_moved()) => {
                    return Err(NotDone::Refused(e));
                }
                Some(Ok(done)) => break done,
                None if tried == ATTEMPTS => {
                    let message =
                        format!("`{}` is changed each time before anything can be published", to.name());
                    return Err(Failure::failed(message).help("see who else writes there").into());
                }
                Some(Err(_)) | None => {
                    let in_force = || self.folder.read(latest::PATH, latest::MAX_BYTES).ok();
                    let before = in_force();
                    reconcile(ui, &self.folder, to, self.root, self.now)?;
                    // Otherwise an answer was lost.
                    if in_force() != before {
                        ui.hint("somebody else published first: doing it again on top of that");
                    }
                }
            }
        };
        if let Err(failure) = reconcile(ui, &self.folder, to, self.root, self.now) {
            let shown = self.path.display();
            let message =
                format!("it is published, but the folder `{shown}` could not follow: {}", failure.message);
            if failure.exit == Exit::Invalid {
                return Err(Failure { message, ..failure }.into());
            }
            ui.warn(message);
        }
        Ok(done)
    }
}

/// Tells whether somebody published on top of what was to be built on: then whatever failed may be due to that, since files
/// that an earlier publication staged are taken away by the next.
fn has_moved(to: &Published, base: Option<&[u8]>) -> bool {
    to.store().read(latest::PATH, latest::MAX_BYTES).is_ok_and(|now| Some(now.as_slice()) != base)
}

/// The time at which a registry is judged that is about to be changed: one that expired is renewed by that, and must all
/// the same be no older than what was seen.
fn in_time(store: &dyn Store, pin: Hash, now: Timestamp) -> Timestamp {
    let ends = read_chain(store, &pin, None).and_then(|chain| {
        let latest = read_latest(store, &chain)?;
        Ok(latest.expires.min(chain.current().expires))
    });
    ends.map_or(now, |ends| {
        ends.saturating_sub(SignedDuration::from_secs(1)).map_or(now, |last| last.min(now))
    })
}

/// Brings folder and place to one state: the longer history is the newer one, and neither may contradict the other.
fn reconcile(ui: &Ui, folder: &Folder, to: &Published, pin: Hash, now: Timestamp) -> Result<(), Failure> {
    let seen = memory::of_folder(folder.root())?;
    let quiet = &mut |_: u64, _: u64| {};
    let anchor = |store: &dyn Store| Anchor { pin, seen, now: in_time(store, pin, now) };
    let mut tried = 0;
    let done = loop {
        let done = match sync(to.store(), folder, &anchor(to.store()), threads(), quiet) {
            // Nothing is there yet, or it is older than the folder.
            Err(SyncError::Source(Doubt::Missing(_) | Doubt::Rollback(_))) if is_published(folder) => {
                let _held = to.lock()?;
                let done = sync(folder, to.store(), &anchor(folder), threads(), quiet);
                if let Ok(Synced { changed: true, latest, .. }) = &done {
                    ui.hint(format!("brought `{}` to version {}", to.name(), latest.version));
                }
                done
            }
            done => done,
        };
        tried += 1;
        match done {
            Err(SyncError::Write(e)) if e.is_conflict() && tried < ATTEMPTS => {
                ui.hint("somebody else published first: looking at what is there now");
            }
            done => break done,
        }
    };
    let done = done.map_err(|e| super::sync::failed(&e, to.name(), folder.root()))?;
    memory::write(&folder.root().join(memory::HIDDEN), &done.seen)
}

fn is_published(folder: &Folder) -> bool {
    folder.root().join(capgate_registry::latest::PATH).is_file()
}
