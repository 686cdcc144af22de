//! Who lets a library in, and which slice it needs.

use std::os::unix::fs::PermissionsExt;

use crate::found::Files;
use crate::writer::{self, ARM64, ARM64E, Image, X86_64, entitlements, universal};

const VARIABLES: &str = "com.apple.security.cs.allow-dyld-environment-variables";
const VALIDATION: &str = "com.apple.security.cs.disable-library-validation";

fn program(flags: u32, granted: &[&str]) -> Image {
    Image::program("program").signed(|signing| {
        signing.flags = flags;
        signing.team = Some("ABCDE12345".to_owned());
        signing.entitlements = (!granted.is_empty()).then(|| entitlements(granted));
    })
}

fn says(image: &Image, status: &str, part: &str) {
    let files = Files::new();
    files.put("program", image.bytes());
    let found = files.look("program", &[]);
    found.says("injection", status, part).exits(if status == "ok" { 0 } else { 3 });
    if status == "failed" {
        let fix = found.line("injection")["fix"].as_str().unwrap();
        assert!(fix.starts_with("none: "), "{fix}");
    }
}

#[test]
fn a_program_that_is_not_hardened_lets_a_library_in() {
    says(&Image::program("plain"), "ok", "signed by its linker, no hardened runtime");
    says(&program(writer::ADHOC, &[]), "ok", "signed by team ABCDE12345");
}

#[test]
fn a_hardened_one_only_with_both_entitlements() {
    says(&program(writer::HARDENED, &[]), "failed", VARIABLES);
    says(&program(writer::HARDENED, &[VARIABLES]), "failed", "lacks `com.apple.security.cs.disable-library");
    says(&program(writer::HARDENED, &[VALIDATION]), "failed", "lacks `com.apple.security.cs.allow-dyld");
    says(&program(writer::HARDENED, &[VARIABLES, VALIDATION]), "ok", "hardened runtime with both");
    // An entitlement that is there and false is none.
    let mut off = program(writer::HARDENED, &[VARIABLES, VALIDATION]);
    let signing = off.signing.as_mut().unwrap();
    signing.entitlements = signing.entitlements.take().map(|text| text.replacen("<true/>", "<false/>", 1));
    says(&off, "failed", VARIABLES);
}

#[test]
fn restricted_validating_and_platform_programs_do_not() {
    says(&program(writer::RESTRICT, &[]), "failed", "0x800");
    says(&program(writer::LIBRARY_VALIDATION, &[]), "failed", "library validation");
    says(&program(writer::LIBRARY_VALIDATION, &[VALIDATION]), "ok", "");
    says(&Image { restricted: true, ..Image::program("a") }, "failed", "__RESTRICT,__restrict");
    says(&Image::program("a").signed(|signing| signing.platform = 14), "failed", "macOS's own");
    says(&Image { signing: None, ..Image::program("a") }, "failed", "is not signed");
}

#[test]
fn one_that_changes_its_user_does_not() {
    let files = Files::new();
    let path = files.put("program", Image::program("a").bytes());
    for mode in [0o4755, 0o2755] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        files.look("program", &[]).says("injection", "failed", "changes its user").exits(3);
    }
}

#[test]
fn the_library_must_have_the_slice_that_runs() {
    let of = |cpu| (cpu, Image { cpu, ..Image::program("program") }.bytes());
    let dylib = |cpu| (cpu, Image { cpu, ..Image::dylib("libcapgate.dylib") }.bytes());
    let files = Files::new();
    let arm64 = files.put("arm64.dylib", dylib(ARM64).1);
    let both = files.put("both.dylib", universal(&[dylib(ARM64), dylib(ARM64E)], false));
    let look = |bytes: &[u8], library: &std::path::Path| {
        files.put("program", bytes);
        files.look("program", &["--library", library.to_str().unwrap()])
    };
    look(&of(ARM64).1, &arm64).says("library", "ok", "has code for arm64").exits(0);
    look(&of(ARM64E).1, &arm64).says("library", "failed", "no code for arm64e").exits(3);
    look(&of(ARM64E).1, &both).says("library", "ok", "has code for arm64e").exits(0);
    look(&of(X86_64).1, &both).says("library", "failed", "no code for x86_64").exits(3);
    // Anybody's universal program runs without pointer authentication where it can.
    let fat = universal(&[of(X86_64), of(ARM64E), of(ARM64)], true);
    let found = look(&fat, &arm64);
    found.says("slice", "ok", "runs as arm64;").says("library", "ok", "has code for arm64").exits(0);
    assert_eq!(
        (found.json["program"]["slice"].as_str(), found.json["program"]["slices"].as_array().unwrap().len()),
        (Some("arm64"), 3)
    );
    assert_eq!(found.json["program"]["slices"][2]["minimum_macos"], "14.0");
    look(&of(ARM64).1, &files.path("none.dylib")).says("library", "failed", "cannot be inserted").exits(3);
    look(&of(ARM64E).1, &both).says("slice", "ok", "a library for arm64 alone makes the loader end it");
    look(&of((0x0100_0012, 0)).1, &both).says("slice", "failed", "it has code for processor").exits(3);
    assert!(!files.look("program", &[]).has("library"));
}

#[test]
fn an_elf_program_gets_the_generic_checks() {
    let files = Files::new();
    let program = env!("CARGO_BIN_EXE_capgate");
    let mut command = files.command();
    let found = crate::found::Found::of(command.args([program, "--library", program]));
    found.says("program", "warning", "for Linux").says("library", "ok", "same machine").exits(0);
    assert!(!found.has("images") && !found.has("injection"));
}
