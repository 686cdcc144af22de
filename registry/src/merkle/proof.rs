//! Inclusion and consistency proofs.
//!
//! Proofs are built by the recursive definitions (RFC 6962 §2.1.1 and §2.1.2) and verified by the iterative algorithms
//! (RFC 9162 §2.1.3.2 and §2.1.4.2), so that one does not repeat the other's mistakes.

use super::{Hash, Hashes, empty_root, node_hash, range_root};

/// Longest inclusion proof: one hash a level.
pub const MAX_INCLUSION: usize = 64;
/// Longest consistency proof: one hash a level and the node that both trees share.
pub const MAX_CONSISTENCY: usize = 65;

/// Says why a proof proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The leaf is outside the tree.
    #[error("leaf {index} is outside a tree of {size} leaves")]
    Range {
        /// Index of the leaf, from 0.
        index: u64,
        /// Leaves of the tree.
        size: u64,
    },
    /// The older tree would be the larger one.
    #[error("a tree of {old} leaves cannot come before one of {new}")]
    Order {
        /// Leaves of the older tree.
        old: u64,
        /// Leaves of the newer tree.
        new: u64,
    },
    /// Too few or too many hashes for these sizes.
    #[error("a proof of {found} hashes does not fit these sizes")]
    Length {
        /// Hashes found.
        found: usize,
    },
    /// The proof leads to another root than the trusted one.
    #[error("the proof leads to another root")]
    Root,
    /// The proof leads to another old root: the older tree is no prefix of the newer.
    #[error("the proof leads to another old root: the older tree is no prefix of the newer")]
    OldRoot,
}

/// Says why a proof could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError<E> {
    /// No such leaf, or sizes in the wrong order.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The hashes could not be read.
    #[error("{0}")]
    Hashes(E),
}

/// Builds the proof that leaf `index` is in the tree over the first `size` leaves (RFC 6962 §2.1.1, PATH), from the
/// leaf upwards.
///
/// Errors: [`ProofError::Range`] and those of `hashes`.
pub fn prove_inclusion<H: Hashes + ?Sized>(
    hashes: &H,
    index: u64,
    size: u64,
) -> Result<Vec<Hash>, BuildError<H::Error>> {
    if index >= size {
        return Err(ProofError::Range { index, size }.into());
    }
    let (mut start, mut end) = (0, size);
    let mut path = Vec::new();
    while end - start > 1 {
        let middle = start + split(end - start);
        let (other_start, other_end) = if index < middle { (middle, end) } else { (start, middle) };
        path.push(range_root(hashes, other_start, other_end).map_err(BuildError::Hashes)?);
        if index < middle {
            end = middle;
        } else {
            start = middle;
        }
    }
    path.reverse();
    Ok(path)
}

/// Builds the proof that the tree over the first `old` leaves is a prefix of that over the first `new` (RFC 6962
/// §2.1.2, SUBPROOF). Empty where `old` is 0 or equals `new`.
///
/// Errors: [`ProofError::Order`] and those of `hashes`.
pub fn prove_consistency<H: Hashes + ?Sized>(
    hashes: &H,
    old: u64,
    new: u64,
) -> Result<Vec<Hash>, BuildError<H::Error>> {
    if old > new {
        return Err(ProofError::Order { old, new }.into());
    }
    if old == 0 {
        return Ok(Vec::new());
    }
    let (mut start, mut end) = (0, new);
    let mut path = Vec::new();
    while old != end {
        let middle = start + split(end - start);
        let (other_start, other_end) = if old <= middle { (middle, end) } else { (start, middle) };
        path.push(range_root(hashes, other_start, other_end).map_err(BuildError::Hashes)?);
        if old <= middle {
            end = middle;
        } else {
            start = middle;
        }
    }
    // A subtree that begins at leaf 0 is the old tree itself, whose root the verifier has.
    if start != 0 {
        path.push(range_root(hashes, start, end).map_err(BuildError::Hashes)?);
    }
    path.reverse();
    Ok(path)
}

