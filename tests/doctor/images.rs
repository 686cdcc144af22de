//! What a program loads, and which of it a profile has to list.

use capgate_registry::combination::Hex;
use capgate_registry::profile::Profile;
use sha2::{Digest, Sha256};

use crate::found::Files;
use crate::writer::{self, ARM64E, Image, METAL};

/// A program with a library that links Metal, one that does not, and backends beside it.
fn installed() -> Files {
    let files = Files::new();
    let program = Image::program("bench").links("@rpath/liba.dylib").rpath("@loader_path/../lib");
    files.put("app/bin/bench", program.bytes());
    files.put("app/lib/liba.dylib", Image::dylib("liba.dylib").links("@rpath/libmetal.dylib").bytes());
    files.put("app/lib/libmetal.dylib", Image::dylib("libmetal.dylib").links(METAL).bytes());
    files
}

#[test]
fn what_links_metal_at_the_start_is_listed_ready_to_paste() {
    let files = installed();
    let found = files.look("app/bin/bench", &[]);
    found.says("images", "ok", "1 of 2 images").says("late images", "ok", "none stands beside").exits(0);
    assert_eq!(found.images(), [("libmetal.dylib", "start")]);
    let image = Image::dylib("libmetal.dylib").links(METAL);
    let (cdhash, sha256) = (Hex(image.cdhash()), Hex::<32>(Sha256::digest(image.bytes()).into()));
    let lines = found.json["profile_lines"].as_str().unwrap();
    let expected = format!(
        "[[workload.image]]\nname = \"libmetal.dylib\"\ncdhash = \"{cdhash}\"\nsha256 = \"{sha256}\"\n"
    );
    assert_eq!(lines, expected);
    let profile = include_str!("../profiles/good.toml").replace(", \"images-unrecorded\"]", "]");
    let profile = profile.replacen("[[override]]", &format!("{lines}\n[[override]]"), 1);
    let profile = Profile::parse(profile.as_bytes()).unwrap();
    assert_eq!(profile.workload.images[0].cdhash, Some(cdhash));
}

#[test]
fn backends_beside_are_listed_as_what_may_be_opened_later() {
    let files = installed();
    // Opened by name later; one of them brings another image along.
    files.put("app/bin/libbackend-cpu.so", Image::new(writer::BUNDLE, "cpu").bytes());
    let metal = Image::new(writer::BUNDLE, "metal").links(METAL).links("@loader_path/more/libmore.dylib");
    files.put("app/bin/libbackend-metal.so", metal.bytes());
    files.put("app/bin/more/libmore.dylib", Image::dylib("libmore.dylib").bytes());
    files.put("app/bin/readme.so", "no library");
    files.put("app/bin/libfor-intel.so", Image { cpu: writer::X86_64, ..Image::new(8, "i") }.bytes());
    let found = files.look("app/bin/bench", &[]);
    found.exits(0);
    assert_eq!(
        found.images(),
        [
            ("libmetal.dylib", "start"),
            ("libbackend-cpu.so", "later"),
            ("libbackend-metal.so", "later"),
            ("libmore.dylib", "later"),
        ]
    );
}

#[test]
fn libraries_beside_that_have_nothing_to_do_with_metal_are_left_alone() {
    let files = installed();
    files.put("app/bin/libother.dylib", Image::dylib("libother.dylib").bytes());
    assert_eq!(files.look("app/bin/bench", &[]).images(), [("libmetal.dylib", "start")]);
}

#[test]
fn a_library_in_the_place_of_a_program_is_listed_with_all_that_it_brings() {
    let files = installed();
    let found = files.look("app/lib/liba.dylib", &[]);
    // Its names are relative to a program that nobody knows.
    found
        .says("program", "warning", "and no program")
        .says("images", "warning", "nothing says where it is")
        .exits(0);
    files.put("app/lib/liba.dylib", Image::dylib("liba.dylib").links("@loader_path/libmetal.dylib").bytes());
    let found = files.look("app/lib/liba.dylib", &[]);
    assert_eq!(found.exits(0).images(), [("liba.dylib", "later"), ("libmetal.dylib", "later")]);
    assert!(!found.has("injection") && !found.has("profile"));
}

#[test]
fn what_is_missing_is_named_unless_it_is_weak() {
    let files = Files::new();
    let mut program = Image::program("bench").links("@rpath/libgone.dylib").rpath("@executable_path");
    files.put("bench", program.bytes());
    let found = files.look("bench", &[]);
    found
        .says("images", "warning", "needs `@rpath/libgone.dylib`")
        .says("images", "warning", "it is not at `")
        .exits(0);
    program.dylibs[1].0 = writer::WEAK;
    files.put("bench", program.bytes());
    let found = files.look("bench", &[]);
    assert_eq!(found.exits(0).line("images")["level"], "ok");
    program.dylibs[1].0 = writer::REEXPORT;
    files.put("bench", program.bytes());
    files.put("libgone.dylib", Image { cpu: ARM64E, ..Image::dylib("libgone.dylib") }.bytes());
    files.look("bench", &[]).says("images", "warning", "has no code for arm64").exits(0);
}

#[test]
fn links_are_followed_to_the_file_and_circles_end() {
    let files = Files::new();
    let program = Image::program("bench").links("@executable_path/liba.dylib");
    files.put("bench", program.bytes());
    let image =
        |own: &str, other: &str| Image::dylib(own).links(METAL).links(&format!("@loader_path/{other}"));
    files.put("liba.1.dylib", image("liba.dylib", "libb.dylib").bytes());
    files.put("libb.dylib", image("libb.dylib", "liba.dylib").bytes());
    std::os::unix::fs::symlink("liba.1.dylib", files.path("liba.dylib")).unwrap();
    let found = files.look("bench", &[]);
    assert_eq!(found.exits(0).images(), [("liba.1.dylib", "start"), ("libb.dylib", "start")]);
}

#[test]
fn an_image_without_a_signature_can_be_in_no_list() {
    let files = installed();
    let unsigned = Image { signing: None, ..Image::dylib("libmetal.dylib").links(METAL) };
    files.put("app/lib/libmetal.dylib", unsigned.bytes());
    files.look("app/bin/bench", &[]).says("images", "failed", "is not signed").exits(3);
}

#[test]
fn a_program_that_links_metal_itself_has_no_image_to_list() {
    let files = Files::new();
    files.put("bench", Image::program("bench").links(METAL).bytes());
    let found = files.look("bench", &[]);
    found.says("images", "ok", "0 of 0 images").says("late images", "ok", "").exits(0);
    assert!(found.images().is_empty() && found.json["profile_lines"].is_null());
    files.put("bench", Image::program("bench").bytes());
    files.look("bench", &[]).says("late images", "warning", "nothing here links Metal").exits(0);
}
