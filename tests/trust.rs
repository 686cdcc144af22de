//! `capgate trust`: the offline way from one version of the trust to the next, with real key files and copies of drafts.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;

use support::{B10167, B10359, NOW, ORIGIN, World, run_in};

const PUBLISH: &str = "--key alice.key --registry-key registry.key";

fn published() -> World {
    let world = World::new();
    world.run(&format!("publish {B10167} {PUBLISH} --now {NOW}")).ok();
    world
}

fn public(world: &World, name: &str, file: &str) -> String {
    world.run(&format!("keygen {name} --out {file}")).ok().out.trim().to_owned()
}

fn line_of(text: &str, start: &str) -> String {
    text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn each_key_holder_signs_on_their_own_machine_and_the_last_one_publishes() {
    let world = published();
    let bob = public(&world, "bob.test", "bob.key");
    let second = public(&world, "root-b.test", "root-b.key");
    let next_registry = public(&world, ORIGIN, "registry-2.key");
    let now = format!("--now {NOW}");
    world.run(&format!("trust add-key publisher {bob} --threshold-publisher 2 {now}")).ok();
    world.run(&format!("trust add-key root {second} --threshold-root 2 {now}")).ok();
    world.run(&format!("trust add-key registry {next_registry} {now}")).ok();
    let old_registry = world.run(&format!("trust show --format json {now}")).ok().json();
    let old_registry = old_registry["roles"][2]["keys"][0].as_str().unwrap().to_owned();
    let edited = world.run(&format!("trust remove-key {old_registry} {now}")).ok();
    assert!(
        edited.out.starts_with("version 2 in `trust-next.note`, from log index 1 on:\n"),
        "{}",
        edited.out
    );
    for change in [
        format!("  root: + {second}"),
        "  root: 2 must sign instead of 1".into(),
        format!("  publisher: + {bob}"),
        "  publisher: 2 must sign instead of 1".into(),
        format!("  registry: + {next_registry}"),
        format!("  registry: - {old_registry}"),
    ] {
        assert!(edited.out.contains(&change), "{change} in\n{}", edited.out);
    }
    // Two machines, each with one key, the draft and a copy of the folder `trust`.
    let machines = ["one", "two"].map(|name| world.path(name));
    for (machine, key) in machines.iter().zip(["root.key", "root-b.key"]) {
        fs::create_dir_all(machine.join("registry/trust")).unwrap();
        fs::copy(world.path("registry/trust/1.note"), machine.join("registry/trust/1.note")).unwrap();
        fs::copy(world.path("trust-next.note"), machine.join("draft.note")).unwrap();
        fs::rename(world.path(key), machine.join("root.key")).unwrap();
        let line =
            format!("trust sign draft.note --key root.key --registry registry --root {} {now}", world.root);
        let signed = run_in(machine, &line).ok();
        assert!(signed.out.contains("signed for version 2: 1 of 2"), "{}", signed.out);
    }
    let copies = ["one/draft.note", "two/draft.note"];
    let rotate =
        |files: &str, key: &str| world.run(&format!("trust rotate {files} --registry-key {key} {now}"));
    rotate("two/draft.note", "registry-2.key").fails(
        4,
        "error: for version 1 it is signed by 0 of 1\nhelp: have it signed by `root.test`: capgate trust sign\n",
    );
    rotate("one/draft.note", "registry-2.key").fails(
        4,
        "error: for version 2 it is signed by 1 of 2 (root.test)\nhelp: have it signed by `root-b.test`: capgate trust sign\n",
    );
    let refused = rotate(&copies.join(" "), "registry.key");
    assert_eq!(refused.exit, 1, "{}", refused.err);
    assert!(refused.err.contains("is no registry key here"), "{}", refused.err);
    let done = rotate(&copies.join(" "), "registry-2.key").ok();
    assert!(done.out.contains("in force: trust version 2, version 3"), "{}", done.out);
    // Given again, it is known to be done.
    let again = rotate(&copies.join(" "), "registry-2.key").ok();
    assert!(again.err.contains("version 2 stands there already"), "{}", again.err);
    world.run(&format!("verify {now}")).ok();
    // Now two publishers must sign, and the new registry key.
    let alone = world.run(&format!("publish {B10359} {PUBLISH} {now}"));
    assert_eq!(alone.exit, 1, "{}", alone.err);
    let both = "--key alice.key --key bob.key --registry-key registry-2.key";
    world.run(&format!("publish {B10359} {both} {now}")).ok();
    world.run(&format!("verify {now}")).ok();
}

#[test]
fn a_compromised_key_loses_what_it_signed_from_the_index_that_is_named() {
    let world = published();
    let now = format!("--now {NOW}");
    world.run(&format!("publish {B10359} {PUBLISH} {now}")).ok();
    let bob = public(&world, "bob.test", "bob.key");
    let refused = world.run(&format!("trust compromised alice.test --from 1 {now}"));
    assert_eq!(refused.exit, 2, "{}", refused.err);
    assert!(refused.err.contains("`publisher` wants 1 signatures of 0 keys"), "{}", refused.err);
    world.run(&format!("trust add-key publisher {bob} {now}")).ok();
    let edited = world.run(&format!("trust compromised alice.test --from 1 {now}")).ok();
    assert!(edited.err.contains("1 entry that `alice.test` signed from log index 1 on"), "{}", edited.err);
    world.run(&format!("trust sign trust-next.note --key root.key {now}")).ok();
    world.run(&format!("trust rotate trust-next.note --registry-key registry.key {now}")).ok();
    let listed = world.run(&format!("list {now}")).ok().out;
    assert!(listed.contains(B10167) && !listed.contains(B10359), "{listed}");
    let verified = world.run(&format!("verify {now}")).ok().out;
    assert!(
        verified.contains("entry 1 counts no longer: `alice.test` signed it, which is compromised"),
        "{verified}"
    );
    let shown = world.run(&format!("trust show {now}")).ok().out;
    assert_eq!(line_of(&shown, "compromised"), "compromised from log index 1 on:");
    // The other publisher vouches for the same profile.
    world.run(&format!("publish {B10359} --key bob.key --registry-key registry.key {now}")).ok();
    assert!(world.run(&format!("list {now}")).ok().out.contains(B10359));
    world.run(&format!("verify {now}")).ok();
}

#[test]
fn a_draft_that_others_changed_or_that_is_late_is_refused() {
    let world = published();
    let now = format!("--now {NOW}");
    let sign = || world.run(&format!("trust sign trust-next.note --key root.key {now}"));
    let missing = sign();
    assert_eq!(missing.exit, 1);
    assert!(missing.err.contains("help: `capgate trust draft` begins the next version"), "{}", missing.err);
    world.run(&format!("trust draft {now}")).ok();
    let text = world.read("trust-next.note");
    for (damage, says) in [
        (text.replace("version = 2", "version = 3"), "is version 3, and the next version is 2"),
        (text.replace("threshold = 1", "threshold = 0"), "is malformed: line 8"),
        (text.replace("trust v1", "profile v1"), "is no version of this trust"),
        (text.replace(ORIGIN, "another.test/gpu"), "is no version of this trust"),
        (text.replace('\n', "\r\n"), "is no draft"),
        (String::new(), "is no draft"),
    ] {
        world.put("trust-next.note", &damage);
        let refused = sign();
        assert_eq!(refused.exit, 4, "{says}: {}", refused.err);
        assert!(refused.err.contains(says), "{says}: {}", refused.err);
    }
    world.put("trust-next.note", &text);
    sign().ok();
    assert!(sign().ok().err.contains("`root.test` has signed it already"));
    let stranger = world.run(&format!("trust sign trust-next.note --key alice.key {now}"));
    assert!(stranger.err.contains("is no root key here"), "{}", stranger.err);
    // An edit drops the signature and says so.
    let edited = world.run(&format!("trust draft --days 30 {now}")).ok();
    assert!(edited.err.contains("the signatures that it had are gone"), "{}", edited.err);
    let unsigned = world.run(&format!("trust rotate trust-next.note --registry-key registry.key {now}"));
    assert_eq!(unsigned.exit, 4, "{}", unsigned.err);
    // 30 days ahead every command that meets the registry says so, and which command is to be run.
    sign().ok();
    world.run(&format!("trust rotate trust-next.note --registry-key registry.key {now}")).ok();
    let told = world.run("list --now 2026-12-02T00:00:00Z").ok().err;
    assert!(told.contains("trust version 2 ends 2026-12-31T00:00:00Z; its root keys should sign"), "{told}");
    assert!(told.contains("`capgate trust draft`"), "{told}");
}

#[test]
fn keys_are_named_exactly() {
    let world = published();
    let now = format!("--now {NOW}");
    world.run(&format!("trust remove-key nobody.test {now}")).fails(
        2,
        &format!(
            "error: no key is named `nobody.test`\nhelp: the keys are `root.test`, `alice.test`, `{ORIGIN}`\n"
        ),
    );
    let twice = world.run(&format!("trust add-key publisher root.key {now}"));
    twice.fails(2, "error: the key `root.test` stands under `root` already\n");
    let none = world.run(&format!("trust remove-key alice.test {now}"));
    assert_eq!(none.exit, 2);
    assert!(none.err.contains("`--threshold-publisher`"), "{}", none.err);
    assert!(!world.path("trust-next.note").exists(), "nothing is written by an edit that is refused");
}

#[test]
fn what_a_compromised_key_takes_along_and_brings_back_is_listed() {
    let world = World::new();
    let now = format!("--now {NOW}");
    let keys = "--registry-key registry.key";
    world.run(&format!("publish {B10167} --key alice.key {keys} {now}")).ok();
    // Bob supersedes it, and revokes another one.
    let bob = world.run("keygen bob.test --out bob.key").ok().out;
    world.run(&format!("trust add-key publisher {} {now}", bob.trim())).ok();
    world.run(&format!("trust sign trust-next.note --key root.key {now}")).ok();
    world.run(&format!("trust rotate trust-next.note {keys} {now}")).ok();
    std::fs::remove_file(world.path("trust-next.note")).unwrap();
    let text = world.read(&format!("profiles.d/{B10167}.toml"));
    let next = format!("id = \"next-one\"\nsupersedes = \"{B10167}\"");
    std::fs::create_dir(world.path("next")).unwrap();
    world.put("next/next-one.toml", &text.replace(&format!("id = \"{B10167}\""), &next));
    world.run(&format!("publish --all --profiles next --key bob.key {keys} {now}")).ok();
    world.run(&format!("publish {B10359} --key alice.key {keys} {now}")).ok();
    world.run(&format!("revoke {B10359} --reason wrong --severity harmful --key bob.key {keys} {now}")).ok();
    let named = world.run(&format!("trust compromised bob.test --from 0 {now}")).ok();
    assert!(
        named.err.contains("hint: 2 entries that `bob.test` signed from log index 0 on\n"),
        "{}",
        named.err
    );
    let lost = "warning: `next-one` will be in force no longer\n";
    let back = format!("warning: `{B10167}` will be in force again: what superseded it counts no longer\n");
    assert!(named.err.contains(lost) && named.err.contains(&back), "{}", named.err);
    assert!(!named.err.contains(B10359), "what was revoked stays so: {}", named.err);
    std::fs::remove_file(world.path("trust-next.note")).unwrap();
    let json = world.run(&format!("trust compromised bob.test --from 0 {now} --format json")).ok().json();
    assert_eq!((&json["lost"][0], &json["back"][0]), (&"next-one".into(), &B10167.into()));
    world.run(&format!("trust sign trust-next.note --key root.key {now}")).ok();
    world.run(&format!("trust rotate trust-next.note {keys} {now}")).ok();
    let listed = world.run(&format!("list {now}")).ok().out;
    assert!(listed.contains(B10167) && !listed.contains("next-one") && !listed.contains(B10359), "{listed}");
}
