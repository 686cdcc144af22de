//! Merkle trees of RFC 6962 §2.1 (the same in RFC 9162 §2.1): hashes, roots and the frontier that appending needs.
//!
//! ```text
//! leaf    SHA-256(0x00 || entry)
//! node    SHA-256(0x01 || left || right)
//! tree    the left part has the largest power of two below the size; the empty tree is SHA-256("")
//! ```
//!
//! A complete subtree is addressed by level and index: (0, i) is leaf i, (l, i) covers leaves i·2^l to (i+1)·2^l − 1.
//! The complete subtrees that a tree splits into, largest first, are its peaks.

mod proof;

use std::fmt;
use std::str::FromStr;

use base64ct::{Base64, Encoding};
use sha2::{Digest, Sha256};

pub use proof::{
    BuildError, MAX_CONSISTENCY, MAX_INCLUSION, ProofError, prove_consistency, prove_inclusion,
    verify_consistency, verify_inclusion,
};

/// A SHA-256 digest: of a leaf, of a node, of anything that is named by its digest.
///
/// `Display` and `FromStr` use 64 lower-case hex digits; [`Hash::to_base64`] is the form in checkpoints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

/// Text that is no hash in its one spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// Not 64 lower-case hex digits.
    #[error("a hash is 64 lower-case hex digits")]
    Hex,
    /// Not the canonical base64 of 32 bytes.
    #[error("a hash is 44 characters of canonical base64")]
    Base64,
}

impl Hash {
    /// SHA-256 of bytes as they are, without the prefix that leaves have.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Padded base64, 44 characters.
    pub fn to_base64(&self) -> String {
        Base64::encode_string(&self.0)
    }

    /// Parses what [`Hash::to_base64`] writes and nothing else.
    ///
    /// Errors: [`HashError::Base64`].
    pub fn from_base64(text: &str) -> Result<Self, HashError> {
        let mut bytes = [0; 32];
        match Base64::decode(text, &mut bytes) {
            Ok(decoded) if decoded.len() == 32 => Ok(Self(bytes)),
            _ => Err(HashError::Base64),
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl FromStr for Hash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        if text.len() != 64 {
            return Err(HashError::Hex);
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            for &digit in digits {
                *byte = *byte << 4 | nibble(digit).ok_or(HashError::Hex)?;
            }
        }
        Ok(Self(bytes))
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// Hash of an entry as a leaf (RFC 6962 §2.1).
pub fn leaf_hash(entry: &[u8]) -> Hash {
    Hash(Sha256::new().chain_update([0]).chain_update(entry).finalize().into())
}

/// Hash of a node over its two children (RFC 6962 §2.1).
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Hash(Sha256::new().chain_update([1]).chain_update(left.0).chain_update(right.0).finalize().into())
}

/// Root of the tree without leaves: SHA-256 of nothing. (Go's `tlog` of x/mod 0.7 has zeroes there.)
pub fn empty_root() -> Hash {
    Hash::of(b"")
}

/// Gives the hashes of complete subtrees, from memory, tiles or anywhere else.
pub trait Hashes {
    /// What can go wrong while reading.
    type Error;

    /// Hash of the complete subtree over leaves `index·2^level` to `(index+1)·2^level − 1`.
    fn hash(&self, level: u8, index: u64) -> Result<Hash, Self::Error>;
}

/// The complete subtrees that leaves `start..end` split into, as (level, index), largest first.
///
/// `start` must be a multiple of the largest power of two that is at most `end − start`, as it is for every part of a
/// tree that RFC 6962 names.
fn subtrees(start: u64, end: u64) -> impl Iterator<Item = (u8, u64)> {
    let mut at = start;
    std::iter::from_fn(move || {
        let level = end.checked_sub(at)?.checked_ilog2()?;
        let index = at >> level;
        at += 1 << level;
        Some((u8::try_from(level).unwrap_or(u8::MAX), index))
    })
}

/// Folds peaks, largest first, into the root above them; none give the root of the empty tree.
pub fn root_of_peaks(peaks: &[Hash]) -> Hash {
    let folded = peaks.iter().rev().copied().reduce(|right, left| node_hash(&left, &right));
    folded.unwrap_or_else(empty_root)
}

/// Root over leaves `start..end`, with the condition of [`subtrees`].
fn range_root<H: Hashes + ?Sized>(hashes: &H, start: u64, end: u64) -> Result<Hash, H::Error> {
    let peaks: Result<Vec<Hash>, _> =
        subtrees(start, end).map(|(level, index)| hashes.hash(level, index)).collect();
    Ok(root_of_peaks(&peaks?))
}

/// The peaks of the tree over the first `size` leaves, largest first: as many as `size` has one bits.
///
/// Errors: those of `hashes`.
pub fn peaks<H: Hashes + ?Sized>(hashes: &H, size: u64) -> Result<Vec<Hash>, H::Error> {
    subtrees(0, size).map(|(level, index)| hashes.hash(level, index)).collect()
}

/// Root of the tree over the first `size` leaves (RFC 6962 §2.1, MTH).
///
/// Errors: those of `hashes`.
pub fn root<H: Hashes + ?Sized>(hashes: &H, size: u64) -> Result<Hash, H::Error> {
    range_root(hashes, 0, size)
}

/// What a tree must remember to grow: its size and its peaks (a compact range from leaf 0).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u64,
    peaks: Vec<Hash>,
}

impl Frontier {
    /// The frontier of the empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes up a tree at `size` leaves; `None` unless there is one peak for each one bit of `size`.
    ///
    /// The hashes are believed: compare [`Frontier::root`] with a root that is trusted before building on it.
    pub fn from_peaks(size: u64, peaks: Vec<Hash>) -> Option<Self> {
        let fits = u32::try_from(peaks.len()) == Ok(size.count_ones());
        fits.then_some(Self { size, peaks })
    }

