//! Help, completions, manual pages, and streams that close early.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::process::{Command, Stdio};

use support::{NOW, World, capgate, run_in};

const COMMANDS: [&str; 43] = [
    "",
    "keygen",
    "key",
    "key show",
    "init",
    "lint",
    "evidence",
    "evidence check",
    "evidence inspect",
    "evidence draft",
    "sign",
    "publish",
    "revoke",
    "renew",
    "verify",
    "list",
    "lookup",
    "explain",
    "probe",
    "record",
    "record show",
    "record diff",
    "install",
    "uninstall",
    "launch-agent",
    "launch-agent write",
    "launch-agent check",
    "launch-agent remove",
    "host",
    "host attest",
    "host verify",
    "witness",
    "witness init",
    "witness serve",
    "witness cosign",
    "witness status",
    "witness ask",
    "policy",
    "policy check",
    "audit",
    "audit list",
    "demo",
    "completions",
];

#[test]
fn every_help_ends_with_an_example_that_is_good_usage() {
    let folder = tempfile::tempdir().unwrap();
    for command in COMMANDS.iter().chain(&["man"]) {
        let help = run_in(folder.path(), &format!("{command} --help")).ok();
        let (_, example) = help.out.split_once("Example:\n").unwrap_or_else(|| panic!("{command}"));
        let example = example.trim();
        assert!(example.starts_with(format!("capgate {command}").trim_end()), "{example}");
        let mut shell = Command::new("sh");
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_capgate")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        shell.env("PATH", path).env("HOME", folder.path()).current_dir(folder.path());
        shell.env("CAPGATE_REGISTRY", "registry").env("CAPGATE_ROOT", format!("sha256:{}", "1".repeat(64)));
        let output = shell.args(["-c", example]).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        // Most name files that are not here; none is wrong usage.
        assert!(!err.contains("Usage:") && !err.contains("invalid value"), "{example}\n{err}");
    }
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let run = run_in(folder.path(), "nope");
    assert_eq!((run.exit, run.out.as_str()), (2, ""));
    assert!(run.err.starts_with("error: unrecognized subcommand 'nope'\n"), "{}", run.err);
    let root = run_in(folder.path(), "list --registry r --root 00");
    root.fails(
        2,
        "error: invalid value '00' for '--root <sha256:HEX>': write it as `sha256:` and 64 hexadecimal digits\n\n\
         For more information, try '--help'.\n",
    );
}

#[test]
fn completions_and_manual_pages_are_made() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(run_in(folder.path(), &format!("completions {shell}")).ok().out.contains("capgate"));
    }
    let wrong = run_in(folder.path(), "completions nosh");
    assert_eq!(wrong.exit, 2);
    assert!(wrong.err.starts_with("error: invalid value 'nosh' for '<SHELL>'\n"), "{}", wrong.err);
    run_in(folder.path(), "man man/man1").ok();
    let pages = std::fs::read_dir(folder.path().join("man/man1")).unwrap().count();
    assert!(pages >= COMMANDS.len(), "{pages}");
    run_in(folder.path(), "man /dev/null/x")
        .fails(1, "error: `/dev/null/x` cannot be written: Not a directory (os error 20)\n");
}

#[test]
fn a_reader_that_stops_early_is_no_error_and_changes_no_exit_code() {
    let world = World::published();
    world.facts("unknown.toml", support::B10167, &[("host_chip", None)]);
    for (args, exit) in
        [(vec!["list", "--now", NOW], 0), (vec!["lookup", "--facts", "unknown.toml", "--now", NOW], 3)]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = world.command().args(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(exit));
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!err.contains("error") && !err.contains("panic"), "{err}");
    }
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let world = World::published();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = world.command().args(["list", "--now", NOW]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("error: the result could not be written: "));
}

#[test]
fn colour_is_only_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command: Command = capgate(folder.path());
        String::from_utf8(command.env_remove("NO_COLOR").args(args).output().unwrap().stderr).unwrap()
    };
    assert!(!run(&["lint", "nodir"]).contains('\u{1b}'));
    assert!(run(&["--color", "always", "lint", "nodir"]).contains('\u{1b}'));
    assert!(!run(&["--color", "never", "lint", "nodir"]).contains('\u{1b}'));
}
