//! Without a network: cosign a copy, add the line, demand it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::support::{B10167, B10359, NOW, ORIGIN, World};
use crate::{KEYS, cosigned, witness};

fn policy(keys: &[&str], threshold: usize) -> String {
    let keys = keys.join("\", \"");
    format!(
        "schema = \"1.0.0\"\nmode = \"enforce\"\nwitness_keys = [\"{keys}\"]\nwitness_threshold = {threshold}\n"
    )
}

fn add(world: &World, file: &str, key: &str) -> crate::support::Run {
    world.run(&format!("witness ask --lines {file} --witness-key {key} --now {NOW}"))
}

#[test]
fn a_site_that_demands_witnesses_grants_once_enough_have_cosigned() {
    let world = World::published();
    world.facts("tested.toml", B10167, &[]);
    let (one, two) = (witness(&world, "one"), witness(&world, "two"));
    let reason = |policy: &str| {
        let line = format!("lookup --now {NOW} --facts tested.toml --policy {policy} --format json");
        world.run(&line).json()["reason"].clone()
    };
    world.put("both.toml", &policy(&[&one, &two], 2));
    world.put("either.toml", &policy(&[&one, &two], 1));
    assert_eq!(
        (reason("both.toml"), reason("either.toml")),
        ("registry-unwitnessed".into(), "registry-unwitnessed".into())
    );
    let lines = cosigned(&world, "registry", "one");
    // A line of a witness that nobody named is not taken.
    let refused = add(&world, &lines, &two);
    assert!(refused.exit == 4 && refused.err.contains("holds no cosignature"), "{}", refused.err);
    let added = add(&world, &lines, &one).ok();
    assert_eq!(added.out, "cosigned by one.test: 3 entries, 1 new line\n");
    assert_eq!(
        (reason("both.toml"), reason("either.toml")),
        ("registry-unwitnessed".into(), serde_json::Value::Null)
    );
    // The same witness again is still one.
    let again = cosigned(&world, "registry", "one");
    add(&world, &again, &one).ok();
    assert_eq!(reason("both.toml"), "registry-unwitnessed");
    let lines = cosigned(&world, "registry", "two");
    add(&world, &lines, &two).ok();
    assert_eq!(reason("both.toml"), serde_json::Value::Null);
    // Whoever demands nothing notices nothing, and the registry is sound.
    let verified = world.run(&format!("verify registry --now {NOW}")).ok().out;
    assert!(verified.contains("no fault") && verified.contains("`one.test`, `two.test`"), "{verified}");

    // A renewal adds nothing to the log, so what was said of it holds; a new entry is another matter.
    world.run(&format!("renew --registry-key registry.key --now {NOW}")).ok();
    assert_eq!(reason("both.toml"), serde_json::Value::Null);
    world.run(&format!("revoke {B10359} --reason test --severity withdrawn {KEYS} --now {NOW}")).ok();
    assert_eq!(reason("both.toml"), "registry-unwitnessed");
}

#[test]
fn a_proof_carries_the_cosignatures_that_its_registry_has() {
    let world = World::published();
    world.facts("tested.toml", B10167, &[]);
    let one = witness(&world, "one");
    world.put("site.toml", &policy(&[&one], 1));
    let asked = |proof: &str| {
        world.run(&format!("proof {B10167} --out {proof} --now {NOW}")).ok();
        let line = format!(
            "lookup --registry {proof} --now {NOW} --facts tested.toml --policy site.toml --format json"
        );
        world.run(&line).json()["reason"].clone()
    };
    assert_eq!(asked("bare.proof"), "registry-unwitnessed");
    let lines = cosigned(&world, "registry", "one");
    add(&world, &lines, &one).ok();
    assert_eq!(asked("witnessed.proof"), serde_json::Value::Null);
}

