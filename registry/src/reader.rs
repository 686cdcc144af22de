//! Opens a published registry and answers what is in force under a key.

use jiff::Timestamp;

use crate::combination::{Hex, Key};
use crate::latest::{self, Latest};
use crate::merkle::Hash;
use crate::note::{self, Kind, Note, NoteError, Origin};
use crate::profile::{Profile, Revocation};
use crate::record::{Doubt, Lookup, Published, Record, View};
use crate::snapshot::{Change, RawProfile, RawRecord, Snapshot, SnapshotError};
use crate::store::{Store, StoreError};
use crate::trust::{Chain, MAX_BYTES as MAX_TRUST, MAX_VERSIONS, TrustError};
use crate::witness::{self, Quorum};

/// The newest state that was ever verified here, so that nobody can turn time back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Highest snapshot version.
    pub version: u64,
    /// Its root.
    pub root: Option<Hash>,
    /// Entries of its log.
    pub log_size: u64,
    /// Root of its log.
    pub log_root: Option<Hash>,
    /// Highest trust version.
    pub trust: u64,
    /// Newest time that a verified signature named.
    pub time: Option<Timestamp>,
}

/// Which first root is trusted, what was seen before, and what time it is.
#[derive(Debug, Clone, Copy)]
pub struct Anchor {
    /// SHA-256 of the first trust note.
    pub pin: Hash,
    /// The newest state seen before.
    pub seen: Seen,
    /// The time.
    pub now: Timestamp,
}

/// An open registry.
#[derive(Debug)]
pub struct Reader {
    chain: Chain,
    latest: Latest,
    snapshot: Snapshot,
    view: View,
}

/// Reads and verifies the chain of trust up to `version`, or as far as it goes.
pub fn read_chain(store: &dyn Store, pin: &Hash, version: Option<u64>) -> Result<Chain, Doubt> {
    let notes = read_trust(store, version)?;
    Chain::open(notes.iter().map(Vec::as_slice), pin).map_err(|e| trust_doubt(&e))
}

fn read_trust(store: &dyn Store, version: Option<u64>) -> Result<Vec<Vec<u8>>, Doubt> {
    let cap = MAX_TRUST as u64;
    let mut notes: Vec<Vec<u8>> = Vec::new();
    for version in 1..=version.unwrap_or(MAX_VERSIONS).min(MAX_VERSIONS) {
        match store.read(&trust_path(version), cap) {
            Ok(bytes) => notes.push(bytes),
            Err(StoreError::NotFound { path }) if notes.is_empty() => {
                return Err(Doubt::Missing(format!("`{path}` does not exist")));
            }
            Err(StoreError::NotFound { .. }) => break,
            Err(e) => return Err(unreadable(&e)),
        }
    }
    Ok(notes)
}

/// Name of one version of the trust.
pub fn trust_path(version: u64) -> String {
    format!("trust/{version}.note")
}

/// `latest.note` as it stands, whoever signed it.
pub(crate) struct Claimed {
    pub bytes: Vec<u8>,
    note: Note,
    pub latest: Latest,
}

impl Claimed {
    pub fn read(store: &dyn Store) -> Result<Self, Doubt> {
        let bytes = store.read(latest::PATH, latest::MAX_BYTES).map_err(|e| match e {
            StoreError::NotFound { path } => Doubt::Missing(format!("`{path}` does not exist")),
            e => unreadable(&e),
        })?;
        let malformed = |what: String| Doubt::Malformed(format!("`{}`: {what}", latest::PATH));
        let note = Note::parse(&bytes).map_err(|e| malformed(e.to_string()))?;
        let body = note::origin_of(note.text(), Kind::Latest)
            .and_then(|origin| note::body(note.text(), Kind::Latest, &Origin::parse(origin)?))
            .map_err(|e| note_doubt(latest::PATH, &e))?;
        let latest = Latest::parse(body.as_bytes()).map_err(|problems| {
            malformed(problems.first().map_or_else(String::new, |p| p.message.clone()))
        })?;
        Ok(Self { bytes, note, latest })
    }

