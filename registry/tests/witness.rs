//! Cosignatures: made, counted, and what a witness decides.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use capgate_registry::keys::{KeyError, SigningKey, VerifierKey};
use capgate_registry::log::Checkpoint;
use capgate_registry::merkle::{
    Hash, MemoryTree, ProofError, empty_root, leaf_hash, prove_consistency, root,
};
use capgate_registry::note::{self, Note, NoteError, NoteKey, Origin};
use capgate_registry::trust::Role;
use capgate_registry::witness::{
    Held, MAX_PROOF, Quorum, QuorumError, Refusal, Request, RequestError, WitnessKey, WitnessSigner, judge,
    parse_answer, with_cosignatures,
};
use jiff::Timestamp;
use proptest::prelude::*;

/// A TEST key.
fn key(name: &str, byte: u8) -> SigningKey {
    SigningKey::from_seed(name, [byte; 32]).unwrap()
}

fn witness(byte: u8) -> WitnessSigner {
    WitnessSigner::new(key(&format!("witness.test/w{byte}"), byte))
}

fn now() -> Timestamp {
    "2026-12-01T00:00:00Z".parse().unwrap()
}

fn origin() -> Origin {
    Origin::parse("example.org/gpu").unwrap()
}

fn role() -> Role {
    Role { threshold: 1, keys: vec![key("example.org/gpu", 1).verifier().clone()] }
}

/// A log whose entries from `fork` on are another's.
fn tree(size: u64, fork: u64, other: u8) -> MemoryTree {
    (0..size).map(|i| leaf_hash(&[if i < fork { 0 } else { other }, i as u8, (i >> 8) as u8])).collect()
}

fn signed(tree: &MemoryTree, size: u64) -> Vec<u8> {
    let checkpoint = Checkpoint { origin: origin(), size, root: root(tree, size).unwrap() };
    note::sign(&checkpoint.to_text(), &[&key("example.org/gpu", 1)]).unwrap()
}

fn request(tree: &MemoryTree, old: u64, size: u64) -> Request {
    let proof = prove_consistency(tree, old, size).unwrap();
    Request::parse(&Request::encode(old, &proof, &signed(tree, size))).unwrap()
}

fn held(tree: &MemoryTree, size: u64) -> Held {
    Held::parse(signed(tree, size), "example.org/gpu").unwrap()
}

fn cosigned(note: &[u8], witnesses: &[&WitnessSigner]) -> Vec<u8> {
    let text = Note::parse(note).unwrap().text().to_owned();
    let lines: String = witnesses.iter().map(|witness| witness.cosign(&text, now()).unwrap()).collect();
    with_cosignatures(note, &parse_answer(lines.as_bytes()).unwrap()).unwrap()
}

#[test]
fn a_cosignature_counts_for_the_witness_and_for_nobody_else() {
    let log = tree(5, 5, 0);
    let (one, two) = (witness(11), witness(12));
    let bytes = cosigned(&signed(&log, 5), &[&one]);
    let note = Note::parse(&bytes).unwrap();
    assert_eq!(note.verify(std::slice::from_ref(one.verifier()), 1).unwrap(), [one.verifier()]);
    let both = [one.verifier().clone(), two.verifier().clone()];
    assert!(matches!(note.verify(&both, 2), Err(NoteError::TooFew { needed: 2, .. })));
    // The same bytes as a plain key made no signature here.
    let plain = key("witness.test/w11", 11).verifier().clone();
    assert!(matches!(note.verify(&[plain], 1), Err(NoteError::TooFew { .. })));
    // And the log's own signature still counts.
    role().verify(&note).unwrap();
}

#[test]
fn the_text_forms_of_plain_and_witness_keys_are_never_taken_for_each_other() {
    let signer = witness(11);
    let text = signer.verifier().to_string();
    assert_eq!(WitnessKey::parse(&text).unwrap(), *signer.verifier());
    assert!(matches!(VerifierKey::parse(&text), Err(KeyError::Algorithm { algorithm: 4, .. })));
    let plain = key("witness.test/w11", 11).verifier().to_string();
    assert!(matches!(WitnessKey::parse(&plain), Err(KeyError::NoWitness { algorithm: 1, .. })));
    // With the hash of the other algorithm.
    let (plain_hash, own_hash) =
        (&plain.split('+').collect::<Vec<_>>()[1], text.split('+').collect::<Vec<_>>()[1]);
    let mixed = text.replace(own_hash, plain_hash);
    assert!(matches!(WitnessKey::parse(&mixed), Err(KeyError::Hash { .. })));
}