#[test]
fn copies_carry_cosignatures_also_those_that_come_later() {
    let world = World::published();
    let one = witness(&world, "one");
    let sync = |rest: &str| world.run(&format!("sync registry --to mirror --now {NOW} {rest}")).ok();
    sync("");
    let lines = cosigned(&world, "mirror", "one");
    add(&world, &lines, &one).ok();
    assert!(world.read("registry/log/checkpoint").contains("one.test"));
    assert!(!world.read("mirror/log/checkpoint").contains("one.test"));
    assert!(sync("").out.starts_with("nothing new: "));
    assert_eq!(world.read("registry/log/checkpoint"), world.read("mirror/log/checkpoint"));
    // A source that lost them takes none away.
    let bare: String = world
        .read("registry/log/checkpoint")
        .lines()
        .filter(|l| !l.contains("one.test"))
        .fold(String::new(), |a, l| a + l + "\n");
    world.put("registry/log/checkpoint", &bare);
    sync("");
    assert!(world.read("mirror/log/checkpoint").contains("one.test"));
}

#[test]
fn a_witness_follows_a_log_and_never_goes_back_or_aside() {
    let world = World::new();
    witness(&world, "one");
    let cosign = |registry: &str| {
        world.run(&format!("witness cosign {registry} --state one --key one.key --now {NOW} --format json"))
    };
    assert_eq!(cosign("registry").ok().json()["size"], 0);
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    copy(&world, "registry", "old");
    copy(&world, "registry", "other");
    assert_eq!(cosign("registry").ok().json()["size"], 1);
    world.run(&format!("publish {B10359} {KEYS} --now {NOW}")).ok();
    assert_eq!(cosign("registry").ok().json()["size"], 2);
    let old = cosign("old");
    assert!(
        old.exit == 4 && old.err.contains("the old size 2 is larger than the checkpoint's 1"),
        "{}",
        old.err
    );
    // The log's key signs another history.
    world
        .run(&format!(
            "revoke {B10167} --reason test --severity withdrawn --registry other {KEYS} --now {NOW}"
        ))
        .ok();
    let split = cosign("other");
    assert!(split.exit == 4 && split.err.contains("signed two trees of 2 entries"), "{}", split.err);
    world.run(&format!("publish {B10359} --registry other {KEYS} --now {NOW}")).ok();
    let longer = cosign("other");
    assert!(longer.exit == 4 && longer.err.contains("does not continue the 2 entries"), "{}", longer.err);
    // What it holds is still the first history, and both checkpoints are kept.
    let status = world.run("witness status --state one --format json");
    assert_eq!(status.exit, 4);
    let json = status.json();
    assert_eq!((&json["logs"][0]["origin"], &json["logs"][0]["size"]), (&ORIGIN.into(), &2.into()));
    let files: Vec<&str> =
        json["evidence"].as_array().unwrap().iter().map(|e| e["file"].as_str().unwrap()).collect();
    assert_eq!(files.len(), 2);
    let kept: Vec<String> = files.iter().map(|file| world.read(file)).collect();
    let ours = world.read("registry/log/checkpoint");
    assert!(
        kept.contains(&ours) && kept.iter().all(|text| text.starts_with(&format!("{ORIGIN}\n2\n"))),
        "{kept:?}"
    );
}

#[test]
fn a_memory_that_is_missing_damaged_in_use_or_anothers_signs_nothing() {
    let world = World::published();
    witness(&world, "one");
    witness(&world, "two");
    let cosign = |state: &str, key: &str| {
        world.run(&format!("witness cosign registry --state {state} --key {key} --now {NOW}"))
    };
    let missing = cosign("nowhere", "one.key");
    assert!(missing.exit == 1 && missing.err.contains("capgate witness init"), "{}", missing.err);
    let foreign = cosign("two", "one.key");
    assert!(foreign.exit == 4 && foreign.err.contains("not of this key"), "{}", foreign.err);
    let foreign = world.run("witness init --state two --key one.key");
    assert!(foreign.exit == 4 && foreign.err.contains("not of this key"), "{}", foreign.err);
    cosign("one", "one.key").ok();
    let again = world.run("witness init --state one --key one.key").ok();
    assert!(again.out.starts_with("one.test+"));
    let log = fs::read_dir(world.path("one/logs")).unwrap().next().unwrap().unwrap().path();
    fs::write(&log, "damaged").unwrap();
    let damaged = cosign("one", "one.key");
    assert!(
        damaged.exit == 1 && damaged.out.is_empty() && damaged.err.contains("is damaged"),
        "{}{}",
        damaged.out,
        damaged.err
    );
    fs::write(&log, "").unwrap();
    assert_eq!(cosign("one", "one.key").exit, 1);
}

