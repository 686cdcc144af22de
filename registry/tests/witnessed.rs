//! Cosignatures in a registry: added, kept, followed, demanded.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::num::NonZero;

use base64ct::{Base64, Encoding};
use capgate_registry::log::CHECKPOINT;
use capgate_registry::note::{Note, NoteError, NoteSignature};
use capgate_registry::publish::PublishError;
use capgate_registry::reader::Reader;
use capgate_registry::record::{Doubt, Lookup};
use capgate_registry::sync::{SyncError, Synced, sync_witnessed};
use capgate_registry::witness::{
    Quorum, WitnessSigner, add_cosignatures, keeping_cosignatures, parse_answer, with_cosignatures,
};
use support::{Memory, World, key, profile, start};

fn witness(byte: u8) -> WitnessSigner {
    WitnessSigner::new(key(&format!("w{byte}.test"), byte))
}

fn quorum(bytes: &[u8], threshold: u64) -> Quorum {
    Quorum::new(bytes.iter().map(|byte| witness(*byte).verifier().clone()).collect(), threshold).unwrap()
}

fn line(text: &str, byte: u8) -> NoteSignature {
    parse_answer(witness(byte).cosign(text, start()).unwrap().as_bytes()).unwrap().remove(0)
}

fn text(store: &Memory) -> String {
    Note::parse(&store.get(CHECKPOINT)).unwrap().text().to_owned()
}

/// Has the witnesses cosign what is in force.
fn cosign(world: &World, bytes: &[u8]) {
    let text = text(&world.store);
    let lines: Vec<NoteSignature> = bytes.iter().map(|byte| line(&text, *byte)).collect();
    assert_eq!(add_cosignatures(&world.store, &world.pin, &text, &lines).unwrap(), lines.len());
}

fn publish(world: &World, numbers: std::ops::Range<u64>) {
    let notes: Vec<Vec<u8>> = numbers.map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect();
    world.publish(&notes).unwrap();
}

fn follow(world: &World, source: &World, to: &Memory, demand: &Quorum) -> Result<Synced, SyncError> {
    let threads = NonZero::new(2).unwrap();
    sync_witnessed(&source.store, to, &world.anchor(), Some(demand), threads, &mut |_, _| {})
}

fn open(world: &World, store: &Memory, demand: &Quorum) -> Result<Reader, Doubt> {
    Reader::open_witnessed(store, &world.anchor(), Some(demand))
}

fn signers(store: &Memory) -> Vec<String> {
    let note = Note::parse(&store.get(CHECKPOINT)).unwrap();
    note.signatures().iter().skip(1).map(|line| line.name().to_owned()).collect()
}

#[test]
fn a_reader_that_demands_witnesses_believes_what_enough_of_them_cosigned() {
    let world = World::new();
    publish(&world, 0..3);
    let unwitnessed = |demand: &Quorum| match open(&world, &world.store, demand) {
        Err(Doubt::Unwitnessed(what)) => what,
        other => panic!("{other:?}"),
    };
    assert!(unwitnessed(&quorum(&[11], 1)).contains("none of the 1 witnesses"));
    cosign(&world, &[11]);
    let met = quorum(&[11, 12], 1);
    assert_eq!(open(&world, &world.store, &met).unwrap().view().witnessed, Some(met));
    assert!(unwitnessed(&quorum(&[11, 12], 2)).contains("only `w11.test`"));
    assert!(unwitnessed(&quorum(&[12], 1)).contains("none"));
    cosign(&world, &[12]);
    open(&world, &world.store, &quorum(&[11, 12], 2)).unwrap();
    // Who demands nothing is told of nothing.
    assert_eq!(world.open().unwrap().view().witnessed, None);
    assert_eq!(world.verify().faults, []);

    // One of another checkpoint, and one whose bytes were changed, count for nothing.
    let other = line(&text(&world.store).replace("\n3\n", "\n2\n"), 13);
    let forged = with_cosignatures(&world.store.get(CHECKPOINT), [&other]).unwrap();
    let copy = world.store.copy();
    copy.set(CHECKPOINT, forged);
    assert!(matches!(open(&world, &copy, &quorum(&[11, 13], 1)), Err(Doubt::Unwitnessed(_))));
    // It names no witness of this site, so it spoils nothing here.
    open(&world, &copy, &quorum(&[11, 12], 2)).unwrap();
    copy.set(CHECKPOINT, b"damaged".to_vec());
    assert!(matches!(open(&world, &copy, &quorum(&[11], 1)), Err(Doubt::Unwitnessed(_))));
    copy.files.borrow_mut().remove(CHECKPOINT);
    assert!(matches!(open(&world, &copy, &quorum(&[11], 1)), Err(Doubt::Unwitnessed(_))));
}

