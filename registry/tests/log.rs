//! The log: names, tiles, bundles, checkpoints, and appending in any steps.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use capgate_registry::log::{
    BundleError, Checkpoint, CheckpointError, Extension, LogError, LogReader, MAX_ENTRY, MAX_SIZE, Row, Tile,
    append, decode_bundle, encode_bundle,
};
use capgate_registry::merkle::{
    Frontier, Hash, Hashes, MemoryTree, empty_root, leaf_hash, node_hash, prove_consistency, root,
    verify_consistency,
};
use capgate_registry::note::Origin;
use capgate_registry::store::{Listed, ReadAt, Store, StoreError};
use proptest::prelude::*;

/// A folder in memory that counts its reads.
#[derive(Default)]
struct Memory {
    files: BTreeMap<String, Vec<u8>>,
    reads: RefCell<usize>,
}

impl Store for Memory {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        *self.reads.borrow_mut() += 1;
        let bytes = self.files.get(path).ok_or_else(|| StoreError::NotFound { path: path.into() })?;
        let size = bytes.len() as u64;
        if size > cap {
            Err(StoreError::TooLarge { path: path.into(), size, cap })
        } else {
            Ok(bytes.clone())
        }
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        Err(StoreError::NotFound { path: path.into() })
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        Ok(self
            .files
            .iter()
            .map(|(path, bytes)| Listed { path: path.clone(), size: bytes.len() as u64 })
            .collect())
    }
}

impl Memory {
    /// Appends entries `from..to` and stores what that writes.
    fn grow(&mut self, from: u64, to: u64, root: &Hash) -> Hash {
        let extension = append(&LogReader::new(self, from), root, (from..to).map(entry)).unwrap();
        assert_eq!(extension.size, to);
        self.files.extend(extension.files);
        extension.root
    }

    fn with(size: u64) -> (Self, Hash) {
        let mut store = Self::default();
        let root = store.grow(0, size, &empty_root());
        (store, root)
    }
}

fn entry(index: u64) -> Vec<u8> {
    // Lengths vary, zero among them.
    format!("entry {index} ").repeat(index as usize % 4).into_bytes()
}

fn leaves(size: u64) -> MemoryTree {
    (0..size).map(|index| leaf_hash(&entry(index))).collect()
}

#[test]
fn any_steps_make_the_same_log() {
    let mut roots = vec![empty_root()];
    let mut frontier = Frontier::new();
    for index in 0..600 {
        frontier.push(leaf_hash(&entry(index)));
        roots.push(frontier.root());
    }
    for steps in [vec![1], vec![7], vec![255, 1, 3], vec![256], vec![257], vec![600], vec![13, 250]] {
        let mut store = Memory::default();
        let (mut size, mut root) = (0, empty_root());
        for step in steps.iter().cycle() {
            let next = (size + step).min(600);
            root = store.grow(size, next, &root);
            assert_eq!(root, roots[next as usize], "{size} to {next}");
            size = next;
            if size == 600 {
                break;
            }
        }
        let (whole, _) = Memory::with(600);
        for (path, bytes) in &whole.files {
            assert_eq!(store.files.get(path), Some(bytes), "{path} in steps of {steps:?}");
        }
    }
}

#[test]
fn every_size_has_exactly_the_files_that_its_tiles_need() {
    for size in 0..=600 {
        let (store, root_of_log) = Memory::with(size);
        assert_eq!(root_of_log, leaves(size).root());
        let mut expected = Vec::new();
        for row in [Row::Entries, Row::Hashes(0), Row::Hashes(1), Row::Hashes(2)] {
            expected.extend((0..4).filter_map(|index| Tile::at(row, index, size)).map(Tile::path));
        }
        expected.sort();
        assert_eq!(store.files.keys().cloned().collect::<Vec<_>>(), expected, "{size}");
        assert_eq!(root(&LogReader::new(&store, size), size).unwrap(), root_of_log);
    }
}

#[test]
fn every_proof_read_from_tiles_verifies() {
    let mut store = Memory::default();
    let mut roots = vec![empty_root()];
    for size in 0..600 {
        let next = store.grow(size, size + 1, &roots[size as usize]);
        roots.push(next);
    }
    for size in 0..=600 {
        let reader = LogReader::new(&store, size);
        let whole = roots[size as usize];
        for index in 0..size {
            assert_eq!(reader.proven_entry(index, &whole).unwrap(), entry(index), "{index} of {size}");
        }
        for old in 0..=size {
            let proof = prove_consistency(&reader, old, size).unwrap();
            verify_consistency(old, size, &roots[old as usize], &whole, &proof).unwrap();
        }
    }
}