fn copy(world: &World, from: &str, to: &str) {
    let status =
        std::process::Command::new("cp").arg("-r").arg(world.path(from)).arg(world.path(to)).status();
    assert!(status.unwrap().success());
}

/// What an older registry key signs once it is taken out: another entry behind what was cosigned.
fn thief_of(world: &World) {
    let copied = Command::new("cp").args(["-r", "registry", "thief"]).current_dir(world.path("")).status();
    assert!(copied.unwrap().success());
    world.run(&format!("publish {B10359} --registry thief {KEYS} --now {NOW}")).ok();
}

/// Takes the registry key out in favour of a new one, in `registry-2.key`.
fn rotate(world: &World) {
    let now = format!("--now {NOW}");
    let next = world.run(&format!("keygen {ORIGIN} --out registry-2.key")).ok().out;
    let old = world.run(&format!("trust show --format json {now}")).ok().json();
    let old = old["roles"][2]["keys"][0].as_str().unwrap().to_owned();
    for line in [
        format!("trust add-key registry {} {now}", next.trim()),
        format!("trust remove-key {old} {now}"),
        format!("trust sign trust-next.note --key root.key {now}"),
        format!("trust rotate trust-next.note --registry-key registry-2.key {now}"),
    ] {
        world.run(&line).ok();
    }
}

#[test]
fn attack_a_registry_key_that_was_taken_out_gets_no_cosignature() {
    let world = World::new();
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    witness(&world, "one");
    cosigned(&world, "registry", "one");
    thief_of(&world);
    rotate(&world);
    let cosign = |registry: &str, now: &str| {
        world.run(&format!("witness cosign {registry} --state one --key one.key --now {now}"))
    };
    let held = |world: &World| world.run("witness status --state one --format json").ok().json();
    let before = held(&world);
    let refused = "thief: trust version 1 signs it, and version 2 is there already";
    fs::copy(world.path("registry/trust/2.note"), world.path("thief/trust/2.note")).unwrap();
    let run = cosign("thief", NOW);
    assert!(run.exit == 4 && run.err.contains(refused), "{}", run.err);
    // What was met once is remembered, whatever is shown next.
    fs::remove_file(world.path("thief/trust/2.note")).unwrap();
    let run = cosign("thief", NOW);
    assert!(run.exit == 4 && run.err.contains(refused), "{}", run.err);
    assert_eq!(held(&world), before);
    cosign("registry", NOW).ok();
}

#[test]
fn what_has_expired_is_not_cosigned() {
    let world = World::published();
    witness(&world, "one");
    let run = world.run("witness cosign registry --state one --key one.key --now 2027-03-01T00:00:00Z");
    assert!(run.exit == 4 && run.err.contains("expired"), "{}", run.err);
    assert_eq!(run.out, "");
}

/// Whoever was killed between the rename and the sync of its folder left what the disk may not hold.
#[test]
fn what_is_held_already_is_written_down_again_before_it_is_cosigned_again() {
    let world = World::published();
    witness(&world, "one");
    let inode = || {
        let [file] =
            &fs::read_dir(world.path("one/logs")).unwrap().map(Result::unwrap).collect::<Vec<_>>()[..]
        else {
            panic!("one log")
        };
        file.metadata().unwrap().ino()
    };
    cosigned(&world, "registry", "one");
    let first = inode();
    cosigned(&world, "registry", "one");
    assert_ne!(inode(), first);
}
