//! What is said to be in force: profiles that return, rival each other, hide, or stand where they do not belong.

use capgate_registry::snapshot::{RawProfile, RawRecord};

use super::honest::{History, sign_profile, sign_revocation};
use super::keys::evil;
use super::thief::{Forgery, entries_of, latest_of, record, records_of};
use super::{Case, case};
use crate::support::{Memory, profile, profile_with};

pub fn cases(h: &History) -> Vec<Case> {
    [returns(h), order(h), contents(h)].into_iter().flatten().collect()
}

const BUNDLE: &str = "log/tile/entries/000.p/7";
const LIMIT: &str = "a lookup believes the registry key about which signed profiles are in force; verify and sync compute it from the log";

/// A case that the holder of the registry key made, whose snapshot is not what the log leads to.
fn differs(h: &History, name: &'static str, attack: &str, store: Memory) -> Case {
    let latest = latest_of(&store);
    let signs = format!("signs {} records under {}, but the log leads to", latest.size, latest.root);
    case(h, name, attack, store)
        .holds("the registry key")
        .verify(&latest.snapshot_path(), "is not what the log leads to")
        .sync("damaged", &signs)
}

/// The record that every reader asks for.
fn wanted(h: &History) -> RawRecord {
    records_of(h.version(6)).into_iter().find(|record| record.profiles[0].index == 2).unwrap()
}

fn returns(h: &History) -> Vec<Case> {
    let k = &h.keys;
    let first = entries_of(h.version(6)).swap_remove(0);
    let old_record = record(&profile("tested-one", 1), 0, &first);
    let twice = Forgery::of(h).log(&first).record(&record(&profile("tested-one", 1), 6, &first)).make();
    let again = profile_with("tested-six", 1, "supersedes = \"tested-one\"\n");
    let again = sign_profile(&again, &[&k.alice, &k.bob]);
    let superseded_twice = Forgery::of(h).log(&again).record(&record(&evil(), 6, &again)).make();
    let revocation = sign_revocation("tested-two", &[&k.alice]);
    let rival = sign_profile(&profile("rival-one", 1), &[&k.alice, &k.bob]);
    let mut both = wanted(h);
    both.profiles.push(RawProfile { index: 6, note: rival.clone(), revocation: None });
    let hides_rival = Forgery::of(h).log(&rival).make();
    let rivals = Forgery::of(h).log(&rival).record(&both).make();
    vec![
        differs(
            h,
            "superseded-returns",
            "A superseded profile stands in the snapshot again.",
            Forgery::of(h).record(&old_record).make(),
        )
        .lookup_deceived("tested-one", LIMIT),
        case(h, "superseded-returns-in-the-log", "A superseded profile is logged a second time.", twice)
            .holds("the registry key")
            .lookup_deceived("tested-one", LIMIT)
            .verify(BUNDLE, "the id `tested-one` was published before; ids are never used again")
            .sync("entry", "the id `tested-one` was published before; ids are never used again"),
        case(
            h,
            "superseded-a-second-time",
            "A second profile supersedes what is superseded, and stands in force beside the first.",
            superseded_twice,
        )
        .holds("the registry key, two publishers' keys")
        .lookup_deceived("tested-six", LIMIT)
        .verify(BUNDLE, "`tested-one` is already superseded or revoked")
        .sync("entry", "`tested-one` is already superseded or revoked"),
        differs(
            h,
            "revocation-left-out",
            "A profile stays in force whose revocation is logged.",
            Forgery::of(h).log(&revocation).make(),
        )
        .lookup_deceived("tested-two", LIMIT),
        case(h, "two-live-profiles", "Two profiles of one combination are in force at once.", rivals)
            .holds("the registry key, two publishers' keys")
            .lookup("ambiguous", "live: `tested-two`, `rival-one`")
            .verify_holds()
            .sync_heals(7),
        differs(
            h,
            "rival-left-out",
            "Of two profiles of one combination the snapshot holds one.",
            hides_rival,
        )
        .lookup_deceived("tested-two", LIMIT),
    ]
}

