//! Trust changes hands only as its keys say, and what was signed before stays judged by those who could sign it then.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

mod support;

use capgate_registry::keys::SigningKey;
use capgate_registry::merkle::Hash;
use capgate_registry::note::{self, Kind, NoteError};
use capgate_registry::publish::PublishError;
use capgate_registry::reader::Reader;
use capgate_registry::record::{Doubt, Lookup};
use capgate_registry::trust::{Chain, Role, Trust, TrustError};
use jiff::SignedDuration;
use support::{ORIGIN, World, first_key, key, origin, profile, start, time};

fn role(threshold: usize, keys: &[&SigningKey]) -> Role {
    Role { threshold, keys: keys.iter().map(|key| key.verifier().clone()).collect() }
}

/// The trust that [`World::new`] makes.
fn first() -> Trust {
    Trust {
        version: 1,
        log_index: 0,
        issued: start(),
        expires: time("2027-12-01T00:00:00Z"),
        root: role(1, &[&key("root.test", 1)]),
        publisher: role(1, &[&key("publisher.test", 2)]),
        registry: role(1, &[&key(ORIGIN, 3)]),
        compromised: Vec::new(),
    }
}

fn signed(trust: &Trust, keys: &[&SigningKey]) -> Vec<u8> {
    note::sign(&note::compose(Kind::Trust, &origin(), &trust.to_toml()).unwrap(), keys).unwrap()
}

fn open(notes: &[Vec<u8>]) -> Result<Chain, TrustError> {
    Chain::open(notes.iter().map(Vec::as_slice), &Hash::of(&notes[0]))
}

fn too_few(result: Result<Chain, TrustError>) -> bool {
    matches!(result, Err(TrustError::Signature { source: NoteError::TooFew { .. }, .. }))
}

#[test]
fn a_next_version_needs_the_thresholds_of_both() {
    let (old, new_a, new_b) = (key("root.test", 1), key("root-a.test", 11), key("root-b.test", 12));
    let one = signed(&first(), &[&old]);
    let next = Trust { version: 2, root: role(2, &[&new_a, &new_b]), ..first() };
    let try_with = |keys: &[&SigningKey]| open(&[one.clone(), signed(&next, keys)]);
    assert!(too_few(try_with(&[&new_a, &new_b])), "the old root did not agree");
    assert!(too_few(try_with(&[&old])), "the new root did not agree");
    assert!(too_few(try_with(&[&old, &new_a])), "one of two new keys");
    let chain = try_with(&[&old, &new_a, &new_b]).unwrap();
    assert_eq!((chain.current().version, chain.previous().map(|t| t.version)), (2, Some(1)));
}

#[test]
fn versions_come_in_order_and_never_take_force_earlier() {
    let root = key("root.test", 1);
    let one = signed(&first(), &[&root]);
    let at = |version: u64, log_index: u64| signed(&Trust { version, log_index, ..first() }, &[&root]);
    assert!(open(&[one.clone(), at(2, 5), at(3, 5)]).is_ok());
    for (second, third) in
        [(at(3, 5), at(2, 5)), (at(2, 5), at(4, 5)), (at(2, 5), at(3, 4)), (at(2, 5), one.clone())]
    {
        let opened = open(&[one.clone(), second, third]);
        assert!(matches!(opened, Err(TrustError::Version { .. })), "{opened:?}");
    }
}

#[test]
fn the_first_version_is_signed_for_those_who_audit_and_pinned_for_those_who_read() {
    let stranger = key("stranger.test", 9);
    let one = signed(&first(), &[&stranger]);
    assert!(too_few(open(std::slice::from_ref(&one))));
    let pin = Hash::of(&one);
    assert_eq!(Chain::open_pinned([one.as_slice()], &pin).unwrap().current().version, 1);
    // The second version needs the first one's root all the same, and another pin is another registry.
    let next = signed(&Trust { version: 2, ..first() }, &[&stranger]);
    assert!(too_few(Chain::open_pinned([one.as_slice(), &next], &pin)));
    let other = Chain::open_pinned([one.as_slice()], &Hash::of(&next));
    assert!(matches!(other, Err(TrustError::NotPinned { .. })), "{other:?}");
}

