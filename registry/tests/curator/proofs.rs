//! Inclusion: paths that are too long or too short for the tree, and proofs with more or less in them than they need.

use capgate_registry::proof::Proof;
use capgate_registry::reader::{Anchor, Seen};

use super::honest::{History, day, wanted};
use super::thief::{Forgery, latest_of};
use super::{Case, case};
use crate::support::{Memory, first_key, profile};

pub fn cases(h: &History) -> Vec<Case> {
    [paths(h), files(h)].into_iter().flatten().collect()
}

/// The signed size of the tree decides how long a path is.
fn paths(h: &History) -> Vec<Case> {
    let of = |name, attack: &str, size: u64, lookup: &str| {
        let store = Forgery::of(h).make_with(|latest| latest.size = size);
        let latest = latest_of(&store);
        let path = latest.snapshot_path();
        let mut snapshot = store.get(&path);
        // A header that agrees, so that only the tree can tell.
        snapshot[48..56].copy_from_slice(&size.to_be_bytes());
        store.set(&path, snapshot);
        let signs = format!("signs {size} records under {}, but the log leads to 4", latest.root);
        case(h, name, attack, store)
            .holds("the registry key")
            .lookup("registry-corrupt", lookup)
            .verify(&path, "is not what the log leads to")
            .sync("damaged", &signs)
    };
    let root = "its hashes do not lead to the signed root";
    vec![
        of("path-too-long", "The signed tree is said to have more records than it has.", 5, root),
        of("path-too-short", "The signed tree is said to have fewer records than it has.", 3, root),
        of("path-of-a-giant", "The signed tree is said to have 2^40 records.", 1 << 40, "bytes, not"),
    ]
}

/// A proof, taken apart.
#[derive(Clone)]
struct Parts {
    files: Vec<(String, Vec<u8>)>,
    snapshot: String,
    size: u64,
    ranges: Vec<(u64, Vec<u8>)>,
}

impl Parts {
    fn of(h: &History, toml: &str) -> Self {
        let anchor = Anchor { pin: h.root, seen: Seen::default(), now: day(7) };
        let proof = Proof::collect(h.version(6), &anchor, &[first_key(toml)]).unwrap().encode();
        Self::parse(&proof)
    }

    fn parse(proof: &[u8]) -> Self {
        let mut rest = proof.strip_prefix(b"capgate proof v1\n").unwrap();
        let mut parts = Self { files: Vec::new(), snapshot: String::new(), size: 0, ranges: Vec::new() };
        while !rest.is_empty() {
            let line = take_line(&mut rest);
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["file", name, length] => parts.files.push((name.to_owned(), take(&mut rest, length))),
                ["part", name, size, _] => {
                    (parts.snapshot, parts.size) = (name.to_owned(), size.parse().unwrap());
                }
                [offset, length] => parts.ranges.push((offset.parse().unwrap(), take(&mut rest, length))),
                _ => panic!("{line}"),
            }
        }
        parts
    }

    fn encode(&self) -> Vec<u8> {
        let mut proof = b"capgate proof v1\n".to_vec();
        for (name, bytes) in &self.files {
            proof.extend(format!("file {name} {}\n", bytes.len()).into_bytes());
            proof.extend(bytes);
        }
        let Self { snapshot, size, ranges, .. } = self;
        proof.extend(format!("part {snapshot} {size} {}\n", ranges.len()).into_bytes());
        for (offset, bytes) in ranges {
            proof.extend(format!("{offset} {}\n", bytes.len()).into_bytes());
            proof.extend(bytes);
        }
        proof
    }
}

fn take_line(rest: &mut &[u8]) -> String {
    let end = rest.iter().position(|&byte| byte == b'\n').unwrap();
    let line = String::from_utf8(rest[..end].to_vec()).unwrap();
    *rest = &rest[end + 1..];
    line
}

fn take(rest: &mut &[u8], length: &str) -> Vec<u8> {
    let (taken, left) = rest.split_at(length.parse().unwrap());
    *rest = left;
    taken.to_vec()
}

fn files(h: &History) -> Vec<Case> {
    let honest = Parts::of(h, &wanted());
    assert_eq!(Proof::parse(&honest.encode()).unwrap().encode(), honest.encode());
    let of = |name, attack: &str, bytes: Vec<u8>, reason: &str, says: &str| {
        let mut case = case(h, name, attack, Memory::default()).lookup(reason, says);
        case.proof = Some(bytes);
        case.told.verify = None;
        case.told.sync = None;
        case
    };
    let edited = |edit: fn(&mut Parts)| {
        let mut parts = honest.clone();
        edit(&mut parts);
        parts.encode()
    };
    let not_about = "the proof is not about that";
    let trailing = [&honest.encode()[..], b"\n"].concat();
    let other = Parts::of(h, &profile("third-one", 3)).encode();
    let absent = Parts::of(h, &profile("no-such-one", 77)).encode();
    vec![
        of(
            "proof-too-short",
            "A proof lacks the hashes that lead to the root.",
            edited(|p| drop(p.ranges.pop())),
            "registry-unreadable",
            not_about,
        ),
        of(
            "proof-cut-within-a-hash",
            "A proof's last hash lacks a byte.",
            edited(|p| {
                p.ranges.last_mut().unwrap().1.pop();
            }),
            "registry-unreadable",
            not_about,
        ),
        of(
            "proof-too-long",
            "A proof holds one hash more than the tree has, in a file that is longer for it.",
            edited(|p| {
                p.size += 16_384;
                p.ranges.push((p.size - 32, vec![7; 32]));
            }),
            "registry-corrupt",
            "it has 65536 bytes, not 49152",
        ),
        of(
            "proof-behind-its-file",
            "A range of a proof ends behind its file.",
            edited(|p| p.ranges.push((p.size, vec![7; 32]))),
            "registry-malformed",
            "a range ends behind its file",
        ),
        of(
            "proof-hash-changed",
            "A hash on the path is another one.",
            edited(|p| p.ranges.last_mut().unwrap().1[0] ^= 1),
            "registry-corrupt",
            "its hashes do not lead to the signed root",
        ),
        of(
            "proof-ranges-out-of-order",
            "The ranges of a proof are not in order.",
            edited(|p| p.ranges.rotate_left(1)),
            "registry-malformed",
            "ranges are not in order",
        ),
        of(
            "proof-trailing-data",
            "An empty line follows a proof.",
            trailing,
            "registry-malformed",
            "is neither `file` nor `part`",
        ),
        of(
            "proof-of-another",
            "A proof about another combination is given.",
            other,
            "registry-unreadable",
            not_about,
        ),
        of(
            "proof-of-absence",
            "A proof that another combination has no profile is given.",
            absent,
            "registry-unreadable",
            not_about,
        ),
        of(
            "proof-expired",
            "A proof is used long after its registry expired.",
            honest.encode(),
            "registry-expired",
            "version 6 ended 2027-01-05T00:00:00Z",
        )
        .now(day(51))
        .twin("honest-renewed"),
    ]
}
