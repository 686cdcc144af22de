//! The C interface, from C programs that link the library of the prefix.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::built::{built, compile};
use crate::guest::{Guest, Plan, Ran};

/// Compiles a program against the library in the guest's own prefix.
fn program(guest: &Guest, name: &str, options: &str) -> PathBuf {
    let lib = guest.prefix().join("lib");
    let sources: Vec<&str> = options.split(' ').filter(|word| word.ends_with(".c")).collect();
    let options: Vec<&str> = options.split(' ').filter(|word| !word.ends_with(".c")).collect();
    let metal = built().metal.parent().unwrap().display();
    let link = format!(
        "-Wextra -Iinclude {} SOURCES -L{1} -lcapgate -Wl,-rpath,{1} -L{metal} -lMetal -Wl,-rpath,{metal} -lobjc \
         -lpthread",
        options.join(" "),
        lib.display()
    );
    compile(&guest.folder.join(name), &sources, &link)
}

fn run(guest: &Guest, program: &Path, word: &str) -> Ran {
    // The library is linked, not inserted.
    guest.finish(guest.command_with(program, "").arg(word))
}

#[test]
fn every_call_is_safe_with_anything_and_says_what_was_decided() {
    let guest = Plan::default().make();
    let abi = program(&guest, "abi", "tests/metal/abi.c");
    let ran = run(&guest, &abi, &guest.prefix().display().to_string());
    assert_eq!(ran.out, "1  tested 1009 65536\ndevice 1 1 65536\nother device 0 0 32768\n", "{ran:?}");
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let found: Vec<_> =
        ran.log.iter().map(|line| (line["stage"].as_str(), line["outcome"].as_str())).collect();
    let expected = [("start", "grant"), ("device", "grant"), ("device", "stock"), ("start", "grant")];
    assert_eq!(found, expected.map(|(stage, outcome)| (Some(stage), Some(outcome))));
}

#[test]
fn a_refusal_names_its_reason() {
    let guest = Plan { statement: None, ..Plan::default() }.make();
    let abi = program(&guest, "abi", "tests/metal/abi.c");
    let ran = run(&guest, &abi, &guest.prefix().display().to_string());
    let expected = "0 host-missing  0 0\ndevice 0 0 32768\nother device 0 0 32768\n";
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), expected), "{ran:?}");
}

#[test]
fn the_example_in_the_docs_changes_both_answers_or_none() {
    let guest = Plan::default().make();
    let options = format!(
        "-DPREFIX=\"{}\" -Itests/metal -Wno-cast-function-type docs/examples/other-shim.c tests/metal/other.c",
        guest.prefix().display()
    );
    let other = program(&guest, "other", &options);
    let ran = run(&guest, &other, "AppleParavirtDevice");
    assert_eq!(ran.out, "AppleParavirtDevice 1001,1005,1007,1009,2002,3003, 65536\n", "{ran:?}");
    assert_eq!(ran.log.len(), 2);
    // Another device below the same class is refused.
    let ran = run(&guest, &other, "LargeDevice");
    assert_eq!(ran.out, "LargeDevice 1001,1005,2002,3003, 131072\n", "{ran:?}");
    // Without a grant nothing is even replaced.
    std::fs::remove_file(guest.state("host.note")).unwrap();
    let ran = run(&guest, &other, "AppleParavirtDevice");
    assert_eq!(ran.out, "AppleParavirtDevice 1001,1005,2002,3003, 32768\n", "{ran:?}");
}

#[test]
fn the_header_compiles_by_itself_as_c_and_as_cpp() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/capgate.h");
    for (language, standard) in [("c", "c99"), ("c", "c17"), ("c++", "c++17")] {
        let mut command = Command::new("gcc");
        command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic", "-x", language]);
        let output = command.arg(format!("-std={standard}")).arg(&header).output().unwrap();
        assert!(output.status.success(), "{language}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_library_exports_the_header_and_nothing_else() {
    let header = include_str!("../../include/capgate.h");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&built().library).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let exported: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(exported.len(), 13, "{exported:?}");
    for name in exported {
        assert!(name.starts_with("capgate_") && header.contains(&format!("{name}(")), "{name}");
    }
}