#[test]
fn any_changed_byte_of_a_cosignature_spoils_it() {
    let signer = witness(11);
    let note = Note::parse(&cosigned(&signed(&tree(3, 3, 0), 3), &[&signer])).unwrap();
    let line = note.signatures().last().unwrap();
    assert_eq!(line.bytes().len(), 72);
    assert!(signer.verifier().verifies(note.text(), line.bytes()));
    for at in 0..72 {
        let mut bytes = line.bytes().to_vec();
        bytes[at] ^= 1;
        assert!(!signer.verifier().verifies(note.text(), &bytes), "byte {at}");
    }
    assert!(!signer.verifier().verifies(note.text(), &line.bytes()[..71]));
    assert!(!signer.verifier().verifies(&format!("{}x\n", note.text()), line.bytes()));
}

#[test]
fn a_time_beyond_the_specification_is_refused_although_it_is_signed() {
    let secret = key("witness.test/w11", 11);
    let verifier = WitnessKey::new(secret.verifier().clone());
    for (time, wanted) in [(u64::MAX, false), (1 << 63, false), ((1 << 63) - 1, true), (0, true)] {
        let message = format!("cosignature/v1\ntime {time}\ntext\n");
        let bytes = [time.to_be_bytes().as_slice(), &secret.sign(message.as_bytes()).unwrap()].concat();
        assert_eq!(verifier.verifies("text\n", &bytes), wanted, "{time}");
    }
}

#[test]
fn a_demand_is_between_one_and_all_of_its_distinct_keys() {
    let keys = || vec![witness(11).verifier().clone(), witness(12).verifier().clone()];
    assert!(Quorum::new(keys(), 1).is_ok() && Quorum::new(keys(), 2).is_ok());
    for threshold in [0, 3, u64::MAX] {
        assert_eq!(Quorum::new(keys(), threshold), Err(QuorumError::Threshold { threshold, keys: 2 }));
    }
    let renamed = WitnessSigner::new(key("another.name", 11)).verifier().clone();
    let twice = [keys(), vec![renamed]].concat();
    assert_eq!(Quorum::new(twice, 1), Err(QuorumError::Twice { name: "another.name".into() }));
}

#[test]
fn a_witness_takes_what_continues_what_it_holds() {
    let log = tree(20, 20, 0);
    judge(&request(&log, 0, 7), &role(), None).unwrap();
    judge(&request(&log, 0, 0), &role(), None).unwrap();
    for (old, new) in [(0, 1), (1, 20), (7, 7), (7, 8), (8, 20)] {
        judge(&request(&log, old, new), &role(), Some(&held(&log, old))).unwrap();
    }
}

#[test]
fn each_refusal_has_its_reason_and_its_status() {
    let (log, other) = (tree(20, 20, 0), tree(20, 5, 1));
    let holds = held(&log, 10);
    let judged = |request: &Request| judge(request, &role(), Some(&holds)).unwrap_err();
    let stale = judged(&request(&log, 7, 12));
    assert_eq!((&stale, stale.status(), stale.held_size()), (&Refusal::Stale { held: 10 }, 409, Some(10)));
    // An older one, whose proof is sound, is stale, too: nothing smaller is ever cosigned.
    assert_eq!(judged(&request(&log, 7, 9)), Refusal::Stale { held: 10 });
    let mut backwards = request(&log, 7, 9);
    backwards.old = 10;
    assert_eq!(judged(&backwards), Refusal::Backwards { old: 10, size: 9 });
    let forked = judged(&request(&other, 10, 12));
    let problem = ProofError::OldRoot;
    assert_eq!((&forked, forked.status()), (&Refusal::Inconsistent { held: 10, problem }, 422));
    // The same size with another root is a split view whatever the asker says of the old size.
    for old in [10, 3] {
        let split = judged(&request(&other, old, 10));
        assert!(matches!(split, Refusal::Split { size: 10, .. }), "{split:?}");
        assert_eq!(split.status(), 409);
    }
    let mut foreign = request(&log, 10, 12);
    foreign.note =
        Note::parse(&note::sign(foreign.note.text(), &[&key("example.org/gpu", 9)]).unwrap()).unwrap();
    let unsigned = judged(&foreign);
    assert!(matches!(unsigned, Refusal::Unsigned(NoteError::TooFew { .. })), "{unsigned:?}");
    assert_eq!(unsigned.status(), 403);
    // Nothing is held: the proof must be empty, and begin at nothing.
    assert_eq!(judge(&request(&log, 3, 5), &role(), None), Err(Refusal::Stale { held: 0 }));
    let mut padded = request(&log, 0, 5);
    padded.proof = vec![empty_root()];
    let problem = ProofError::Length { found: 1 };
    assert_eq!(judge(&padded, &role(), None), Err(Refusal::Inconsistent { held: 0, problem }));
}

