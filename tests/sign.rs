//! Profiles that several publishers sign, each on their own, before they are published.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;

use support::{B10167, B10359, NOW, ORIGIN, World, run_in};

const REGISTRY_KEY: &str = "--registry-key registry.key";

/// A registry of three publishers, two of whom must sign.
fn two_of_three() -> World {
    let mut world = World::bare();
    for name in ["bob", "carol", "mallory"] {
        world.run(&format!("keygen {name}.test --out {name}.key")).ok();
    }
    let made = world.run(&format!(
        "init registry --origin {ORIGIN} --root-key root.key --publisher alice.key --publisher bob.key \
         --publisher carol.key --threshold-publisher 2 {REGISTRY_KEY} --now {NOW}"
    ));
    made.ok().out.trim().clone_into(&mut world.root);
    world
}

fn sign(world: &World, file: &str, key: &str, rest: &str) -> support::Run {
    world.run(&format!("sign {file} --key {key} --now {NOW} {rest}"))
}

fn publish(world: &World, what: &str) -> support::Run {
    world.run(&format!("publish {what} {REGISTRY_KEY} --now {NOW}"))
}

fn signers(world: &World, id: &str) -> Vec<String> {
    let listed = world.run(&format!("list --format json --now {NOW}")).ok().json();
    let entries = listed.as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["id"] == id).unwrap();
    entry["signers"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn publishers_sign_apart_and_what_enough_have_signed_is_published() {
    let world = two_of_three();
    let toml = format!("profiles.d/{B10167}.toml");
    let note = format!("{B10167}.note");
    let first = sign(&world, &toml, "alice.key", "").ok();
    assert_eq!(
        first.out,
        format!(
            "{B10167} in {ORIGIN}: 1009 / 65536\n  llama-bench b10167, Tahoe guest on an M1 Ultra: 7 to 16 times as fast as stock\n  \
             Apple M1 Ultra, macOS 26.6.1 (25G76); guest: macOS 26.5.2 (25F84)\n  llama-bench b10167 \
             sha256:28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7\n\
             signed: 1 of 2 (alice.test), in {note}\n"
        )
    );
    assert_eq!(
        first.err,
        format!("hint: give the file to `bob.test` or `carol.test`: capgate sign {note} --key KEY-FILE\n")
    );
    let before = world.read("registry/snapshot/latest.note");
    publish(&world, &format!("--note {note}")).fails(
        4,
        &format!(
            "error: `{note}` is signed by 1 of the 2 publishers that must sign it: alice.test\n\
             help: 1 more of `bob.test`, `carol.test` must sign it: capgate sign {note} --key KEY-FILE\n"
        ),
    );
    assert_eq!(world.read("registry/snapshot/latest.note"), before);
    // Another machine has the note, a key, and of the registry the trust alone.
    let machine = world.path("two");
    fs::create_dir_all(machine.join("registry/trust")).unwrap();
    fs::copy(world.path("registry/trust/1.note"), machine.join("registry/trust/1.note")).unwrap();
    fs::copy(world.path(&note), machine.join(&note)).unwrap();
    fs::copy(world.path("bob.key"), machine.join("bob.key")).unwrap();
    let line = format!(
        "--format json sign {note} --key bob.key --registry registry --root {} --now {NOW}",
        world.root
    );
    let json = run_in(&machine, &line).ok().json();
    assert_eq!(json["signers"], serde_json::json!(["alice.test", "bob.test"]));
    assert_eq!((&json["threshold"], &json["complete"]), (&2.into(), &true.into()));
    assert_eq!((&json["id"], &json["origin"]), (&B10167.into(), &ORIGIN.into()));
    assert!(fs::read_to_string(machine.join(&note)).unwrap().starts_with(&world.read(&note)));
    publish(&world, &format!("--note two/{note}")).ok();
    assert_eq!(signers(&world, B10167), ["alice.test", "bob.test"]);
    let verified = world.run(&format!("verify registry --now {NOW}")).ok();
    assert!(verified.err.is_empty(), "{}", verified.err);
    // Once more changes nothing.
    let again = publish(&world, &format!("--note two/{note}")).ok();
    assert!(again.out.starts_with(&format!("already published {B10167}, with the same content\n")));
}

#[test]
fn copies_that_were_signed_apart_are_put_together() {
    let world = two_of_three();
    let toml = format!("profiles.d/{B10167}.toml");
    sign(&world, &toml, "alice.key", "--out a.note").ok();
    sign(&world, &toml, "carol.key", "--out c.note").ok();
    sign(&world, &format!("profiles.d/{B10359}.toml"), "alice.key --key bob.key", "--out other.note").ok();
    publish(&world, "--note a.note --note other.note --note c.note").ok();
    assert_eq!(signers(&world, B10167), ["alice.test", "carol.test"]);
    assert_eq!(signers(&world, B10359), ["alice.test", "bob.test"]);
}

#[test]
fn a_signature_that_is_there_stays_and_is_not_given_twice() {
    let world = two_of_three();
    let toml = format!("profiles.d/{B10167}.toml");
    sign(&world, &toml, "alice.key", "--out x.note").ok();
    let once = world.read("x.note");
    let again = sign(&world, &toml, "alice.key", "--out x.note").ok();
    assert!(again.err.starts_with("hint: `alice.test` has signed it already\n"), "{}", again.err);
    assert_eq!(world.read("x.note"), once);
    // One key twice is one signature, and one signature.
    publish(&world, "--note x.note --note x.note").fails(
        4,
        "error: `x.note` is signed by 1 of the 2 publishers that must sign it: alice.test\n\
         help: 1 more of `bob.test`, `carol.test` must sign it: capgate sign x.note --key KEY-FILE\n",
    );
    sign(&world, &toml, "bob.key", "--out x.note").ok();
    let both = world.read("x.note");
    assert!(both.starts_with(&once) && both.lines().count() == once.lines().count() + 1);
    // The file holds another profile.
    let other = sign(&world, &format!("profiles.d/{B10359}.toml"), "bob.key", "--out x.note");
    other.fails(
        4,
        &format!(
            "error: `profiles.d/{B10359}.toml` and `x.note` are not the same profile, to the byte\n\
             help: a signature is over one text: begin again from the one that is meant\n"
        ),
    );
    assert_eq!(world.read("x.note"), both);
}

#[test]
fn signatures_that_count_for_nothing_are_refused_or_named() {
    let world = two_of_three();
    let toml = format!("profiles.d/{B10167}.toml");
    let mallory = sign(&world, &toml, "mallory.key", "--out x.note");
    mallory.fails(
        1,
        "error: the key `mallory.test` in `mallory.key` is no publisher key here\n\
         help: the publisher keys are `alice.test`, `bob.test`, `carol.test`\n",
    );
    assert!(!world.path("x.note").exists());
    sign(&world, &toml, "alice.key --key bob.key", "--out x.note").ok();
    let good = world.read("x.note");
    // The text was changed behind the signatures.
    world.put("changed.note", &good.replace("llama-bench b10167, Tahoe", "llama-bench b10167, tahoe"));
    let invalid = "error: `changed.note`: the signature by `alice.test` does not verify: the text, the signature or \
                   the key was changed\nhelp: take that line out of the file, or begin again from the profile\n";
    publish(&world, "--note changed.note").fails(4, invalid);
    sign(&world, "changed.note", "carol.key", "").fails(4, invalid);
    // A line of a key that nobody knows here.
    let stranger = good.lines().last().unwrap().replace("bob.test", "eve.test");
    world.put("stranger.note", &format!("{good}{stranger}\n"));
    let published = publish(&world, "--note stranger.note").ok();
    assert!(
        published.err.starts_with(
            "hint: the signature of `eve.test` in `stranger.note` is of no publisher here: it counts for nothing and is left out\n"
        ),
        "{}",
        published.err
    );
}

#[test]
fn only_notes_of_profiles_of_this_registry_are_published() {
    let world = two_of_three();
    let toml = format!("profiles.d/{B10167}.toml");
    publish(&world, &format!("--note {toml}")).fails(
        4,
        &format!(
            "error: `{toml}` is a profile that nobody has signed\nhelp: capgate sign {toml} --key KEY-FILE\n"
        ),
    );
    publish(&world, "--note registry/trust/1.note").fails(
        4,
        "error: `registry/trust/1.note` is no note of a profile here: the text is a `trust`, a `profile` is needed here\n",
    );
    sign(&world, &toml, "alice.key --key bob.key", "--out x.note").ok();
    world.edit("x.note", ORIGIN, "staging.test/gpu");
    publish(&world, "--note x.note").fails(
        4,
        &format!(
            "error: `x.note` is no note of a profile here: the text belongs to `staging.test/gpu`, not to `{ORIGIN}`\n"
        ),
    );
    // What would not be published is not signed either.
    world.edit(&toml, "verdict = \"override\"", "verdict = \"overide\"");
    let bad = sign(&world, &toml, "alice.key", "--out y.note");
    assert_eq!(bad.exit, 4);
    assert!(bad.err.contains("`verdict` cannot be `overide`"), "{}", bad.err);
    assert!(bad.err.ends_with("error: nothing was signed: 1 problem\n"), "{}", bad.err);
    assert!(!world.path("y.note").exists());
    for usage in
        ["--note x.note --key alice.key", "--note x.note --all", &format!("--note x.note {B10167}"), "--all"]
    {
        assert_eq!(publish(&world, usage).exit, 2, "{usage}");
    }
}

#[test]
fn too_few_keys_for_one_command_name_the_way_to_sign_apart() {
    let world = two_of_three();
    publish(&world, &format!("{B10167} --key alice.key")).fails(
        1,
        "error: 1 of 3 publisher keys are given, 2 must sign\n\
         help: give `--key KEY` once for each, or sign apart: `capgate sign`, then `capgate publish --note`\n",
    );
    world
        .run(&format!(
            "revoke {B10167} --reason x --severity withdrawn --key alice.key {REGISTRY_KEY} --now {NOW}"
        ))
        .fails(
            4,
            &format!(
                "error: `{B10167}` is not in this registry\nhelp: `capgate list` shows what is in force\n"
            ),
        );
}
