//! A prefix that holds no registry, only a proof: a machine image carries just its own grant.

use std::fs;

use capgate::world::folder::Folder;
use capgate_registry::combination::Workload;
use capgate_registry::profile::Profile;
use capgate_registry::proof::Proof;
use capgate_registry::reader::{Anchor, Reader, Seen};
use capgate_registry::record::Lookup;
use jiff::Timestamp;

use crate::guest::{CDHASH, Guest, Plan, profile};

const DEVICE: &str = "AppleParavirtDevice";

/// A proof about the tested program, of what the guest holds.
fn proof_of(guest: &Guest) -> Vec<u8> {
    let keys = Profile::parse(profile("tested").as_bytes()).unwrap().keys();
    let pin = guest.pin.strip_prefix("sha256:").unwrap().parse().unwrap();
    let anchor = Anchor { pin, seen: Seen::default(), now: Timestamp::now() };
    Proof::collect(&Folder::new(guest.state("registry")), &anchor, &keys).unwrap().encode()
}

/// The guest with a proof about the tested program in place of its registry.
fn carried(plan: &Plan) -> (Guest, Vec<u8>) {
    let guest = plan.make();
    let (registry, proof) = (guest.state("registry"), proof_of(&guest));
    fs::remove_dir_all(&registry).unwrap();
    fs::create_dir(&registry).unwrap();
    fs::write(guest.state("proof"), &proof).unwrap();
    (guest, proof)
}

#[test]
fn a_registry_of_which_a_part_is_lost_is_not_passed_over_for_a_proof() {
    let guest = Plan::default().make();
    let proof = proof_of(&guest);
    fs::write(guest.state("proof"), proof).unwrap();
    let registry = guest.state("registry");
    let snapshot = fs::read_dir(registry.join("snapshot")).unwrap().flatten().map(|entry| entry.path());
    let snapshot = snapshot.filter(|path| path.extension().is_some_and(|e| e == "snap")).last().unwrap();
    for lost in [registry.join("snapshot/latest.note"), registry.join("trust/1.note"), snapshot] {
        let kept = fs::read(&lost).unwrap();
        fs::remove_file(&lost).unwrap();
        drop(fs::remove_file(guest.log()));
        guest.ask(&[DEVICE]).is_stock(DEVICE, "registry-missing");
        fs::write(&lost, kept).unwrap();
    }
    drop(fs::remove_file(guest.log()));
    guest.ask(&[DEVICE]).is_granted(DEVICE);
}

#[test]
fn a_proof_grants_what_its_registry_granted() {
    let (guest, _) = carried(&Plan::default());
    let ran = guest.ask(&[DEVICE]);
    ran.is_granted(DEVICE);
    assert_eq!(ran.log[0]["registry_version"], 1);
}

#[test]
fn another_program_is_granted_nothing_by_it() {
    let other = format!("{}2", &CDHASH[..39]);
    let tested = Profile::parse(profile("tested").as_bytes()).unwrap();
    // Among a few records the neighbours of one key may happen to enclose another, which proves it absent.
    let (mut absent, mut open) = (0, 0);
    for others in 1..12 {
        let more =
            (0..others * 4).map(|n| profile(&format!("other-{n}")).replace(CDHASH, &format!("{n:039x}1")));
        let profiles = std::iter::once(profile("tested")).chain(more).collect();
        let (guest, proof) =
            carried(&Plan { profiles, ..Plan::default() }.standin("cdhash", format!("{other}\n")));
        let pin = guest.pin.strip_prefix("sha256:").unwrap().parse().unwrap();
        let anchor = Anchor { pin, seen: Seen::default(), now: Timestamp::now() };
        let reader = Reader::open(&Proof::parse(&proof).unwrap(), &anchor).unwrap();
        let ran = guest.ask(&[DEVICE]);
        if reader.lookup(&tested.key_with(Workload::CdHash(other.parse().unwrap()))).is_ok() {
            ran.is_stock(DEVICE, "no-profile");
            absent += 1;
        } else {
            ran.is_stock(DEVICE, "registry-unreadable");
            assert!(ran.err.contains("the proof is not about that"), "{}", ran.err);
            open += 1;
        }
    }
    assert!(open > 0, "{absent}");
}

#[test]
fn a_proof_is_held_to_seen_clock_pin_and_form() {
    let (guest, proof) = carried(&Plan::default());
    let stock = |reason: &str| {
        drop(fs::remove_file(guest.log()));
        guest.ask(&[DEVICE]).is_stock(DEVICE, reason);
    };
    guest.put("seen", "version = 9\nlog_size = 0\ntrust = 1\n");
    stock("registry-rollback");
    fs::remove_file(guest.state("seen")).unwrap();
    fs::write(guest.state("proof"), &proof[..proof.len() - 1]).unwrap();
    stock("registry-malformed");
    fs::write(guest.state("proof"), &proof).unwrap();
    Guest::mode(&guest.state("proof"), 0o666);
    stock("registry-unreadable");
    Guest::mode(&guest.state("proof"), 0o644);
    guest.put("root.note", &format!("sha256:{}\n", "7".repeat(64)));
    stock("registry-wrong-key");
    guest.put("root.note", &format!("{}\n", guest.pin));
    // A registry that is there is asked, whatever a proof says.
    fs::create_dir(guest.state("registry/snapshot")).unwrap();
    fs::write(guest.state("registry/snapshot/latest.note"), "damaged").unwrap();
    stock("registry-malformed");
    fs::remove_file(guest.state("proof")).unwrap();
    fs::remove_dir_all(guest.state("registry/snapshot")).unwrap();
    stock("registry-missing");
}

#[test]
fn a_proof_expires_with_its_registry() {
    let old = Plan { published: -jiff::SignedDuration::from_hours(24 * 40), ..Plan::default() };
    let guest = old.make();
    let tested = Profile::parse(profile("tested").as_bytes()).unwrap();
    let pin = guest.pin.strip_prefix("sha256:").unwrap().parse().unwrap();
    let then = Timestamp::now() - jiff::SignedDuration::from_hours(24 * 20);
    let anchor = Anchor { pin, seen: Seen::default(), now: then };
    let registry = guest.state("registry");
    let proof = Proof::collect(&Folder::new(&registry), &anchor, &tested.keys()).unwrap().encode();
    fs::remove_dir_all(&registry).unwrap();
    fs::create_dir(&registry).unwrap();
    fs::write(guest.state("proof"), &proof).unwrap();
    guest.ask(&[DEVICE]).is_stock(DEVICE, "registry-expired");
}