#[test]
fn three_levels_of_tiles() {
    // 65,536 entries fill the first tile of level 1; one more begins a second path through all levels.
    let (mut store, first) = Memory::with(65_536);
    assert!(store.files.contains_key("log/tile/1/000"));
    assert!(store.files.contains_key("log/tile/2/000.p/1"));
    let second = store.grow(65_536, 65_800, &first);
    assert_eq!(second, leaves(65_800).root());
    assert!(store.files.contains_key("log/tile/1/001.p/1"));
    let reader = LogReader::new(&store, 65_800);
    for index in [0, 255, 256, 65_535, 65_536, 65_799] {
        reader.proven_entry(index, &second).unwrap();
    }
    let proof = prove_consistency(&reader, 65_536, 65_800).unwrap();
    verify_consistency(65_536, 65_800, &first, &second, &proof).unwrap();
}

#[test]
fn a_vanished_partial_tile_is_read_from_the_full_one() {
    let (mut store, old) = Memory::with(100);
    let new = store.grow(100, 300, &old);
    store.files.retain(|path, _| !path.ends_with(".p/100"));
    let reader = LogReader::new(&store, 100);
    assert_eq!(root(&reader, 100).unwrap(), old);
    assert_eq!(reader.proven_entry(99, &old).unwrap(), entry(99));
    assert!(matches!(reader.entry(100), Err(LogError::Range { index: 100, size: 100 })));
    let again = append(&reader, &old, (100..300).map(entry)).unwrap();
    assert_eq!(again.root, new);
    store.files.remove("log/tile/0/000");
    let error = root(&LogReader::new(&store, 100), 100).unwrap_err();
    assert_eq!(error.to_string(), "`log/tile/0/000.p/100` is missing");
}

#[test]
fn reading_in_order_reads_each_file_once() {
    let (store, whole) = Memory::with(600);
    let reader = LogReader::new(&store, 600);
    *store.reads.borrow_mut() = 0;
    let read: Result<Vec<_>, _> = reader.entries(0..600).collect();
    assert_eq!(read.unwrap(), (0..600).map(entry).collect::<Vec<_>>());
    assert_eq!(*store.reads.borrow(), 3);
    for index in 0..600 {
        reader.proven_entry(index, &whole).unwrap();
    }
    assert_eq!(*store.reads.borrow(), 3 + 3 + 4, "three bundles again, three tiles, one tile of tiles");
    assert!(reader.entries(599..601).last().unwrap().is_err());
}

#[test]
fn attack_changed_tiles_and_entries_are_noticed() {
    let (honest, whole) = Memory::with(300);
    for path in ["log/tile/0/000", "log/tile/0/001.p/44", "log/tile/1/000.p/1", "log/tile/entries/001.p/44"] {
        let mut store = Memory { files: honest.files.clone(), ..Memory::default() };
        *store.files.get_mut(path).unwrap().last_mut().unwrap() ^= 1;
        let refused = (0..300).any(|index| LogReader::new(&store, 300).proven_entry(index, &whole).is_err());
        assert!(refused, "{path}");
    }
}