#[test]
fn what_was_cosigned_binds_what_latest_note_says_and_not_what_stands_beside_it() {
    let world = World::new();
    publish(&world, 0..2);
    cosign(&world, &[11]);
    let witnessed = world.store.get(CHECKPOINT);
    publish(&world, 2..3);
    // The witnessed checkpoint of the log before in the place of the one that is in force.
    let copy = world.store.copy();
    copy.set(CHECKPOINT, witnessed);
    assert!(matches!(open(&world, &copy, &quorum(&[11], 1)), Err(Doubt::Unwitnessed(_))));
}

#[test]
fn cosignatures_outlive_a_renewal_and_only_that() {
    let world = World::new();
    publish(&world, 0..2);
    cosign(&world, &[11, 12]);
    world.publish_to(&world.store, &[], true).unwrap();
    assert_eq!(signers(&world.store), ["w11.test", "w12.test"]);
    publish(&world, 2..3);
    assert!(signers(&world.store).is_empty());
    // Asked about a log that is not in force any more.
    let old = "registry.test/capgate\n2\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";
    let late = add_cosignatures(&world.store, &world.pin, old, &[line(old, 11)]);
    assert!(matches!(late, Err(PublishError::Superseded)), "{late:?}");
    // A later one by the same witness takes the place of the earlier.
    cosign(&world, &[11]);
    let again =
        witness(11).cosign(&text(&world.store), world.now + jiff::SignedDuration::from_hours(1)).unwrap();
    let again = parse_answer(again.as_bytes()).unwrap();
    assert_eq!(add_cosignatures(&world.store, &world.pin, &text(&world.store), &again).unwrap(), 1);
    assert_eq!(add_cosignatures(&world.store, &world.pin, &text(&world.store), &again).unwrap(), 0);
    assert_eq!(signers(&world.store), ["w11.test"]);
}

#[test]
fn a_copy_keeps_its_state_until_enough_have_cosigned_the_next() {
    let world = World::new();
    publish(&world, 0..3);
    let (copy, demand) = (Memory::default(), quorum(&[11, 12], 2));
    let refused = |copy: &Memory| match follow(&world, &world, copy, &demand) {
        Err(SyncError::Source(Doubt::Unwitnessed(_))) => {}
        other => panic!("{other:?}"),
    };
    refused(&copy);
    assert!(copy.files.borrow().is_empty(), "nothing is fetched that will be refused");
    cosign(&world, &[11, 12]);
    assert!(follow(&world, &world, &copy, &demand).unwrap().changed);
    open(&world, &copy, &demand).unwrap();
    let before = copy.files.borrow().clone();
    publish(&world, 3..5);
    refused(&copy);
    cosign(&world, &[11]);
    refused(&copy);
    assert_eq!(*copy.files.borrow(), before);
    cosign(&world, &[12]);
    assert_eq!(follow(&world, &world, &copy, &demand).unwrap().fetched, 2);
    open(&world, &copy, &demand).unwrap();
    // A source that loses its cosignatures with the next renewal takes none away from here.
    let bare: Vec<u8> = {
        let bytes = world.store.get(CHECKPOINT);
        let note = Note::parse(&bytes).unwrap();
        format!("{}\n{}", note.text(), note.signatures()[0].line()).into_bytes()
    };
    world.store.set(CHECKPOINT, bare);
    world.publish_to(&world.store, &[], true).unwrap();
    assert!(signers(&world.store).is_empty());
    assert!(follow(&world, &world, &copy, &demand).unwrap().changed);
    open(&world, &copy, &demand).unwrap();
}

