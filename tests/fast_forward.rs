//! A thief of the registry key signs the last version that there is; the commands say what to do, and it works.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;

use capgate_registry::keys::SigningKey;
use capgate_registry::latest::{LAST_VERSION, Latest};
use capgate_registry::note::{self, Kind, Note, Origin};
use support::{B10167, B10359, NOW, ORIGIN, Run, World, words};

const KEYS: &str = "--key alice.key --registry-key registry.key";

/// Signs what is in force in a folder again, changed.
fn sign_as(world: &World, folder: &str, change: impl FnOnce(&mut Latest)) {
    let origin = Origin::parse(ORIGIN).unwrap();
    let path = format!("{folder}/snapshot/latest.note");
    let text = Note::parse(world.read(&path).as_bytes()).unwrap().text().to_owned();
    let before = Latest::parse(note::body(&text, Kind::Latest, &origin).unwrap().as_bytes()).unwrap();
    let mut forged = before.clone();
    change(&mut forged);
    let file = |latest: &Latest| world.path(&format!("{folder}/{}", latest.snapshot_path()));
    if file(&before) != file(&forged) {
        fs::copy(file(&before), file(&forged)).unwrap();
    }
    let key = SigningKey::parse(world.read("registry.key").trim()).unwrap();
    let text = note::compose(Kind::Latest, &origin, &forged.to_toml()).unwrap();
    fs::write(world.path(&path), note::sign(&text, &[&key]).unwrap()).unwrap();
}

/// A signed draft that has another registry key.
fn draft_without_the_key(world: &World) {
    let run = |line: &str| world.run(&format!("{line} --now {NOW}"));
    let key = world.run(&format!("keygen {ORIGIN} --out new.key")).ok().out;
    let old = world.run("key show registry.key").ok().out;
    let old = old.split_whitespace().find(|word| word.starts_with(ORIGIN)).unwrap().to_owned();
    run(&format!("trust add-key registry {}", key.trim())).ok();
    run(&format!("trust remove-key {old}")).ok();
    run("trust sign trust-next.note --key root.key").ok();
}

#[test]
fn attack_the_last_version_is_recovered_from_by_taking_the_key_out() {
    let world = World::new();
    let home = world.path("home");
    fs::create_dir(&home).unwrap();
    // What was published is remembered, too.
    let run =
        |line: &str| Run::of(world.command().env("HOME", &home).args(words(&format!("{line} --now {NOW}"))));
    run(&format!("publish {B10167} {KEYS} --to public")).ok();
    sign_as(&world, "public", |latest| latest.version = LAST_VERSION);
    run("sync public --to mirror").ok();
    let stuck = run(&format!("publish {B10359} {KEYS} --to public"));
    assert_eq!(stuck.exit, 4, "{}", stuck.err);
    let said = format!("error: version {LAST_VERSION} is the last that there can be");
    assert!(stuck.err.contains(&said) && stuck.err.contains("capgate trust remove-key"), "{}", stuck.err);

    draft_without_the_key(&world);
    let rotated = run("trust rotate trust-next.note --registry-key new.key --to public").ok();
    assert!(rotated.out.contains("in force: trust version 2, version 1,"), "{}", rotated.out);
    run(&format!("publish {B10359} --key alice.key --registry-key new.key --to public")).ok();
    // Whoever followed the thief goes on, and whoever publishes is not taken for a restored backup.
    let followed = run("sync public --to mirror").ok();
    assert!(followed.out.contains("version 2"), "{}", followed.out);
    for folder in ["public", "registry", "mirror"] {
        run(&format!("verify {folder}")).ok();
    }
}

#[test]
fn attack_a_place_that_nobody_believes_is_put_right_from_the_folder() {
    let world = World::new();
    let run = |line: &str| world.run(&format!("{line} --now {NOW}"));
    run(&format!("publish {B10167} {KEYS} --to public")).ok();
    run("sync public --to mirror").ok();
    sign_as(&world, "public", |latest| {
        latest.version += 1;
        (latest.issued, latest.expires) =
            ("2098-01-01T00:00:00Z".parse().unwrap(), "2099-01-01T00:00:00Z".parse().unwrap());
    });
    let followed = run("sync public --to mirror");
    assert!(followed.exit != 0 && followed.err.contains("the clock is behind"), "{}", followed.err);
    let stuck = run(&format!("publish {B10359} {KEYS} --to public"));
    assert!(stuck.exit != 0 && stuck.err.contains("the clock is behind"), "{}", stuck.err);
    draft_without_the_key(&world);
    fs::rename(world.path("public"), world.path("evidence")).unwrap();
    fs::create_dir(world.path("public")).unwrap();
    run("trust rotate trust-next.note --registry-key new.key --to public").ok();
    run(&format!("publish {B10359} --key alice.key --registry-key new.key --to public")).ok();
    run("sync public --to mirror").ok();
    for folder in ["public", "registry", "mirror"] {
        run(&format!("verify {folder}")).ok();
    }
}
