//! Files that are no sound programs, or not to be read: an error and its exit code, never a crash or a wait.

use std::process::Command;

use crate::found::Files;
use crate::support::Run;
use crate::writer::{Image, METAL, entitlements};

fn run(files: &Files, name: &str) -> Run {
    Run::of(files.command().arg(files.path(name)))
}

#[test]
fn attack_a_program_cut_anywhere_is_named_as_malformed() {
    let files = Files::new();
    let whole = Image::program("cut").links(METAL).signed(|s| s.entitlements = Some(entitlements(&["a"])));
    let whole = whole.bytes();
    // What is too short to be anything is no program either.
    for length in (0..whole.len()).step_by(5).chain([whole.len() - 1]) {
        let path = files.put("cut", &whole[..length]);
        let run = run(&files, "cut");
        assert_eq!(run.exit, 4, "{length}: {}{}", run.out, run.err);
        assert!(run.err.starts_with(&format!("error: `{}` ", path.display())), "{length}: {}", run.err);
    }
}

#[test]
fn attack_hostile_entitlements_are_malformed() {
    let files = Files::new();
    let deep = format!("{}{}", "<array>".repeat(100_000), "</array>".repeat(100_000));
    for text in ["", "text", "<plist><array/></plist>", &format!("<plist version=\"1.0\">{deep}</plist>")] {
        let image = Image::program("a").signed(|signing| signing.entitlements = Some(text.to_owned()));
        files.put("program", image.bytes());
        let run = run(&files, "program");
        assert!(run.exit == 4 && run.err.contains("entitlements"), "{} {}", run.exit, run.err);
    }
}

#[test]
fn a_malformed_library_is_named_and_has_the_code_of_a_malformed_binary() {
    let files = Files::new();
    files.put("bench", Image::program("bench").links("@executable_path/liba.dylib").bytes());
    for bytes in [&b"text"[..], &Image::dylib("liba.dylib").bytes()[..100]] {
        files.put("liba.dylib", bytes);
        files.look("bench", &[]).says("images", "failed", "liba.dylib").exits(4);
    }
}

#[test]
fn what_cannot_be_read_has_its_own_code_and_is_not_waited_for() {
    let files = Files::new();
    std::fs::create_dir(files.path("folder")).unwrap();
    assert!(Command::new("mkfifo").arg(files.path("pipe")).status().unwrap().success());
    for (name, why) in [("none", "No such file"), ("folder", "regular file"), ("pipe", "regular file")] {
        let run = run(&files, name);
        assert!(run.exit == 1 && run.err.contains(why), "{name}: {} {}", run.exit, run.err);
    }
    // A pipe in the place of a library.
    files.put("bench", Image::program("bench").links("@executable_path/pipe").bytes());
    files.look("bench", &[]).says("images", "warning", "it is not at").exits(0);
}

#[test]
fn attack_names_in_a_file_do_not_reach_the_terminal_as_they_are() {
    let files = Files::new();
    let name = "@executable_path/\u{1b}[31m\u{202e}lib.dylib";
    files.put("bench", Image::program("bench").links(name).bytes());
    let run = Run::of(crate::support::capgate(&files.path("")).args(["doctor", "./bench"]));
    assert!(run.exit == 0 && run.out.contains("lib.dylib"), "{}", run.out);
    assert!(!run.out.contains('\u{1b}') && !run.out.contains('\u{202e}'), "{:?}", run.out);
}
