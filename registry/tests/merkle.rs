//! Merkle trees against a recursive reference that is written straight from RFC 6962 §2.1.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::string_slice)]

use capgate_registry::merkle::{
    BuildError, Frontier, Hash, HashError, Hashes, MAX_CONSISTENCY, MAX_INCLUSION, MemoryTree, ProofError,
    empty_root, leaf_hash, node_hash, peaks, prove_consistency, prove_inclusion, root, verify_consistency,
    verify_inclusion,
};
use proptest::prelude::*;

const SIZES: usize = 70;

/// MTH.
fn reference_root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => Hash::of(b""),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(reference_split(leaves.len()));
            node_hash(&reference_root(left), &reference_root(right))
        }
    }
}

fn reference_split(size: usize) -> usize {
    let mut split = 1;
    while split * 2 < size {
        split *= 2;
    }
    split
}

/// PATH(m, D).
fn reference_path(index: usize, leaves: &[Hash]) -> Vec<Hash> {
    if leaves.len() == 1 {
        return vec![];
    }
    let split = reference_split(leaves.len());
    let (left, right) = leaves.split_at(split);
    let (mut path, other) = if index < split {
        (reference_path(index, left), right)
    } else {
        (reference_path(index - split, right), left)
    };
    path.push(reference_root(other));
    path
}

/// SUBPROOF(m, D, b).
fn reference_subproof(old: usize, leaves: &[Hash], whole: bool) -> Vec<Hash> {
    if old == leaves.len() {
        return if whole { vec![] } else { vec![reference_root(leaves)] };
    }
    let split = reference_split(leaves.len());
    let (left, right) = leaves.split_at(split);
    let (mut path, other) = if old <= split {
        (reference_subproof(old, left, whole), right)
    } else {
        (reference_subproof(old - split, right, false), left)
    };
    path.push(reference_root(other));
    path
}

fn leaves(count: usize) -> Vec<Hash> {
    (0..count).map(|at| leaf_hash(format!("entry {at}").as_bytes())).collect()
}

fn tree(leaves: &[Hash]) -> MemoryTree {
    leaves.iter().copied().collect()
}

#[test]
fn known_hashes() {
    // From RFC 6962 implementations' shared test vectors (certificate-transparency-go, merkle/rfc6962).
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let empty_leaf = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
    assert_eq!(empty_root().to_string(), empty);
    assert_eq!(leaf_hash(b"").to_string(), empty_leaf);
    let leaf = "395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56";
    assert_eq!(leaf_hash(b"L123456").to_string(), leaf);
}

#[test]
fn roots_and_peaks_equal_the_reference() {
    let all = leaves(SIZES);
    let tree = tree(&all);
    let mut frontier = Frontier::new();
    for size in 0..=SIZES {
        let expected = reference_root(&all[..size]);
        assert_eq!(root(&tree, size as u64).unwrap(), expected, "{size}");
        assert_eq!(frontier.root(), expected, "{size}");
        assert_eq!(frontier.size(), size as u64);
        assert_eq!(frontier.peaks(), peaks(&tree, size as u64).unwrap());
        assert_eq!(Frontier::from_peaks(size as u64, frontier.peaks().to_vec()), Some(frontier.clone()));
        if let Some(leaf) = all.get(size) {
            frontier.push(*leaf);
        }
    }
    assert_eq!(Frontier::from_peaks(3, vec![all[0]]), None);
}

#[test]
fn every_inclusion_proof_equals_the_reference_and_verifies() {
    let all = leaves(SIZES);
    let tree = tree(&all);
    for size in 1..=SIZES {
        let root = reference_root(&all[..size]);
        for index in 0..size {
            let proof = prove_inclusion(&tree, index as u64, size as u64).unwrap();
            assert_eq!(proof, reference_path(index, &all[..size]), "{index} of {size}");
            verify_inclusion(&all[index], index as u64, size as u64, &root, &proof).unwrap();
        }
    }
}

#[test]
fn every_consistency_proof_equals_the_reference_and_verifies() {
    let all = leaves(SIZES);
    let tree = tree(&all);
    for new in 0..=SIZES {
        let new_root = reference_root(&all[..new]);
        for old in 0..=new {
            let old_root = reference_root(&all[..old]);
            let proof = prove_consistency(&tree, old as u64, new as u64).unwrap();
            if old > 0 {
                assert_eq!(proof, reference_subproof(old, &all[..new], true), "{old} to {new}");
            }
            verify_consistency(old as u64, new as u64, &old_root, &new_root, &proof).unwrap();
        }
    }
}