/// Largest power of two below `size`, which is at least 2.
fn split(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}

/// Checks that a leaf with hash `leaf` is number `index` in the tree of `size` leaves with this root (RFC 9162
/// §2.1.3.2).
///
/// Errors: [`ProofError::Range`], [`ProofError::Length`], [`ProofError::Root`].
pub fn verify_inclusion(
    leaf: &Hash,
    index: u64,
    size: u64,
    root: &Hash,
    proof: &[Hash],
) -> Result<(), ProofError> {
    if index >= size {
        return Err(ProofError::Range { index, size });
    }
    let length = ProofError::Length { found: proof.len() };
    if proof.len() > MAX_INCLUSION {
        return Err(length);
    }
    let mut at = Position { node: index, last: size - 1 };
    let mut hash = *leaf;
    for sibling in proof {
        if at.last == 0 {
            return Err(length);
        }
        if at.has_left_sibling() {
            hash = node_hash(sibling, &hash);
            at.skip_to_right_child();
        } else {
            hash = node_hash(&hash, sibling);
        }
        at.ascend();
    }
    if at.last != 0 {
        return Err(length);
    }
    if hash == *root { Ok(()) } else { Err(ProofError::Root) }
}

/// Checks that the tree of `old` leaves with root `old_root` is a prefix of that of `new` leaves with `new_root`
/// (RFC 9162 §2.1.4.2).
///
/// Beyond the RFC, which leaves them out: equal sizes need equal roots and an empty proof, and `old` = 0 needs the root
/// of the empty tree and an empty proof.
///
/// Errors: [`ProofError::Order`], [`ProofError::Length`], [`ProofError::OldRoot`], [`ProofError::Root`].
pub fn verify_consistency(
    old: u64,
    new: u64,
    old_root: &Hash,
    new_root: &Hash,
    proof: &[Hash],
) -> Result<(), ProofError> {
    if old > new {
        return Err(ProofError::Order { old, new });
    }
    let length = ProofError::Length { found: proof.len() };
    if old == 0 || old == new {
        let expected = if old == 0 { empty_root() } else { *new_root };
        let sound = if *old_root == expected { Ok(()) } else { Err(ProofError::OldRoot) };
        return if proof.is_empty() { sound } else { Err(length) };
    }
    if proof.len() > MAX_CONSISTENCY {
        return Err(length);
    }
    // A complete old tree is itself the node that both share, so the proof leaves it out.
    let (first, rest) = if old.is_power_of_two() {
        if proof.is_empty() {
            return Err(length);
        }
        (old_root, proof)
    } else {
        proof.split_first().ok_or(length)?
    };
    let mut at = Position { node: old - 1, last: new - 1 };
    while at.node & 1 == 1 {
        at.ascend();
    }
    let (mut old_hash, mut new_hash) = (*first, *first);
    for sibling in rest {
        if at.last == 0 {
            return Err(length);
        }
        if at.has_left_sibling() {
            old_hash = node_hash(sibling, &old_hash);
            new_hash = node_hash(sibling, &new_hash);
            at.skip_to_right_child();
        } else {
            new_hash = node_hash(&new_hash, sibling);
        }
        at.ascend();
    }
    if at.last != 0 {
        return Err(length);
    }
    if old_hash != *old_root {
        return Err(ProofError::OldRoot);
    }
    if new_hash == *new_root { Ok(()) } else { Err(ProofError::Root) }
}

/// A node on the way up and the last node of its level: `fn` and `sn` of RFC 9162.
struct Position {
    node: u64,
    last: u64,
}

impl Position {
    fn ascend(&mut self) {
        self.node >>= 1;
        self.last >>= 1;
    }

    /// A right child, or the last node of an incomplete level, whose sibling stands further up on the left.
    fn has_left_sibling(&self) -> bool {
        self.node & 1 == 1 || self.node == self.last
    }

    /// Passes the levels on which the last node has no sibling.
    fn skip_to_right_child(&mut self) {
        while self.node & 1 == 0 && self.node != 0 {
            self.ascend();
        }
    }
}