#[test]
fn a_stop_at_every_operation_leaves_a_state_that_is_witnessed() {
    let world = World::new();
    publish(&world, 0..3);
    cosign(&world, &[11]);
    let (old, demand) = (Memory::default(), quorum(&[11], 1));
    follow(&world, &world, &old, &demand).unwrap();
    let before = open(&world, &old, &demand).unwrap().latest().version;
    publish(&world, 3..6);
    cosign(&world, &[11]);
    let (mut kept, mut moved, mut waiting) = (0, 0, 0);
    for stop in 0.. {
        let copy = old.copy();
        copy.fail_at.set(Some(stop));
        let stopped = follow(&world, &world, &copy, &demand).is_err();
        copy.fail_at.set(None);
        // Also between the commit and the checkpoint, which follows it.
        let reader = open(&world, &copy, &demand).unwrap();
        if reader.latest().version == before {
            kept += 1
        } else {
            moved += 1
        }
        let standing = Note::parse(&copy.get(CHECKPOINT)).unwrap().text().to_owned();
        let behind = !standing.contains(&format!("\n{}\n", reader.latest().log_size));
        waiting += usize::from(behind);
        assert_eq!(world.verify_store(&copy).faults, [], "stopped at {stop}");
        if !stopped {
            break;
        }
    }
    assert!(kept > 1 && moved > 1 && waiting > 1, "{kept} {moved} {waiting}");
}

#[test]
fn a_history_that_contradicts_is_named_as_such_and_not_as_unwitnessed() {
    let (world, other) = (World::new(), World::new());
    publish(&world, 0..3);
    publish(&other, 0..2);
    publish(&other, 7..9);
    cosign(&world, &[11]);
    let (copy, demand) = (Memory::default(), quorum(&[11], 1));
    follow(&world, &world, &copy, &demand).unwrap();
    let before = copy.files.borrow().clone();
    // Its thief has no witness, and its victims keep what it signed.
    match follow(&world, &other, &copy, &demand) {
        Err(SyncError::Fork { size: 3, checkpoint, .. }) => {
            assert_eq!(checkpoint, other.store.get(CHECKPOINT))
        }
        more => panic!("{more:?}"),
    }
    assert_eq!(*copy.files.borrow(), before);
}

#[test]
fn lines_that_strangers_put_there_keep_no_cosignature_out() {
    let world = World::new();
    publish(&world, 0..1);
    let (text, bare) = (text(&world.store), world.store.get(CHECKPOINT));
    // A copy that demands nothing takes whatever stands there: a line in a witness's name that is no signature.
    let wrong = {
        let right = line(&text, 11);
        let mut material = [right.hash().as_slice(), right.bytes()].concat();
        material[20] ^= 1;
        let line = format!("\u{2014} w11.test {}\n", Base64::encode_string(&material));
        parse_answer(line.as_bytes()).unwrap().remove(0)
    };
    let spoiled = with_cosignatures(&bare, [&wrong]).unwrap();
    let copy = world.store.copy();
    copy.set(CHECKPOINT, spoiled.clone());
    assert!(matches!(open(&world, &copy, &quorum(&[11, 12], 1)), Err(Doubt::Unwitnessed(_))));
    cosign(&world, &[11]);
    follow(&world, &world, &copy, &quorum(&[11, 12], 1)).unwrap();
    open(&world, &copy, &quorum(&[11, 12], 1)).unwrap();
    // So does its maintainer's, once the witness is asked.
    world.store.set(CHECKPOINT, spoiled);
    cosign(&world, &[11]);
    open(&world, &world.store, &quorum(&[11], 1)).unwrap();

    // As many strangers as there is room for make room for what the source has.
    let many: Vec<NoteSignature> = (0..99).map(|n| line(&format!("{text}{n}"), 100 + n)).collect();
    let full = keeping_cosignatures(&bare, &with_cosignatures(&bare, &many).unwrap_or_default());
    let full = many.iter().fold(full, |full, line| with_cosignatures(&full, [line]).unwrap_or(full));
    assert!(matches!(
        with_cosignatures(&full, [&line(&text, 12)]),
        Err(NoteError::TooManySignatures | NoteError::TooLarge { .. })
    ));
    let kept = keeping_cosignatures(&with_cosignatures(&bare, [&line(&text, 12)]).unwrap(), &full);
    assert!(Note::parse(&kept).unwrap().verify(&[witness(12).verifier().clone()], 1).is_ok());
    assert!(kept.len() <= 16 * 1024);
}
