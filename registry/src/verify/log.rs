//! The log: every entry's signatures and meaning, and every tile against the root that was signed.

use std::collections::BTreeSet;

use super::{Audit, Report};
use crate::latest::Latest;
use crate::log::{CHECKPOINT, LogReader, MAX_ENTRY, Row, TILE_WIDTH, Tile, decode_bundle, decode_hashes};
use crate::merkle::{Hash, Hashes, MemoryTree, leaf_hash};
use crate::note::{Note, NoteSignature};
use crate::publish::{Overlay, verified_checkpoint};
use crate::snapshot::{Catalogue, Standing};
use crate::store::{Listed, Store};
use crate::trust::Chain;
use crate::witness::{cosignatures, is_cosignature};

pub(super) fn check_checkpoint(store: &Overlay<'_>, chain: &Chain, latest: &Latest, report: &mut Report) {
    let bytes = match store.read(CHECKPOINT, 16 * 1024) {
        Ok(bytes) => bytes,
        Err(e) => return report.fault(CHECKPOINT, None, e.to_string()),
    };
    let note = Note::parse(&bytes).ok();
    let cosigners: Vec<&str> = note.iter().flat_map(cosignatures).map(NoteSignature::name).collect();
    if !cosigners.is_empty() {
        report.note(format!(
            "`{CHECKPOINT}` names as witnesses `{}`; whether they count is for each site's policy to say",
            cosigners.join("`, `")
        ));
    }
    let unknown = note.iter().flat_map(|note| note.unknown_signers(&chain.current().registry.keys));
    for signature in unknown.filter(|signature| !is_cosignature(signature)) {
        report.note(format!(
            "`{CHECKPOINT}` carries a signature by `{}`, who is no registry key",
            signature.name()
        ));
    }
    match verified_checkpoint(&bytes, chain) {
        Ok(checkpoint) if checkpoint.size == latest.log_size && checkpoint.root == latest.log_root => {}
        Ok(_) => report.fault(CHECKPOINT, None, "is of another log than `snapshot/latest.note`"),
        Err(e) => report.fault(CHECKPOINT, None, e.to_string()),
    }
}

/// Checks the whole log and returns what it says, unless it is too damaged to say anything.
pub(super) fn check(
    audit: &mut Audit<'_>,
    store: &Overlay<'_>,
    chain: &Chain,
    latest: &Latest,
    files: &[Listed],
    report: &mut Report,
) -> Option<Catalogue> {
    if let Some(missing) = first_missing_bundle(store, latest, files) {
        mark_tiles(audit, files);
        report.fault(&missing.path(), None, "is missing, so nothing can be said about the log");
        return None;
    }
    let leaves = trusted_leaves(store, latest);
    match &leaves {
        Some(tree) => check_tiles(audit, store, tree, latest, files, report),
        None => {
            mark_tiles(audit, files);
            name_disagreeing_tiles(store, latest, report);
            report.fault(
                CHECKPOINT,
                None,
                "neither entries nor tiles of the log lead to the root that was signed",
            );
        }
    }
    check_entries(audit, store, chain, latest, leaves.as_ref(), report)
}

/// Whoever holds the registry key can sign any size; what follows must not loop over entries that nobody has.
fn first_missing_bundle(store: &Overlay<'_>, latest: &Latest, files: &[Listed]) -> Option<Tile> {
    let listed = files.iter().filter_map(|file| Tile::parse(&file.path));
    let laid_over = store.laid_over().filter_map(|path| Tile::parse(&path));
    let bundles: BTreeSet<u64> =
        listed.chain(laid_over).filter(|tile| tile.row() == Row::Entries).map(Tile::index).collect();
    let missing = (0..latest.log_size.div_ceil(TILE_WIDTH)).find(|index| !bundles.contains(index))?;
    Tile::at(Row::Entries, missing, latest.log_size)
}

/// The leaf hashes that lead to the signed root: from the entries, or where those are damaged, from the tiles.
fn trusted_leaves(store: &Overlay<'_>, latest: &Latest) -> Option<MemoryTree> {
    let reader = LogReader::new(store, latest.log_size);
    let from_entries = || -> Option<MemoryTree> {
        reader.entries(0..latest.log_size).map(|entry| Some(leaf_hash(&entry.ok()?))).collect()
    };
    let from_tiles =
        || -> Option<MemoryTree> { (0..latest.log_size).map(|index| reader.hash(0, index).ok()).collect() };
    let leads_there = |tree: &MemoryTree| tree.root() == latest.log_root;
    from_entries().filter(leads_there).or_else(|| from_tiles().filter(leads_there))
}

/// Holds every tile file, the partial ones of earlier sizes too, against the trusted leaves.
fn check_tiles(
    audit: &mut Audit<'_>,
    store: &Overlay<'_>,
    tree: &MemoryTree,
    latest: &Latest,
    files: &[Listed],
    report: &mut Report,
) {
    for Listed { path, .. } in files {
        let Some(tile) = Tile::parse(path) else { continue };
        let end = tile.index().saturating_mul(TILE_WIDTH).saturating_add(tile.width());
        if end > tile.row().length(latest.log_size) {
            // Left by a publication that never committed, or put there by somebody.
            continue;
        }
        audit.checked.insert(path.clone());
        check_tile(store, tree, tile, path, report);
    }
    for tile in Tile::all(latest.log_size) {
        let present = store.read(&tile.path(), tile_cap(tile)).is_ok();
        if !present && store.read(&tile.full().path(), tile_cap(tile.full())).is_err() {
            report.fault(&tile.path(), None, "is missing or cannot be read");
        }
    }
}

