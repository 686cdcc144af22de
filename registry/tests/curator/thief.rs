//! What an attacker can make with a stolen key and the formats' description, past every check of the honest code.

use base64ct::{Base64, Encoding};
use capgate_registry::keys::SigningKey;
use capgate_registry::latest::{self, Latest};
use capgate_registry::log::{CHECKPOINT, Checkpoint, LogReader, append};
use capgate_registry::merkle::{Hashes, MemoryTree, empty_root, leaf_hash};
use capgate_registry::note::{self, Kind, Note, Origin};
use capgate_registry::snapshot::{RawProfile, RawRecord};

use super::honest::{History, day};
use crate::support::{Memory, origin};

/// Signs whatever the bytes are: `note::sign` refuses texts that no reader should see.
pub fn sign_raw(text: &[u8], keys: &[&SigningKey]) -> Vec<u8> {
    let mut note = [text, b"\n"].concat();
    for key in keys {
        let line = signature_line(key.verifier().name(), key.verifier().hash(), &key.sign(text).unwrap());
        note.extend(line.into_bytes());
    }
    note
}

pub fn signature_line(name: &str, hash: [u8; 4], signature: &[u8]) -> String {
    format!("\u{2014} {name} {}\n", Base64::encode_string(&[&hash[..], signature].concat()))
}

/// The text of a note as it stands.
pub fn text_of(note: &[u8]) -> String {
    Note::parse(note).unwrap().text().to_owned()
}

/// What is in force there.
pub fn latest_of(store: &Memory) -> Latest {
    latest_in(&origin(), &store.get(latest::PATH))
}

fn latest_in(origin: &Origin, bytes: &[u8]) -> Latest {
    let text = text_of(bytes);
    Latest::parse(note::body(&text, Kind::Latest, origin).unwrap().as_bytes()).unwrap()
}

/// Every entry of the log.
pub fn entries_of(store: &Memory) -> Vec<Vec<u8>> {
    let size = latest_of(store).log_size;
    LogReader::new(store, size).entries(0..size).map(Result::unwrap).collect()
}

/// Every record of the snapshot.
pub fn records_of(store: &Memory) -> Vec<RawRecord> {
    let latest = latest_of(store);
    let snapshot = capgate_registry::reader::open_snapshot(store, &latest).unwrap();
    (0..latest.size).map(|at| RawRecord::decode(&snapshot.record(at).unwrap()).unwrap()).collect()
}

/// A record of one profile that nothing revoked.
pub fn record(toml: &str, index: u64, note: &[u8]) -> RawRecord {
    let profile = RawProfile { index, note: note.to_vec(), revocation: None };
    RawRecord { key: crate::support::first_key(toml), profiles: vec![profile] }
}

/// What the holder of a registry key signs.
pub struct Forgery<'k> {
    pub entries: Vec<Vec<u8>>,
    pub records: Vec<Vec<u8>>,
    pub version: u64,
    pub trust: u64,
    pub key: &'k SigningKey,
    pub base: Memory,
}

impl<'k> Forgery<'k> {
    /// The next version of the honest registry, with nothing new yet.
    pub fn of(history: &'k History) -> Self {
        Self::over(history.version(6), &history.keys.registry)
    }

    pub fn over(base: &Memory, key: &'k SigningKey) -> Self {
        let latest = latest_of(base);
        Self {
            entries: entries_of(base),
            records: records_of(base).iter().map(RawRecord::encode).collect(),
            version: latest.version + 1,
            trust: latest.trust,
            key,
            base: base.copy(),
        }
    }

    pub fn log(mut self, entry: &[u8]) -> Self {
        self.entries.push(entry.to_vec());
        self
    }

    /// Adds a record in its place.
    pub fn record(mut self, record: &RawRecord) -> Self {
        self.records.retain(|other| other[..32] != record.key.0);
        self.records.push(record.encode());
        self.records.sort();
        self
    }

    pub fn make(self) -> Memory {
        self.make_with(|_| {})
    }

    /// Signs everything, the note after `change`.
    pub fn make_with(self, change: impl FnOnce(&mut Latest)) -> Memory {
        let store = self.base;
        store.files.borrow_mut().retain(|path, _| path.starts_with("trust/"));
        let empty = Memory::default();
        let log = append(&LogReader::new(&empty, 0), &empty_root(), &self.entries).unwrap();
        log.files.into_iter().for_each(|(path, bytes)| store.set(&path, bytes));
        let (snapshot, root) = snapshot_file(&self.records);
        let mut latest = Latest {
            version: self.version,
            size: self.records.len() as u64,
            root,
            log_size: log.size,
            log_root: log.root,
            trust: self.trust,
            issued: day(7),
            expires: day(37),
        };
        store.set(&latest.snapshot_path(), snapshot);
        change(&mut latest);
        let checkpoint = Checkpoint { origin: origin(), size: latest.log_size, root: latest.log_root };
        store.set(CHECKPOINT, note::sign(&checkpoint.to_text(), &[self.key]).unwrap());
        set_latest(&store, &latest, &[self.key]);
        store
    }
}

/// Signs `latest.note`.
pub fn set_latest(store: &Memory, latest: &Latest, keys: &[&SigningKey]) {
    let text = note::compose(Kind::Latest, &origin(), &latest.to_toml()).unwrap();
    store.set(latest::PATH, note::sign(&text, keys).unwrap());
}

const TILE: usize = 16_384;

/// A snapshot of these records in this order, up to 256 of them: docs/format.md, "Snapshot", written a second time.
pub fn snapshot_file(records: &[Vec<u8>]) -> (Vec<u8>, capgate_registry::merkle::Hash) {
    assert!(records.len() <= 256);
    let tree: MemoryTree = records.iter().map(|record| leaf_hash(record)).collect();
    let mut file = b"capgate snapshot v1\n".to_vec();
    file.resize(48, 0);
    file.extend((records.len() as u64).to_be_bytes());
    file.extend((records.iter().map(Vec::len).sum::<usize>() as u64).to_be_bytes());
    let mut index = Vec::new();
    for record in records {
        index.extend(&record[..32]);
        index.extend((file.len() as u64).to_be_bytes());
        index.extend((record.len() as u32).to_be_bytes());
        file.extend(record);
    }
    pad(&mut file);
    file.extend(index);
    pad(&mut file);
    for level in 0..=8u8 {
        for at in 0..(256u64 >> level) {
            if records.is_empty() {
                break;
            }
            let complete = (at + 1) << level <= records.len() as u64;
            let hash = if complete { tree.hash(level, at).unwrap().0 } else { [0; 32] };
            file.extend(hash);
        }
    }
    pad(&mut file);
    (file, tree.root())
}

fn pad(file: &mut Vec<u8>) {
    file.resize(file.len().div_ceil(TILE) * TILE, 0);
}
