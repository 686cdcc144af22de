//! Which program it is: by the kernel's cdhash, and by the SHA-256 of a file that is proven to be what runs.

use std::fs;

use crate::guest::{CDHASH, Guest, Plan, profile};
use crate::machofile::Image;

const DEVICE: &str = "AppleParavirtDevice";

/// A signed program; the kernel's answers come from the stand-in, its file is a real Mach-O.
pub fn program() -> Image {
    Image::program("ask")
}

fn cdhash_line(image: &Image) -> String {
    format!("cdhash = \"{}\"", image.cdhash())
}

fn sha256_line(image: &Image) -> String {
    format!("sha256 = \"{}\"", image.sha256())
}

fn named_by(id: &str, line: &str) -> String {
    profile(id).replace(&format!("cdhash = \"{CDHASH}\""), line)
}

/// Two live profiles for one program, each under another identity.
pub fn twice() -> Plan {
    let profiles =
        vec![named_by("tested", &cdhash_line(&program())), named_by("another", &sha256_line(&program()))];
    Plan { profiles, ..Plan::default() }
}

/// The process is that file, and the kernel says so.
pub fn run_as(guest: &Guest, image: &Image) {
    let file = guest.folder.join("program");
    fs::write(&file, image.bytes()).unwrap();
    guest.answer("executable", &format!("{}\n", file.display()));
    guest.answer("cdhash", &format!("{}\n", image.cdhash()));
}

fn plan_by(line: &str) -> Plan {
    Plan { profiles: vec![named_by("tested", line)], ..Plan::default() }
}

#[test]
fn a_profile_with_a_sha256_alone_is_found_where_every_program_has_a_cdhash() {
    let guest = plan_by(&sha256_line(&program())).make();
    run_as(&guest, &program());
    let ran = guest.ask(&[DEVICE]);
    ran.is_granted(DEVICE);
    assert_eq!(ran.log[0]["workload_sha256"], program().sha256());
    assert_eq!(ran.log[0]["workload_cdhash"], program().cdhash().to_string());
}

#[test]
fn a_profile_with_both_is_found_and_must_agree() {
    let both = format!("{}\n{}", sha256_line(&program()), cdhash_line(&program()));
    let guest = plan_by(&both).make();
    run_as(&guest, &program());
    guest.ask(&[DEVICE]).is_granted(DEVICE);
    let guest = plan_by(&format!("{}\ncdhash = \"{CDHASH}\"", sha256_line(&program()))).make();
    run_as(&guest, &program());
    guest.ask(&[DEVICE]).is_stock(DEVICE, "profile-differs");
}

#[test]
fn attack_a_tested_file_put_in_the_place_of_what_runs_does_not_count() {
    let guest = plan_by(&sha256_line(&program())).make();
    run_as(&guest, &program());
    // What runs is another program; the file of the tested one stands where it was started from.
    guest.answer("cdhash", &format!("{CDHASH}\n"));
    let ran = guest.ask(&[DEVICE]);
    ran.is_stock(DEVICE, "no-profile");
    // Without the kernel's word nothing counts at all.
    fs::remove_file(guest.folder.join("standin/cdhash")).unwrap();
    guest.ask(&[DEVICE]).is_stock(DEVICE, "fact-workload-missing");
}

#[test]
fn a_program_that_cannot_be_read_is_known_by_its_cdhash_alone() {
    for hide in ["/dev/zero", "/", "/nowhere"] {
        let guest = Plan::default().make();
        guest.answer("executable", &format!("{hide}\n"));
        let ran = guest.ask(&[DEVICE]);
        ran.is_granted(DEVICE);
        assert!(ran.log[0]["workload_sha256"].is_null(), "{hide}");
    }
}

#[test]
fn malformed_programs_have_no_cdhash_and_break_nothing() {
    let whole = program().bytes();
    for length in (0..600).chain([whole.len() - 1]) {
        let guest_file = whole.get(..length).unwrap().to_vec();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, guest_file).unwrap();
        let identity = capgate_guest::identity::of_file(&path).unwrap();
        assert!(identity.cdhashes.is_empty(), "{length}");
    }
}