fn order(h: &History) -> Vec<Case> {
    let at = |forgery: &Forgery<'_>| {
        let key = wanted(h).key.0;
        forgery.records.iter().position(|record| record[..32] == key).unwrap()
    };
    let mut swapped = Forgery::of(h);
    let here = at(&swapped);
    let other = if here == 0 { 1 } else { here - 1 };
    swapped.records.swap(here, other);
    let mut far = Forgery::of(h);
    far.records.swap(0, 3);
    let mut twice = Forgery::of(h);
    let record = twice.records[here].clone();
    twice.records.insert(here, record);
    let mut second = Forgery::of(h);
    let mut evil = super::thief::record(&evil(), 2, &wanted(h).profiles[0].note);
    evil.profiles[0].index = 1;
    second.records.insert(here, evil.encode());
    let mut missing = Forgery::of(h);
    missing.records.remove(here);
    vec![
        differs(
            h,
            "records-out-of-order",
            "Two neighbours in the snapshot's tree are swapped.",
            swapped.make(),
        )
        .lookup("no-profile", "the registry holds no profile for this combination"),
        differs(h, "records-far-out-of-order", "The first and the last record are swapped.", far.make())
            .lookup_grants("tested-two"),
        differs(h, "record-duplicated", "A record stands in the tree twice.", twice.make())
            .lookup_grants("tested-two"),
        differs(
            h,
            "record-duplicated-with-another-index",
            "A key has two records, of which one gives its profile an older log index.",
            second.make(),
        )
        .lookup_grants("tested-two"),
        differs(h, "record-missing", "A record is left out of the tree.", missing.make())
            .lookup("no-profile", "the registry holds no profile for this combination"),
    ]
}

/// Edits of the file by somebody without a key are among the tiles; these are signed.
fn contents(h: &History) -> Vec<Case> {
    let wanted = wanted(h);
    let third = entries_of(h.version(6)).swap_remove(3);
    let note = wanted.profiles[0].clone();
    let with =
        |profiles: Vec<RawProfile>| Forgery::of(h).record(&RawRecord { key: wanted.key, profiles }).make();
    let foreign = with(vec![RawProfile { index: 3, note: third, revocation: None }]);
    let beyond = with(vec![RawProfile { index: 6, ..note.clone() }]);
    let doubled = with(vec![note.clone(), note.clone()]);
    let raw = |bytes: Vec<u8>| {
        let mut forgery = Forgery::of(h);
        let at = forgery.records.iter().position(|record| record[..32] == wanted.key.0).unwrap();
        forgery.records[at] = bytes;
        forgery.make()
    };
    let honest = wanted.encode();
    let longer = raw([&honest[..], b"\0"].concat());
    let cut = raw(honest[..honest.len() - 1].to_vec());
    let none = raw([&honest[..32], &[0, 0]].concat());
    let cannot = "a record of the snapshot cannot be read";
    vec![
        differs(
            h,
            "record-of-another-combination",
            "A profile stands under a key that it is not about.",
            foreign,
        )
        .lookup("registry-corrupt", "the profile at log index 3 was tested on another combination"),
        differs(h, "record-beyond-the-log", "A record names a log index that the log does not have.", beyond)
            .lookup("registry-corrupt", "the profile at log index 6 is outside a log of 6 entries"),
        differs(h, "record-with-one-profile-twice", "A record holds the same profile twice.", doubled)
            .lookup("registry-malformed", cannot),
        differs(h, "record-with-trailing-data", "A record goes on behind its end.", longer)
            .lookup("registry-malformed", cannot),
        differs(h, "record-truncated", "A record ends before its end.", cut)
            .lookup("registry-malformed", cannot),
        differs(
            h,
            "record-of-nothing",
            "A record holds no profile, which would read as none in force.",
            none,
        )
        .lookup("registry-malformed", cannot),
    ]
}