#[test]
fn attack_appending_to_a_changed_log_is_refused() {
    let (honest, whole) = Memory::with(300);
    for (path, entry) in
        [("log/tile/0/001.p/44", false), ("log/tile/1/000.p/1", false), ("log/tile/entries/001.p/44", true)]
    {
        let mut store = Memory { files: honest.files.clone(), ..Memory::default() };
        *store.files.get_mut(path).unwrap().last_mut().unwrap() ^= 1;
        match append(&LogReader::new(&store, 300), &whole, [b"next"]) {
            Err(LogError::Root { size: 300, .. }) => assert!(!entry, "{path}"),
            Err(LogError::Entry { index: 299 }) => assert!(entry, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    let other_root = append(&LogReader::new(&honest, 300), &empty_root(), [b"next"]);
    assert!(matches!(other_root, Err(LogError::Root { .. })));
}

#[test]
fn damaged_files_are_refused() {
    let (honest, _) = Memory::with(300);
    let damaged = |path: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut store = Memory { files: honest.files.clone(), ..Memory::default() };
        change(store.files.get_mut(path).unwrap());
        let reader = LogReader::new(&store, 300);
        let hashes = root(&reader, 300).err().map(|error| error.to_string());
        hashes.or_else(|| reader.entries(0..300).find_map(Result::err).map(|error| error.to_string()))
    };
    let message = damaged("log/tile/0/001.p/44", &|bytes| bytes.truncate(44 * 32 - 1));
    assert_eq!(message.unwrap(), "`log/tile/0/001.p/44` has 1407 bytes, 1408 are needed");
    let message = damaged("log/tile/0/001.p/44", &|bytes| bytes.truncate(43 * 32));
    assert_eq!(message.unwrap(), "`log/tile/0/001.p/44` has 1376 bytes, 1408 are needed");
    let message = damaged("log/tile/0/001.p/44", &|bytes| bytes.push(0));
    assert_eq!(
        message.unwrap(),
        "`log/tile/0/001.p/44` has 1409 bytes, more than the 1408 that are accepted"
    );
    let message = damaged("log/tile/entries/000", &|bytes| bytes.truncate(bytes.len() - 1));
    assert_eq!(message.unwrap(), "`log/tile/entries/000`: the bundle is cut off inside entry 255");
    let message = damaged("log/tile/entries/000", &|bytes| bytes.extend([0, 0]));
    assert_eq!(message.unwrap(), "`log/tile/entries/000`: the bundle holds 257 entries, its name says 256");
}

#[test]
fn names_of_tiles() {
    let size = MAX_SIZE;
    for (row, index, path) in [
        (Row::Hashes(0), 0, "log/tile/0/000"),
        (Row::Hashes(0), 999, "log/tile/0/999"),
        (Row::Hashes(1), 1000, "log/tile/1/x001/000"),
        (Row::Entries, 1_234_067, "log/tile/entries/x001/x234/067"),
        (Row::Entries, 1_000_000, "log/tile/entries/x001/x000/000"),
        (Row::Hashes(7), 0, "log/tile/7/000.p/127"),
    ] {
        let tile = Tile::at(row, index, size).unwrap();
        assert_eq!(tile.path(), path);
        assert_eq!(Tile::parse(path), Some(tile));
    }
    assert_eq!(Tile::at(Row::Entries, 1, 257).unwrap().path(), "log/tile/entries/001.p/1");
    assert_eq!(Tile::at(Row::Entries, 1, 256), None);
    assert_eq!(Tile::at(Row::Hashes(1), 0, 255), None);
    assert_eq!(Tile::at(Row::Hashes(8), 0, u64::MAX), None);
    assert_eq!(Tile::at(Row::Entries, u64::MAX, u64::MAX), None);
}

#[test]
fn names_of_tiles_have_one_spelling() {
    for path in [
        "",
        "log/tile/",
        "log/tile/0/",
        "log/tile/0/00",
        "log/tile/0/0000",
        "log/tile/00/000",
        "log/tile/+1/000",
        "log/tile/8/000",
        "log/tile/-1/000",
        "log/tile/0/x000/001",
        "log/tile/0/001/002",
        "log/tile/0/x001",
        "log/tile/0/x001/x002",
        "log/tile/0/+01",
        "log/tile/0/000.p/0",
        "log/tile/0/000.p/256",
        "log/tile/0/000.p/01",
        "log/tile/0/000.p/+1",
        "log/tile/0/000.p/",
        "log/tile/0/000.p/1.p/1",
        "log/tile/0/000/",
        "log/tile/0/../000",
        "log/tile/entry/000",
        "tile/0/000",
        "/log/tile/0/000",
        "log/tile/0/x999/x999/x999/x999/x999/x999/x999/999",
    ] {
        assert_eq!(Tile::parse(path), None, "{path}");
    }
}

#[test]
fn bundles_are_strict() {
    let bytes = encode_bundle(&["a", "", "bcd"]).unwrap();
    assert_eq!(bytes, b"\0\x01a\0\0\0\x03bcd");
    assert_eq!(decode_bundle(&bytes, 3).unwrap(), [&b"a"[..], b"", b"bcd"]);
    for end in 0..bytes.len() {
        assert!(decode_bundle(&bytes[..end], 3).is_err(), "first {end} bytes");
    }
    assert_eq!(decode_bundle(&bytes, 2), Err(BundleError::Count { found: 3, expected: 2 }));
    assert_eq!(decode_bundle(b"\0", 1), Err(BundleError::CutOff { entry: 0 }));
    assert_eq!(decode_bundle(&[0; 1000], 256), Err(BundleError::Count { found: 257, expected: 256 }));
    let none: [&str; 0] = [];
    assert_eq!(encode_bundle(&none), Err(BundleError::Count { found: 0, expected: 256 }));
    assert!(encode_bundle(&[""; 257]).is_err());
    assert!(encode_bundle(&[vec![0; MAX_ENTRY]]).is_ok());
    let too_long = encode_bundle(&[vec![0; MAX_ENTRY + 1]]);
    assert_eq!(too_long, Err(BundleError::TooLong { entry: 0, size: MAX_ENTRY + 1 }));
}

/// Found by the fuzz target `tiles`: 257 entries were accepted where 257 were asked for, with anything behind them.
#[test]
fn a_bundle_wider_than_a_tile_is_refused() {
    let wide = vec![0; 2 * 257];
    assert!(decode_bundle(&wide, 257).is_err());
    assert!(decode_bundle(&[wide.as_slice(), b"more"].concat(), 257).is_err());
    assert_eq!(decode_bundle(&wide[..512], 256).map(|entries| entries.len()), Ok(256));
}

#[test]
fn what_cannot_be_appended() {
    let store = Memory::default();
    let empty = LogReader::new(&store, 0);
    let nothing = append(&empty, &empty_root(), Vec::<Vec<u8>>::new()).unwrap();
    assert_eq!(nothing, Extension { files: vec![], size: 0, root: empty_root() });
    let too_long = append(&empty, &empty_root(), [vec![0; MAX_ENTRY + 1]]);
    assert!(matches!(too_long, Err(LogError::TooLong { size: 65_536 })));
    let (store, whole) = Memory::with(300);
    let nothing = append(&LogReader::new(&store, 300), &whole, Vec::<Vec<u8>>::new()).unwrap();
    assert_eq!((nothing.files.len(), nothing.size, nothing.root), (0, 300, whole));
}

#[test]
fn subtrees_beyond_the_log_are_refused() {
    let (store, _) = Memory::with(300);
    let reader = LogReader::new(&store, 300);
    for (level, index) in [(0, 300), (1, 150), (8, 1), (9, 0), (63, 0), (64, 0), (255, 0), (7, u64::MAX)] {
        assert!(matches!(reader.hash(level, index), Err(LogError::Subtree { .. })), "{level} {index}");
    }
    assert!(reader.hash(0, 299).is_ok() && reader.hash(8, 0).is_ok() && reader.hash(5, 8).is_ok());
}

#[test]
fn checkpoints_have_one_spelling() {
    let checkpoint = Checkpoint {
        origin: Origin::parse("example.org/gpu").unwrap(),
        size: 20_852_163,
        root: node_hash(&empty_root(), &empty_root()),
    };
    let text = checkpoint.to_text();
    let root = checkpoint.root.to_base64();
    assert_eq!(text, format!("example.org/gpu\n20852163\n{root}\n"));
    assert_eq!(Checkpoint::parse(&text), Ok(checkpoint));
    for (text, problem) in [
        ("", CheckpointError::Lines),
        (text.trim_end(), CheckpointError::Lines),
        (&format!("{text}extension\n"), CheckpointError::Lines),
        (&format!("{text}\n"), CheckpointError::Lines),
        (&text.replace("example", "Example"), CheckpointError::Origin),
        (&text.replace("example.org/gpu", ""), CheckpointError::Origin),
        (&text.replace("example", "# capgate"), CheckpointError::Origin),
        (&text.replace("20852163", "020852163"), CheckpointError::Size),
        (&text.replace("20852163", "+1"), CheckpointError::Size),
        (&text.replace("20852163", "-1"), CheckpointError::Size),
        (&text.replace("20852163", ""), CheckpointError::Size),
        (&text.replace("20852163", "1 "), CheckpointError::Size),
        (&text.replace("20852163", "9223372036854775808"), CheckpointError::Size),
        (&text.replace("20852163", "99999999999999999999"), CheckpointError::Size),
        (&text.replace("20852163", "0"), CheckpointError::EmptyRoot),
        (&text.replace("=\n", "\n"), CheckpointError::Root),
        (&text.replace(&root, "AAAA"), CheckpointError::Root),
    ] {
        assert_eq!(Checkpoint::parse(text), Err(problem), "{text}");
    }
    assert!(Checkpoint::parse(&text.replace("20852163", "9223372036854775807")).is_ok());
    assert!(Checkpoint::parse(&format!("a\n0\n{}\n", empty_root().to_base64())).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_split_of_an_append_is_the_same(mut cuts in prop::collection::vec(0u64..1200, 0..6)) {
        cuts.sort_unstable();
        let mut store = Memory::default();
        let (mut size, mut root) = (0, empty_root());
        for cut in cuts.into_iter().chain([1200]) {
            root = store.grow(size, cut, &root);
            size = cut;
        }
        let (whole, expected) = Memory::with(1200);
        prop_assert_eq!(root, expected);
        for (path, bytes) in &whole.files {
            prop_assert_eq!(store.files.get(path), Some(bytes));
        }
    }

    #[test]
    fn hostile_input_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600), width in 0u64..300, text in "\\PC{0,60}") {
        let _ = decode_bundle(&bytes, width);
        let _ = Checkpoint::parse(&text);
        let _ = Tile::parse(&format!("log/tile/{text}"));
    }

    #[test]
    fn tiles_are_named_and_parsed_alike(index in 0u64..1 << 40, level in 0u8..5, size in 1u64 << 50..MAX_SIZE) {
        for row in [Row::Entries, Row::Hashes(level)] {
            if let Some(tile) = Tile::at(row, index, size) {
                prop_assert_eq!(Tile::parse(&tile.path()), Some(tile));
            }
        }
    }
}
