//! What each reader says of a registry.

use std::io;
use std::num::NonZero;

use capgate_registry::merkle::Hash;
use capgate_registry::proof::Proof;
use capgate_registry::reader::{Anchor, Reader};
use capgate_registry::record::{Doubt, Lookup};
use capgate_registry::store::{Listed, ReadAt, Store, StoreError};
use capgate_registry::sync::{SyncError, sync};
use capgate_registry::verify::{Report, verify};
use jiff::Timestamp;

use super::case::{Says, Told};
use super::honest::wanted;
use crate::support::{Memory, first_key};

/// What a lookup of the wanted combination gives: the ids that are live there.
pub fn lookup(store: &dyn Store, anchor: &Anchor) -> Result<Vec<String>, Doubt> {
    let record = Reader::open(store, anchor)?.lookup(&first_key(&wanted()))?;
    let published = record.map(|record| record.published).unwrap_or_default();
    Ok(published.into_iter().filter(|p| p.revoked.is_none()).map(|p| p.profile.id.to_string()).collect())
}

/// A lookup as a decision reads it. Rows 6 and 7 of the decision are the policy's; `tests/museum.rs` asks that, too.
pub fn lookup_says(store: &dyn Store, told: &Told) -> Says {
    let anchor = Anchor { pin: told.root, seen: told.seen, now: told.now };
    match lookup(store, &anchor) {
        Err(doubt) => refuses(doubt.code(), doubt.to_string()),
        Ok(live) => match live.as_slice() {
            [] => refuses("no-profile", "the registry holds no profile for this combination".into()),
            [one] => Says::Accepts(one.clone()),
            many => refuses("ambiguous", format!("live: `{}`", many.join("`, `"))),
        },
    }
}

/// The same of a proof, which stands in for a registry.
pub fn proof_says(bytes: &[u8], told: &Told) -> Says {
    match Proof::parse(bytes) {
        Ok(proof) => lookup_says(&proof, told),
        Err(error) => refuses("registry-malformed", error.to_string()),
    }
}

/// Every fault of a verification, or that it holds.
pub fn verify_says(store: &dyn Store, pin: &Hash, now: Timestamp) -> (Report, Vec<Says>) {
    let report = verify(store, pin, now, &mut |_| {});
    let mut said: Vec<Says> =
        report.faults.iter().map(|fault| refuses(&fault.file, fault.what.clone())).collect();
    if said.is_empty() && report.is_expired(now) {
        said.push(refuses("snapshot/latest.note", report.notes.join("; ")));
    }
    (report, said)
}

/// What a copy says when it is to follow `store`.
pub fn sync_says(store: &dyn Store, copy: &Memory, told: &Told) -> Says {
    let anchor = Anchor { pin: told.root, seen: told.seen, now: told.now };
    match sync(store, copy, &anchor, NonZero::<usize>::MIN, &mut |_, _| {}) {
        Err(error) => refuses(kind(&error), error.to_string()),
        Ok(done) => Says::Accepts(format!("version {}", done.latest.version)),
    }
}

fn kind(error: &SyncError) -> &'static str {
    match error {
        SyncError::Source(doubt) => doubt.code(),
        SyncError::Here(_) => "here",
        SyncError::Rotating(_) => "rotating",
        SyncError::Moving(_) => "moving",
        SyncError::Fork { .. } => "fork",
        SyncError::Damaged(_) => "damaged",
        SyncError::Entry { .. } => "entry",
        SyncError::Fetch(_) => "fetch",
        SyncError::Write(_) => "write",
    }
}

fn refuses(by: &str, says: String) -> Says {
    Says::Refuses { by: by.to_owned(), says }
}

/// Whether what was said is what was expected: the same code or file, and a message that holds the words.
pub fn fits(expected: &Says, found: &Says) -> bool {
    match (expected, found) {
        (Says::Accepts(a), Says::Accepts(b)) => a == b,
        (Says::Refuses { by: a, says: words }, Says::Refuses { by: b, says: message }) => {
            a == b && !words.is_empty() && message.contains(words.as_str())
        }
        _ => false,
    }
}

/// A store of which one file never comes: whoever waits for it gives up, as each reader of files or of the network does.
pub struct Silent<'s> {
    pub store: &'s Memory,
    pub path: &'static str,
}

impl Silent<'_> {
    fn wait(&self, path: &str) -> Result<(), StoreError> {
        if path == self.path { Err(StoreError::io(path, io::ErrorKind::TimedOut.into())) } else { Ok(()) }
    }
}

impl Store for Silent<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        self.wait(path)?;
        self.store.read(path, cap)
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.wait(path)?;
        self.store.open(path)
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.store.list()
    }
}