    /// Believes it, if the registry keys of the trust version that it names signed it, for this origin.
    pub fn verify(&self, chain: &Chain) -> Result<Latest, Doubt> {
        let missing = || Doubt::Rollback(format!("`{}` is missing", trust_path(self.latest.trust)));
        let chain = chain.as_of(self.latest.trust).ok_or_else(missing)?;
        note::body(self.note.text(), Kind::Latest, chain.origin())
            .and_then(|_| chain.current().registry.verify(&self.note))
            .map_err(|e| note_doubt(latest::PATH, &e))?;
        Ok(self.latest.clone())
    }
}

/// Reads and verifies `latest.note` under the trust version that it names; whether it expired is for [`judge_age`] to
/// say, and whether that version is still the newest is for the caller: a rotation takes force with the next
/// `latest.note`, which is the one commit point.
pub fn read_latest(store: &dyn Store, chain: &Chain) -> Result<Latest, Doubt> {
    Claimed::read(store)?.verify(chain)
}

/// Holds a verified `latest.note` against the clock and against what was seen before.
pub fn judge_age(latest: &Latest, chain: &Chain, anchor: &Anchor) -> Result<(), Doubt> {
    let Anchor { seen, now, .. } = *anchor;
    let newest = seen.time.into_iter().chain([latest.issued, chain.current().issued]).max();
    if let Some(newest) = newest.filter(|&newest| now < newest) {
        return Err(Doubt::ClockBehind(format!("it says {now}, and {newest} was signed already")));
    }
    if chain.current().version < seen.trust {
        let what = format!("trust version {} after trust version {}", chain.current().version, seen.trust);
        return Err(Doubt::Rollback(what));
    }
    let floor = version_floor(&seen, chain, latest);
    if latest.version < floor {
        let what = format!("version {} after version {floor}", latest.version);
        return Err(Doubt::Rollback(what));
    }
    let other_log = seen.log_root.is_some_and(|root| root != latest.log_root);
    if latest.log_size < seen.log_size || (latest.log_size == seen.log_size && other_log) {
        let what =
            format!("a log of {} entries is not the one of {} that was seen", latest.log_size, seen.log_size);
        return Err(Doubt::Rollback(what));
    }
    if latest.version == floor && seen.root.is_some_and(|root| root != latest.root) {
        return Err(Doubt::Rollback(format!("version {} exists with two contents", latest.version)));
    }
    if chain.current().expires <= now {
        let what = format!("trust version {} ended {}", chain.current().version, chain.current().expires);
        return Err(Doubt::Expired(format!("{what}; its root keys must sign the next version")));
    }
    if latest.expires <= now {
        let what = format!("version {} ended {}", latest.version, latest.expires);
        return Err(Doubt::Expired(format!("{what}; its maintainer must run `capgate renew`")));
    }
    Ok(())
}

/// The lowest version that is no rollback: the one that was seen, unless a registry key was taken out since. See
/// [`Chain::registry_epoch`]. The log and the trust never go back all the same.
pub fn version_floor(seen: &Seen, chain: &Chain, latest: &Latest) -> u64 {
    let is_later = seen.trust > 0 && chain.registry_epoch(latest.trust) > chain.registry_epoch(seen.trust);
    if is_later { 0 } else { seen.version }
}