    /// Leaves so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The peaks, largest first.
    pub fn peaks(&self) -> &[Hash] {
        &self.peaks
    }

    /// Root of the tree as it is.
    pub fn root(&self) -> Hash {
        root_of_peaks(&self.peaks)
    }

    /// Appends one leaf, given by its hash.
    pub fn push(&mut self, leaf: Hash) {
        self.push_with(leaf, |_, _, _| {});
    }

    /// Appends one leaf and reports each complete subtree that this completes, as (level, index, hash), the leaf first.
    pub fn push_with(&mut self, leaf: Hash, mut completed: impl FnMut(u8, u64, Hash)) {
        let mut hash = leaf;
        completed(0, self.size, hash);
        // Each trailing one bit of the size is a peak that the new leaf completes to one of twice its width.
        for level in 1..=self.size.trailing_ones() {
            let Some(left) = self.peaks.pop() else { break };
            hash = node_hash(&left, &hash);
            completed(u8::try_from(level).unwrap_or(u8::MAX), self.size >> level, hash);
        }
        self.peaks.push(hash);
        // 2^64 leaves are out of reach for any machine.
        self.size = self.size.wrapping_add(1);
    }
}

/// A whole tree in memory, 64 bytes a leaf.
#[derive(Debug, Clone, Default)]
pub struct MemoryTree {
    frontier: Frontier,
    levels: Vec<Vec<Hash>>,
}

/// A subtree that a [`MemoryTree`] does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tree has no complete subtree {index} on level {level}")]
pub struct Absent {
    /// Level asked for.
    pub level: u8,
    /// Index asked for.
    pub index: u64,
}

impl MemoryTree {
    /// Appends one leaf, given by its hash.
    pub fn push(&mut self, leaf: Hash) {
        let levels = &mut self.levels;
        self.frontier.push_with(leaf, |level, _, hash| match levels.get_mut(usize::from(level)) {
            Some(row) => row.push(hash),
            // Levels are completed in order, so the first hash of a level is always that of the next one.
            None => levels.push(vec![hash]),
        });
    }

    /// Leaves so far.
    pub fn size(&self) -> u64 {
        self.frontier.size()
    }

    /// Root of the tree as it is.
    pub fn root(&self) -> Hash {
        self.frontier.root()
    }
}

impl FromIterator<Hash> for MemoryTree {
    fn from_iter<I: IntoIterator<Item = Hash>>(leaves: I) -> Self {
        let mut tree = Self::default();
        leaves.into_iter().for_each(|leaf| tree.push(leaf));
        tree
    }
}

impl Hashes for MemoryTree {
    type Error = Absent;

    fn hash(&self, level: u8, index: u64) -> Result<Hash, Absent> {
        let row = self.levels.get(usize::from(level));
        let hash = row.and_then(|row| row.get(usize::try_from(index).ok()?));
        hash.copied().ok_or(Absent { level, index })
    }
}
