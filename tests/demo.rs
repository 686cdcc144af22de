//! The demonstration, and the same by hand.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::run_in;

#[test]
fn it_ends_with_one_grant_and_at_least_four_different_refusals() {
    let folder = tempfile::tempdir().unwrap();
    let run = run_in(folder.path(), "demo --format json").ok().json();
    let steps = run["steps"].as_array().unwrap();
    let outcomes: Vec<&str> = steps.iter().filter_map(|step| step["outcome"].as_str()).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == "grant").count(), 1);
    let mut refusals: Vec<&str> = outcomes.into_iter().filter(|outcome| *outcome != "grant").collect();
    refusals.dedup();
    assert!(refusals.len() >= 4, "{refusals:?}");
    assert!(folder.path().join("capgate-demo/decisions.jsonl").exists());
    // What a demonstration made, another may make again.
    run_in(folder.path(), "demo").ok();
}

#[test]
fn a_folder_that_it_did_not_make_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("mine")).unwrap();
    fs::write(folder.path().join("mine/root.key"), "precious").unwrap();
    run_in(folder.path(), "demo --keep mine").fails(
        1,
        "error: the folder `mine` is not empty, and no demonstration made it\n\
         help: name another one with `--keep DIR`\n",
    );
    assert_eq!(fs::read_to_string(folder.path().join("mine/root.key")).unwrap(), "precious");
}

/// The printed lines, typed into a shell in a folder with nothing but the profiles, facts and policy, end as shown.
#[test]
fn its_lines_can_be_typed_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run_in(folder.path(), "demo --keep 'by the demo'").ok().out;
    let lines: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(lines.len() > 15, "{shown}");
    let hand = tempfile::tempdir().unwrap();
    for name in ["profiles.d", "facts", "site.toml"] {
        copy(&folder.path().join("by the demo").join(name), &hand.path().join("by the demo").join(name));
    }
    let mut script = String::new();
    for line in &lines {
        script += &format!("{line}\necho \"@@ $?\"\n");
    }
    let mut shell = Command::new("sh");
    for name in ["CAPGATE_DISABLE", "CAPGATE_PROFILES", "CAPGATE_REGISTRY", "CAPGATE_ROOT"] {
        shell.env_remove(name);
    }
    let output = shell.arg("-c").arg(script).current_dir(hand.path()).output().unwrap();
    let by_hand = String::from_utf8(output.stdout).unwrap();
    assert_eq!(outcomes(&by_hand), outcomes(&shown), "{by_hand}{}", String::from_utf8_lossy(&output.stderr));
    let exits: Vec<&str> = by_hand.lines().filter_map(|line| line.strip_prefix("@@ ")).collect();
    let wanted: Vec<String> = run_in(folder.path(), "demo --keep again --format json").ok().json()["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["exit"].to_string())
        .collect();
    // Before the first command stand the lines that set up the shell.
    assert_eq!(exits[exits.len() - wanted.len()..], wanted);
}

/// Lines that say how a lookup ended.
fn outcomes(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("grant:") || line.starts_with("stock:")).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}
