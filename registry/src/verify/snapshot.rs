//! The snapshot: rebuilt from the log and compared byte for byte.

use std::io::{self, Write};

use super::log::short;
use super::{Audit, Report};
use crate::latest::Latest;
use crate::log::{CHECKPOINT, LogReader};
use crate::merkle::{Frontier, Hash, leaf_hash};
use crate::publish::{LogEntries, Overlay};
use crate::snapshot::{Catalogue, Compiled, Snapshot, compile, recompile};
use crate::store::{Listed, ReadAt, Store};

pub(super) fn check(
    audit: &mut Audit<'_>,
    store: &Overlay<'_>,
    latest: &Latest,
    catalogue: Option<Catalogue>,
    files: &[Listed],
    report: &mut Report,
) {
    let path = latest.snapshot_path();
    audit.checked.insert(path.clone());
    match catalogue {
        Some(catalogue) => rebuild(audit, store, latest, &catalogue, report),
        // Without a sound log there is nothing to rebuild from, but the file can still be held against its name.
        None => check_by_itself(store, &path, report),
    }
    for Listed { path, .. } in files.iter().filter(|file| is_previous(&file.path, latest)) {
        if audit.checked.insert(path.clone()) {
            check_by_itself(store, path, report);
        }
    }
}

/// The snapshot before the current one stays for readers who opened `latest.note` just before it was replaced. Its root
/// is signed nowhere any more, so it can only be held against its own name.
fn is_previous(path: &str, latest: &Latest) -> bool {
    let start = format!("snapshot/{}-", latest.version.saturating_sub(1));
    path.starts_with(&start) && path.ends_with(".snap")
}

fn rebuild(
    audit: &mut Audit<'_>,
    store: &Overlay<'_>,
    latest: &Latest,
    catalogue: &Catalogue,
    report: &mut Report,
) {
    let path = latest.snapshot_path();
    let file = match store.open(&path) {
        Ok(file) => file,
        Err(e) => return report.fault(&path, None, e.to_string()),
    };
    let Some(entries) = remembered(store, latest) else {
        return report.fault(CHECKPOINT, None, "the log changed while it was read");
    };
    let mut compare = Compare::new(file.as_ref());
    match compile(catalogue, &entries, &mut compare, audit.progress) {
        Ok(compiled) => {
            report.records = compiled.size;
            compare.finish(&path, report);
            check_root(compiled, latest, report);
        }
        Err(e) => report.fault(&path, None, format!("cannot be rebuilt from the log: {e}")),
    }
}

/// Lengths and hashes of the entries, as positioned reads need them, if they still lead to what was signed.
fn remembered<'s>(store: &'s Overlay<'_>, latest: &Latest) -> Option<LogEntries<'s>> {
    let mut entries = LogEntries::new(store, latest.log_size);
    let mut tree = Frontier::new();
    for entry in LogReader::new(store, latest.log_size).entries(0..latest.log_size) {
        let entry = entry.ok()?;
        let leaf = leaf_hash(&entry);
        entries.remember(entry.len(), leaf);
        tree.push(leaf);
    }
    (tree.root() == latest.log_root).then_some(entries)
}

fn check_root(compiled: Compiled, latest: &Latest, report: &mut Report) {
    if compiled.root != latest.root || compiled.size != latest.size {
        let what = format!(
            "signs {} records under {}…, but the log leads to {} under {}…",
            latest.size,
            short(&latest.root),
            compiled.size,
            short(&compiled.root)
        );
        report.fault(crate::latest::PATH, None, what);
    }
}

/// Holds a snapshot against the root in its own name, and its bytes against its own records.
fn check_by_itself(store: &dyn Store, path: &str, report: &mut Report) {
    let root = path.strip_suffix(".snap").and_then(|p| p.rsplit_once('-')).and_then(|(_, r)| r.parse().ok());
    let Some(root) = root else { return report.fault(path, None, "has no name of a snapshot") };
    if let Err(what) = reread(store, path, root, report) {
        report.fault(path, None, what);
    }
}

fn reread(store: &dyn Store, path: &str, root: Hash, report: &mut Report) -> Result<(), String> {
    let open = || store.open(path).map_err(|e| e.to_string());
    let file = open()?;
    let mut count = [0; 8];
    file.read_exact_at(&mut count, 48).map_err(|e| e.to_string())?;
    let snapshot = Snapshot::open(open()?, u64::from_be_bytes(count), root).map_err(|e| e.to_string())?;
    let mut compare = Compare::new(file.as_ref());
    recompile(&snapshot, &mut compare).map_err(|e| e.to_string())?;
    compare.finish(path, report);
    Ok(())
}

/// Takes what should stand in a file and remembers where it first differs.
struct Compare<'f> {
    file: &'f dyn ReadAt,
    at: u64,
    differs: Option<u64>,
}

impl<'f> Compare<'f> {
    fn new(file: &'f dyn ReadAt) -> Self {
        Self { file, at: 0, differs: None }
    }

    fn finish(self, path: &str, report: &mut Report) {
        if let Some(at) = self.differs {
            report.fault(path, Some(at), "is not what the log leads to");
        } else if self.at != self.file.size() {
            report.fault(path, Some(self.at), "goes on behind its end");
        }
    }
}

impl Write for Compare<'_> {
    fn write(&mut self, expected: &[u8]) -> io::Result<usize> {
        if self.differs.is_none() {
            let mut found = vec![0; expected.len()];
            let read = self.file.read_exact_at(&mut found, self.at);
            let first =
                if read.is_err() { Some(0) } else { found.iter().zip(expected).position(|(a, b)| a != b) };
            self.differs = first.map(|first| self.at + first as u64);
        }
        self.at += expected.len() as u64;
        Ok(expected.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