fn tile_cap(tile: Tile) -> u64 {
    match tile.row() {
        Row::Entries => tile.width() * (MAX_ENTRY as u64 + 2),
        Row::Hashes(_) => tile.width() * 32,
    }
}

fn check_tile(store: &Overlay<'_>, tree: &MemoryTree, tile: Tile, path: &str, report: &mut Report) {
    let bytes = match store.read(path, tile_cap(tile)) {
        Ok(bytes) => bytes,
        Err(e) => return report.fault(path, None, e.to_string()),
    };
    let first = tile.index() * TILE_WIDTH;
    match tile.row() {
        Row::Hashes(level) => {
            let Some(hashes) = decode_hashes(&bytes).filter(|h| h.len() as u64 == tile.width()) else {
                return report.fault(path, None, "has the wrong length");
            };
            for (at, hash) in (0..).zip(hashes) {
                if tree.hash(level * 8, first + at).ok() != Some(hash) {
                    return report.fault(path, Some(at * 32), "is not what the log's entries lead to");
                }
            }
        }
        Row::Entries => {
            let entries = match decode_bundle(&bytes, tile.width()) {
                Ok(entries) => entries,
                Err(e) => return report.fault(path, None, e.to_string()),
            };
            let mut offset = 0;
            for (index, entry) in (first..).zip(entries) {
                if tree.hash(0, index).ok() != Some(leaf_hash(entry)) {
                    return report.fault(
                        path,
                        Some(offset),
                        format!("entry {index} is not the one that was logged"),
                    );
                }
                offset += entry.len() as u64 + 2;
            }
        }
    }
}

/// Where nothing leads to the signed root, every tile whose two sides disagree is named.
fn name_disagreeing_tiles(store: &Overlay<'_>, latest: &Latest, report: &mut Report) {
    let reader = LogReader::new(store, latest.log_size);
    for number in 0..latest.log_size.div_ceil(TILE_WIDTH) {
        let Some(tile) = Tile::at(Row::Entries, number, latest.log_size) else { continue };
        let entries = number * TILE_WIDTH..number * TILE_WIDTH + tile.width();
        // One fault a tile says enough.
        let fault =
            entries.into_iter().find_map(|index| match (reader.entry(index), reader.hash(0, index)) {
                (Ok(entry), Ok(hash)) if leaf_hash(&entry) == hash => None,
                (Err(e), _) => Some(e.to_string()),
                _ => Some(format!("entry {index} and its hash tile disagree")),
            });
        if let Some(fault) = fault {
            report.fault(&tile.path(), None, fault);
        }
    }
}

/// A damaged log's tiles are not leftovers, though nothing can be said about each of them.
fn mark_tiles(audit: &mut Audit<'_>, files: &[Listed]) {
    audit.checked.extend(files.iter().filter(|f| Tile::parse(&f.path).is_some()).map(|f| f.path.clone()));
}

fn check_entries(
    audit: &mut Audit<'_>,
    store: &Overlay<'_>,
    chain: &Chain,
    latest: &Latest,
    leaves: Option<&MemoryTree>,
    report: &mut Report,
) -> Option<Catalogue> {
    let reader = LogReader::new(store, latest.log_size);
    let mut catalogue = Catalogue::default();
    let mut sound = true;
    let mut offset = 0;
    for index in 0..latest.log_size {
        let path =
            Tile::at(Row::Entries, index / TILE_WIDTH, latest.log_size).map(Tile::path).unwrap_or_default();
        if index % TILE_WIDTH == 0 {
            offset = 0;
        }
        let entry = match reader.entry(index) {
            Ok(entry) => entry,
            Err(e) => {
                report.fault(&path, None, e.to_string());
                return None;
            }
        };
        // Whoever writes there while this runs may show something else each time.
        let is_other = leaves.is_some_and(|leaves| leaves.hash(0, index).ok() != Some(leaf_hash(&entry)));
        if is_other {
            sound = false;
            if !report.faults.iter().any(|fault| fault.file == path) {
                report.fault(&path, Some(offset), format!("entry {index} changed while it was read"));
            }
        }
        let checked = Standing::of(&entry, index, chain)
            .and_then(|by| catalogue.add(index, &entry, chain).map(|_| by).map_err(|e| e.to_string()));
        match checked {
            Ok(Standing::Counts) => report.entries += 1,
            Ok(Standing::Compromised(keys)) => {
                report.entries += 1;
                let keys = keys.join("`, `");
                report.note(format!(
                    "entry {index} counts no longer: `{keys}` signed it, which is compromised"
                ));
            }
            Ok(Standing::Revokes(keys)) => {
                report.entries += 1;
                let keys = keys.join("`, `");
                report.note(format!(
                    "entry {index} stands, since it revokes: `{keys}` signed it, which is compromised"
                ));
            }
            Err(what) => {
                sound = false;
                report.fault(&path, Some(offset), format!("entry {index}: {what}"));
            }
        }
        offset += entry.len() as u64 + 2;
        (audit.progress)(index);
    }
    sound.then_some(catalogue)
}

/// The hash of nothing but its bytes, for messages.
pub(super) fn short(hash: &Hash) -> String {
    hash.to_string().chars().take(12).collect()
}