/// Every way of changing a proof by one hash: each changed, each left out, one more in each place.
fn tampered(proof: &[Hash]) -> Vec<Vec<Hash>> {
    let mut all = Vec::new();
    for at in 0..=proof.len() {
        let mut longer = proof.to_vec();
        longer.insert(at, Hash([7; 32]));
        all.push(longer);
    }
    for at in 0..proof.len() {
        let mut changed = proof.to_vec();
        changed[at].0[31] ^= 1;
        all.push(changed);
        let mut shorter = proof.to_vec();
        shorter.remove(at);
        all.push(shorter);
    }
    all
}

#[test]
fn tampered_inclusion_proofs_are_refused() {
    let all = leaves(33);
    let tree = tree(&all);
    for size in 1..=33_u64 {
        let root = root(&tree, size).unwrap();
        for index in 0..size {
            let leaf = &all[index as usize];
            let proof = prove_inclusion(&tree, index, size).unwrap();
            for bad in tampered(&proof) {
                assert!(verify_inclusion(leaf, index, size, &root, &bad).is_err(), "{index} of {size}");
            }
            for other in (0..size + 2).filter(|&other| other != index) {
                assert!(
                    verify_inclusion(leaf, other, size, &root, &proof).is_err(),
                    "{index}->{other} of {size}"
                );
            }
            let mut wrong = root;
            wrong.0[0] ^= 0x80;
            assert_eq!(verify_inclusion(leaf, index, size, &wrong, &proof), Err(ProofError::Root));
        }
    }
}

#[test]
fn tampered_consistency_proofs_are_refused() {
    let all = leaves(33);
    let tree = tree(&all);
    for new in 0..=33_u64 {
        let new_root = root(&tree, new).unwrap();
        for old in 0..=new {
            let old_root = root(&tree, old).unwrap();
            let proof = prove_consistency(&tree, old, new).unwrap();
            for bad in tampered(&proof) {
                assert!(verify_consistency(old, new, &old_root, &new_root, &bad).is_err(), "{old} to {new}");
            }
            let mut wrong = old_root;
            wrong.0[0] ^= 0x80;
            // A complete old tree is where the proof starts, so a wrong root of it leads to a wrong new root.
            let begins = old.is_power_of_two() && old < new;
            let expected = if begins { ProofError::Root } else { ProofError::OldRoot };
            assert_eq!(verify_consistency(old, new, &wrong, &new_root, &proof), Err(expected));
            if old > 0 && old < new {
                let mut wrong = new_root;
                wrong.0[0] ^= 0x80;
                assert_eq!(verify_consistency(old, new, &old_root, &wrong, &proof), Err(ProofError::Root));
            }
        }
    }
}

#[test]
fn attack_leaf_that_is_a_node() {
    // Without the prefixes a node's children would pass as an entry (second preimage).
    let all = leaves(2);
    let entry = [all[0].0, all[1].0].concat();
    assert_ne!(leaf_hash(&entry), node_hash(&all[0], &all[1]));
}

#[test]
fn attack_fork_is_no_prefix() {
    let honest = leaves(40);
    let mut forked = honest.clone();
    forked[5] = leaf_hash(b"rewritten");
    let (honest, forked) = (tree(&honest), tree(&forked));
    for (old, new) in [(6, 40), (8, 40), (21, 40), (32, 40)] {
        let proof = prove_consistency(&forked, old, new).unwrap();
        let old_root = root(&honest, old).unwrap();
        let refused = verify_consistency(old, new, &old_root, &root(&forked, new).unwrap(), &proof);
        assert!(refused.is_err(), "{old} to {new}");
    }
}

#[test]
fn attack_understated_sizes() {
    // True proofs of a larger tree, presented for a smaller one: only the check that no level is left refuses them.
    let all = leaves(8);
    let tree = tree(&all);
    let root_of = |size| root(&tree, size).unwrap();
    let refused = verify_inclusion(&all[1], 0, 1, &root_of(2), &all[..1]);
    assert_eq!(refused, Err(ProofError::Length { found: 1 }));
    let proof = prove_consistency(&tree, 7, 8).unwrap();
    let refused = verify_consistency(3, 4, &root_of(7), &root_of(8), &proof);
    assert_eq!(refused, Err(ProofError::Length { found: 4 }));
}

#[test]
fn attack_overstated_sizes() {
    // True proofs of a smaller tree, presented for a larger one: they end before the top.
    let all = leaves(4);
    let tree = tree(&all);
    let root_of = |size| root(&tree, size).unwrap();
    let proof = prove_inclusion(&tree, 2, 4).unwrap();
    let refused = verify_inclusion(&all[2], 6, 8, &root_of(4), &proof);
    assert_eq!(refused, Err(ProofError::Length { found: 2 }));
    let proof = prove_consistency(&tree, 3, 4).unwrap();
    let refused = verify_consistency(7, 8, &root_of(3), &root_of(4), &proof);
    assert_eq!(refused, Err(ProofError::Length { found: 3 }));
}