#[test]
fn another_first_root_is_refused_whoever_signed_it() {
    let root = key("root.test", 1);
    let one = signed(&first(), &[&root]);
    let other = signed(&Trust { expires: time("2028-01-01T00:00:00Z"), ..first() }, &[&root]);
    let opened = Chain::open([other.as_slice()], &Hash::of(&one));
    assert!(matches!(opened, Err(TrustError::NotPinned { .. })));
}

#[test]
fn no_key_has_two_roles_and_no_threshold_is_impossible() {
    let root = key("root.test", 1);
    let twice = [
        Trust { publisher: role(1, &[&key("other-name.test", 1)]), ..first() },
        Trust { publisher: role(2, &[&key("a.test", 5), &key("b.test", 5)]), ..first() },
        Trust { publisher: role(0, &[&key("a.test", 5)]), ..first() },
        Trust { publisher: role(2, &[&key("a.test", 5)]), ..first() },
        Trust { registry: role(1, &[&key("another.test/origin", 3)]), ..first() },
        Trust { expires: start(), ..first() },
    ];
    for trust in twice {
        let opened = open(&[signed(&trust, &[&root])]);
        assert!(matches!(opened, Err(TrustError::Version { .. })), "{trust:?}");
    }
}

/// A stolen publisher's key is taken out from the index on from which it no longer counts.
#[test]
fn a_retired_publisher_counts_before_its_index_and_not_after() {
    let mut world = World::new();
    let (before, after) = (profile("before-theft", 1), profile("after-theft", 2));
    world.publish(&[world.sign(&before)]).unwrap();
    let next = Trust { version: 2, log_index: 1, publisher: role(1, &[&key("new.test", 22)]), ..first() };
    world.store.set("trust/2.note", signed(&next, &[&key("root.test", 1)]));
    let stolen = world.sign(&after);
    assert!(world.publish(std::slice::from_ref(&stolen)).is_err(), "the old key no longer publishes");
    assert_eq!(world.live(&before), ["before-theft"]);
    world.publisher = key("new.test", 22);
    world.publish(&[world.sign(&after)]).unwrap();
    assert_eq!(world.live(&after), ["after-theft"]);
    assert_eq!(world.verify().faults, []);
    // The same log without the second version of the trust: what the new key signed counts for nothing.
    let store = world.store.copy();
    store.files.borrow_mut().remove("trust/2.note");
    let opened = Reader::open(&store, &world.anchor());
    assert!(matches!(opened, Err(Doubt::Rollback(_))), "{opened:?}");
}

#[test]
fn a_publisher_retired_from_index_0_counts_nowhere() {
    let mut world = World::new();
    world.publish(&[world.sign(&profile("honest-one", 1))]).unwrap();
    let next = Trust { version: 2, log_index: 0, publisher: role(1, &[&key("new.test", 22)]), ..first() };
    world.store.set("trust/2.note", signed(&next, &[&key("root.test", 1)]));
    world.publisher = key("new.test", 22);
    // It takes force with the next `latest.note`; from index 0 on the old key counts for nothing, wherever its entries
    // stand. `capgate trust rotate` refuses such a version: a key in foreign hands is to be named as compromised.
    assert_eq!(world.live(&profile("honest-one", 1)), ["honest-one"]);
    let refused = world.publish_to(&world.store, &[], true);
    assert!(matches!(refused, Err(PublishError::Disowned { first: 0, .. })), "{refused:?}");
    world.force_trust(2);
    let doubt = world.open().unwrap().lookup(&first_key(&profile("honest-one", 1))).unwrap_err();
    assert!(doubt.to_string().contains("signed by 0 of the 1 keys that are needed"), "{doubt}");
}

#[test]
fn an_expired_trust_grants_nothing_even_if_latest_is_fresh() {
    let mut world = World::new();
    world.now = time("2027-11-30T23:00:00Z");
    world.publish(&[world.sign(&profile("late-one", 1))]).unwrap();
    assert!(world.open().is_err(), "one hour later the trust is past its date");
    let mut anchor = world.anchor();
    anchor.now -= SignedDuration::from_secs(1);
    assert!(Reader::open(&world.store, &anchor).is_ok());
}