#[test]
fn requests_that_are_not_exactly_of_their_form_are_refused() {
    let log = tree(9, 9, 0);
    let note = signed(&log, 9);
    let proof = prove_consistency(&log, 3, 9).unwrap();
    let good = Request::encode(3, &proof, &note);
    let parsed = Request::parse(&good).unwrap();
    assert_eq!((parsed.old, &parsed.proof, &parsed.bytes), (3, &proof, &note));
    let with = |head: &str| Request::parse(&[head.as_bytes(), &note].concat()).unwrap_err();
    for head in [
        "",
        "\n",
        "old\n\n",
        "old 03\n\n",
        "old +3\n\n",
        "old -1\n\n",
        "old 3 \n\n",
        "Old 3\n\n",
        "old 3\r\n\n",
    ] {
        assert_eq!(with(head), RequestError::Old, "{head:?}");
    }
    assert_eq!(with("old 9223372036854775808\n\n"), RequestError::Old);
    let hash = Hash([7; 32]).to_base64();
    for head in [
        "old 3\nAAAA\n\n".to_owned(),
        format!("old 3\n{hash} \n\n"),
        format!("old 3\n{}\n\n", hash.replace('=', "")),
    ] {
        assert_eq!(with(&head), RequestError::Proof(2), "{head:?}");
    }
    let hashes = |count: usize| format!("old 3\n{}\n", format!("{hash}\n").repeat(count));
    assert!(Request::parse(&[hashes(MAX_PROOF).as_bytes(), &note].concat()).is_ok());
    assert_eq!(with(&hashes(MAX_PROOF + 1)), RequestError::LongProof);
    assert!(matches!(Request::parse(b"old 3\n\n"), Err(RequestError::Note(_))));
    let profile = note::sign("# capgate latest v1 example.org/gpu\n", &[&key("example.org/gpu", 1)]).unwrap();
    let other = [b"old 3\n\n".as_slice(), &profile].concat();
    assert!(matches!(Request::parse(&other), Err(RequestError::Checkpoint(_))));
    assert_eq!(Request::parse(&vec![b'x'; 1 << 20]), Err(RequestError::TooLarge));
}

#[test]
fn an_answer_is_signature_lines_and_nothing_else() {
    let line = witness(11).cosign("text\n", now()).unwrap();
    assert_eq!(parse_answer(line.as_bytes()).unwrap().len(), 1);
    assert_eq!(parse_answer(line.repeat(2).as_bytes()).unwrap().len(), 2);
    for wrong in [
        String::new(),
        "\n".into(),
        format!("x\n{line}"),
        format!("x\n\n{line}"),
        format!("{line}\n{line}"),
        line.trim_end().into(),
        line.repeat(101),
    ] {
        assert!(parse_answer(wrong.as_bytes()).is_err(), "{wrong:?}");
    }
}

#[test]
fn what_is_held_is_of_the_log_that_it_is_held_for() {
    assert!(Held::parse(signed(&tree(3, 3, 0), 3), "example.org/other").is_err());
    assert!(Held::parse(b"damaged".to_vec(), "example.org/gpu").is_err());
}

proptest! {
    /// However requests about two histories are mixed, what is cosigned is always one history.
    #[test]
    fn a_witness_never_cosigns_two_histories(
        fork in 0u64..12,
        asked in prop::collection::vec((any::<bool>(), 0u64..16, 0u64..16, any::<bool>()), 1..40),
    ) {
        let logs = [tree(16, 16, 0), tree(16, fork, 1)];
        let mut holds: Option<Held> = None;
        let mut cosigned: Vec<Checkpoint> = Vec::new();
        for (which, old, new, follow) in asked {
            let log = &logs[usize::from(which)];
            let held_size = holds.as_ref().map_or(0, |held| held.checkpoint.size);
            let old = if follow { held_size } else { old };
            let (old, new) = (old.min(new), old.max(new));
            let request = request(log, old, new);
            if judge(&request, &role(), holds.as_ref()).is_ok() {
                holds = Some(Held { checkpoint: request.checkpoint.clone(), bytes: request.bytes.clone() });
                cosigned.push(request.checkpoint);
            }
        }
        let of = |log: &MemoryTree, c: &Checkpoint| root(log, c.size).unwrap() == c.root;
        let sizes: Vec<u64> = cosigned.iter().map(|c| c.size).collect();
        prop_assert!(sizes.is_sorted());
        prop_assert!(logs.iter().any(|log| cosigned.iter().all(|c| of(log, c))), "{cosigned:?}");
    }

    #[test]
    fn a_request_that_reads_is_written_the_same(old in 0u64..9, new in 0u64..9) {
        let (old, new) = (old.min(new), old.max(new));
        let parsed = request(&tree(9, 9, 0), old, new);
        let bytes = Request::encode(parsed.old, &parsed.proof, &parsed.bytes);
        prop_assert_eq!(Request::parse(&bytes).unwrap(), parsed);
    }
}