/// Answers any subtree; trees up to the largest size can be walked without being built.
struct Zero;

impl Hashes for Zero {
    type Error = std::convert::Infallible;

    fn hash(&self, level: u8, _: u64) -> Result<Hash, Self::Error> {
        let zero = Hash([0; 32]);
        Ok((0..level).fold(zero, |hash, _| node_hash(&hash, &hash)))
    }
}

#[test]
fn the_largest_sizes_do_not_overflow() {
    let leaf = Hash([0; 32]);
    for size in [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) + 1, (1 << 63) - 1] {
        let whole = root(&Zero, size).unwrap();
        for index in [0, 1, size / 2, size - 2, size - 1] {
            let proof = prove_inclusion(&Zero, index, size).unwrap();
            assert!(proof.len() <= MAX_INCLUSION);
            verify_inclusion(&leaf, index, size, &whole, &proof).unwrap();
        }
        for old in [0, 1, 2, 3, size / 2, size - 1, size] {
            let proof = prove_consistency(&Zero, old, size).unwrap();
            assert!(proof.len() <= MAX_CONSISTENCY);
            verify_consistency(old, size, &root(&Zero, old).unwrap(), &whole, &proof).unwrap();
        }
        assert!(verify_inclusion(&leaf, 0, size, &whole, &[leaf; 100]).is_err());
        assert!(verify_consistency(1, size, &leaf, &whole, &[leaf; 100]).is_err());
    }
}

#[test]
fn what_is_out_of_range_is_refused() {
    let tree = tree(&leaves(4));
    assert_eq!(prove_inclusion(&tree, 4, 4), Err(ProofError::Range { index: 4, size: 4 }.into()));
    assert_eq!(prove_inclusion(&tree, 0, 0), Err(ProofError::Range { index: 0, size: 0 }.into()));
    assert_eq!(prove_consistency(&tree, 3, 2), Err(ProofError::Order { old: 3, new: 2 }.into()));
    assert!(matches!(prove_inclusion(&tree, 1, 5), Err(BuildError::Hashes(_))));
    assert!(verify_inclusion(&empty_root(), 0, 0, &empty_root(), &[]).is_err());
    let order = verify_consistency(3, 2, &empty_root(), &empty_root(), &[]);
    assert_eq!(order, Err(ProofError::Order { old: 3, new: 2 }));
}

#[test]
fn hashes_have_one_spelling() {
    let hash = leaf_hash(b"entry");
    let (hex, base64) = (hash.to_string(), hash.to_base64());
    assert_eq!(hex.parse(), Ok(hash));
    assert_eq!(Hash::from_base64(&base64), Ok(hash));
    for bad in [
        String::new(),
        hex.to_uppercase(),
        format!("{hex}0"),
        format!("0x{}", &hex[2..]),
        hex.replace('a', "g"),
        "é".repeat(32),
    ] {
        assert_eq!(bad.parse::<Hash>(), Err(HashError::Hex), "{bad}");
    }
    let stray = format!("{}B=", "A".repeat(42));
    for bad in
        ["", "AAAA", base64.trim_end_matches('='), &format!("{base64}\n"), &format!(" {base64}"), &stray]
    {
        assert_eq!(Hash::from_base64(bad), Err(HashError::Base64), "{bad}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn larger_trees_prove_alike(size in 71usize..2000, picks in prop::collection::vec(any::<prop::sample::Index>(), 4)) {
        let all = leaves(size);
        let tree = tree(&all);
        let whole = reference_root(&all);
        prop_assert_eq!(tree.root(), whole);
        for index in picks.iter().map(|pick| pick.index(size)) {
            let proof = prove_inclusion(&tree, index as u64, size as u64).unwrap();
            prop_assert_eq!(&proof, &reference_path(index, &all));
            prop_assert!(verify_inclusion(&all[index], index as u64, size as u64, &whole, &proof).is_ok());
            let old = index + 1;
            let proof = prove_consistency(&tree, old as u64, size as u64).unwrap();
            prop_assert_eq!(&proof, &reference_subproof(old, &all, true));
            let old_root = reference_root(&all[..old]);
            prop_assert!(verify_consistency(old as u64, size as u64, &old_root, &whole, &proof).is_ok());
        }
    }

    #[test]
    fn hostile_proofs_never_panic_and_never_pass(
        old: u64, new: u64, bytes in prop::collection::vec(any::<[u8; 32]>(), 0..70),
    ) {
        let proof: Vec<Hash> = bytes.into_iter().map(Hash).collect();
        let (a, b) = (Hash([1; 32]), Hash([2; 32]));
        prop_assert!(verify_inclusion(&a, old, new, &b, &proof).is_err());
        prop_assert!(verify_consistency(old, new, &a, &b, &proof).is_err());
    }
}