impl Reader {
    /// Verifies the trust that `latest.note` names, then `latest.note`, then the snapshot's tree.
    pub fn open(store: &dyn Store, anchor: &Anchor) -> Result<Self, Doubt> {
        let claimed = Claimed::read(store)?;
        // Newer trust may stand there already; it takes force with the `latest.note` that names it.
        let trust = read_trust(store, Some(claimed.latest.trust))?;
        let chain =
            Chain::open_pinned(trust.iter().map(Vec::as_slice), &anchor.pin).map_err(|e| trust_doubt(&e))?;
        let latest = claimed.verify(&chain)?;
        judge_age(&latest, &chain, anchor)?;
        let snapshot = open_snapshot(store, &latest)?;
        let view = View {
            origin: chain.origin().to_string(),
            version: latest.version,
            root: Hex(latest.root.0),
            size: latest.size,
            log_size: latest.log_size,
            trust_version: chain.current().version,
            issued: latest.issued,
            expires: latest.expires,
            witnessed: None,
        };
        Ok(Self { chain, latest, snapshot, view })
    }

    /// Opens it and holds it against a site's demand for witnesses. A registry that is replaced while it is read is read
    /// again.
    pub fn open_witnessed(
        store: &dyn Store,
        anchor: &Anchor,
        demand: Option<&Quorum>,
    ) -> Result<Self, Doubt> {
        let open = || Self::open(store, anchor)?.witnessed_by(store, demand);
        match open() {
            Err(Doubt::Unwitnessed(_)) => open(),
            opened => opened,
        }
    }

    /// Holds the registry against a site's demand for witnesses; without one nothing is read. `store` is what it was opened
    /// in.
    ///
    /// The cosignatures are over the log's checkpoint, which `latest.note` names. That the snapshot follows from the log is
    /// what `sync` and `verify` show; here the registry keys vouch for it.
    fn witnessed_by(mut self, store: &dyn Store, demand: Option<&Quorum>) -> Result<Self, Doubt> {
        let Some(demand) = demand else { return Ok(self) };
        let checkpoint = witness::checkpoint_of(store, self.chain.origin(), &self.latest)?;
        demand.check(&checkpoint, self.chain.origin(), &self.latest).map_err(|e| witness::unwitnessed(&e))?;
        self.view.witnessed = Some(demand.clone());
        Ok(self)
    }

    /// What `latest.note` says.
    pub fn latest(&self) -> &Latest {
        &self.latest
    }

    /// The verified trust.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The open snapshot.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// What this state adds to what was seen.
    pub fn seen(&self) -> Seen {
        Seen {
            version: self.latest.version,
            root: Some(self.latest.root),
            log_size: self.latest.log_size,
            log_root: Some(self.latest.log_root),
            trust: self.chain.current().version,
            time: Some(self.latest.issued.max(self.chain.current().issued)),
        }
    }

    /// Every record in key order, verified as a lookup verifies it.
    pub fn records(&self) -> impl Iterator<Item = Result<Record, Doubt>> {
        (0..self.snapshot.size()).map(|position| {
            let bytes = self.snapshot.record(position).map_err(|e| snapshot_doubt(&e))?;
            let raw = RawRecord::decode(&bytes).ok_or_else(malformed_record)?;
            let key = raw.key;
            self.verify_record(raw, &key)
        })
    }

    fn verify_record(&self, raw: RawRecord, key: &Key) -> Result<Record, Doubt> {
        if raw.key != *key {
            return Err(Doubt::Corrupt("a record stands under another key than its own".into()));
        }
        let published: Result<Vec<Published>, Doubt> =
            raw.profiles.iter().map(|profile| self.verify_profile(profile, key)).collect();
        Ok(Record { key: *key, published: published? })
    }

    /// Publishers' signatures, then the profile, then its key: a search is only a hint.
    fn verify_profile(&self, raw: &RawProfile, key: &Key) -> Result<Published, Doubt> {
        let what = format!("the profile at log index {}", raw.index);
        self.check_index(raw.index, &what)?;
        let note = Note::parse(&raw.note).map_err(|e| note_doubt(&what, &e))?;
        let publishers = self.chain.publishers_at(raw.index);
        let signers = publishers.verify(&note).map_err(|e| note_doubt(&what, &e))?;
        let body =
            note::body(note.text(), Kind::Profile, self.chain.origin()).map_err(|e| note_doubt(&what, &e))?;
        let profile = Profile::parse(body.as_bytes()).map_err(|problems| {
            let first = problems.first().map_or_else(String::new, |p| p.message.clone());
            Doubt::Malformed(format!("{what}: {first}"))
        })?;
        if !profile.keys().contains(key) {
            return Err(Doubt::Corrupt(format!("{what} was tested on another combination")));
        }
        let revoked = match &raw.revocation {
            Some((index, note)) => Some(self.verify_revocation(*index, note, &profile)?),
            None => None,
        };
        Ok(Published { index: raw.index, profile, signers, revoked })
    }

