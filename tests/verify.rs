//! `capgate verify`: a folder, a URL, and what came since.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;

use support::{B10167, NOW, World};

const KEYS: &str = "--key alice.key --registry-key registry.key";

#[test]
fn an_auditor_keeps_a_checkpoint_and_sees_what_came_since() {
    let world = World::new();
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    fs::copy(world.path("registry/log/checkpoint"), world.path("kept")).unwrap();
    world.run(&format!("revoke {B10167} --reason wrong --severity harmful {KEYS} --now {NOW}")).ok();
    let audited = world.run(&format!("verify --since kept --now {NOW}")).ok().out;
    assert!(audited.contains("since entry 1: 1 new entry\n"), "{audited}");
    assert!(audited.contains(&format!("1: revoked {B10167}, signed by alice.test\n")), "{audited}");
    assert!(audited.ends_with("verified since then: no fault; the snapshot was not rebuilt\n"), "{audited}");
    let json = world.run(&format!("verify --since kept --now {NOW} --format json")).ok().json();
    assert_eq!((&json["since"], &json["new"][0]["what"]), (&1.into(), &"revoked".into()));
    world.put("kept", "not a checkpoint");
    let wrong = world.run(&format!("verify --since kept --now {NOW}"));
    assert!(wrong.exit == 4 && wrong.out.contains("fault: `the earlier checkpoint`"), "{}", wrong.out);
    let missing = world.run(&format!("verify --since nowhere --now {NOW}"));
    assert!(missing.exit == 1 && missing.err.contains("kept earlier"), "{}", missing.err);
}

#[test]
fn a_url_is_verified_as_its_folder_is() {
    let world = World::published();
    let url = format!("file://{}", world.path("registry").display());
    let (by_url, by_folder) =
        (world.run(&format!("verify {url} --now {NOW}")), world.run(&format!("verify --now {NOW}")));
    assert_eq!(by_url.ok().out, by_folder.ok().out);
    assert_eq!(world.run("verify gopher://x").exit, 2);
    assert_eq!(world.run("verify nowhere").exit, 1);
}