    /// The index decides which trust judges the entry. That the entry stands there is vouched for by the registry key
    /// alone until records carry a proof of inclusion in the log.
    fn check_index(&self, index: u64, what: &str) -> Result<(), Doubt> {
        if index < self.latest.log_size {
            return Ok(());
        }
        Err(Doubt::Corrupt(format!("{what} is outside a log of {} entries", self.latest.log_size)))
    }

    fn verify_revocation(&self, index: u64, bytes: &[u8], profile: &Profile) -> Result<Revocation, Doubt> {
        let what = format!("the revocation at log index {index}");
        self.check_index(index, &what)?;
        let note = Note::parse(bytes).map_err(|e| note_doubt(&what, &e))?;
        self.chain.publishers_then(index).verify_any(&note).map_err(|e| note_doubt(&what, &e))?;
        match Change::read(&note, self.chain.origin()) {
            Ok(Change::Revocation(revocation)) if revocation.revokes == profile.id => Ok(revocation),
            Ok(_) => Err(Doubt::Corrupt(format!("{what} revokes something else"))),
            Err(e) => Err(Doubt::Malformed(format!("{what}: {e}"))),
        }
    }
}

impl Lookup for Reader {
    fn lookup(&self, key: &Key) -> Result<Option<Record>, Doubt> {
        let Some(bytes) = self.snapshot.find(key).map_err(|e| snapshot_doubt(&e))? else { return Ok(None) };
        let raw = RawRecord::decode(&bytes).ok_or_else(malformed_record)?;
        self.verify_record(raw, key).map(Some)
    }

    fn view(&self) -> &View {
        &self.view
    }
}

/// Opens the snapshot that `latest` speaks of.
pub fn open_snapshot(store: &dyn Store, latest: &Latest) -> Result<Snapshot, Doubt> {
    let file = store.open(&latest.snapshot_path()).map_err(|e| match e {
        StoreError::NotFound { path } => Doubt::Missing(format!("`{path}` does not exist")),
        e => unreadable(&e),
    })?;
    Snapshot::open(file, latest.size, latest.root).map_err(|e| snapshot_doubt(&e))
}

pub(crate) fn unreadable(error: &StoreError) -> Doubt {
    Doubt::Unreadable(error.to_string())
}

fn malformed_record() -> Doubt {
    Doubt::Malformed("a record of the snapshot cannot be read".into())
}

fn snapshot_doubt(error: &SnapshotError) -> Doubt {
    match error {
        SnapshotError::Io(e) => Doubt::Unreadable(format!("snapshot: {e}")),
        SnapshotError::Changed(what) => Doubt::Corrupt(format!("snapshot: {what}")),
    }
}

pub(crate) fn trust_doubt(error: &TrustError) -> Doubt {
    match error {
        TrustError::NotPinned { .. } => Doubt::WrongKey(error.to_string()),
        TrustError::Version { .. } => Doubt::Malformed(error.to_string()),
        TrustError::Signature { version, source } => note_doubt(&trust_path(*version), source),
    }
}

fn note_doubt(what: &str, error: &NoteError) -> Doubt {
    let text = format!("{what}: {error}");
    match error {
        NoteError::WrongOrigin { .. } => Doubt::WrongOrigin(text),
        NoteError::TooFew { .. } | NoteError::Invalid { .. } => Doubt::Unsigned(text),
        _ => Doubt::Malformed(text),
    }
}
