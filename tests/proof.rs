//! `capgate proof`, and asking one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use support::{B10167, B10359, NOW, World};

#[test]
fn a_proof_answers_for_its_program_and_for_no_other() {
    let world = World::published();
    let made = world.run(&format!("proof {B10167} --out proof --now {NOW} --format json")).ok().json();
    assert!(made["bytes"].as_u64().unwrap() < 20_000, "{made}");
    world.facts("tested.toml", B10167, &[]);
    world.facts("other.toml", B10359, &[]);
    let lookup = |facts: &str, rest: &str| {
        world.run(&format!("lookup --facts {facts} --registry proof --now {NOW} {rest}"))
    };
    let (asked, whole) = (
        lookup("tested.toml", "").ok().out,
        world.run(&format!("lookup --facts tested.toml --now {NOW}")).ok().out,
    );
    assert_eq!(asked, whole);
    let other = lookup("other.toml", "--format json");
    assert_eq!((other.exit, &other.json()["reason"]), (3, &"registry-unreadable".into()));
    let late = lookup("tested.toml", "--now 2027-06-01T00:00:00Z");
    assert_eq!(late.exit, 2, "the time is given once: {}", late.err);
    let late =
        world.run("lookup --facts tested.toml --registry proof --now 2027-06-01T00:00:00Z --format json");
    assert_eq!((late.exit, &late.json()["reason"]), (3, &"registry-expired".into()));
}

#[test]
fn what_cannot_be_proven_is_said() {
    let world = World::published();
    let proof = |rest: &str| world.run(&format!("proof {rest} --now {NOW}"));
    assert_eq!(proof("nobody-here --out p").exit, 1);
    proof(&format!("{B10167} --out p")).ok();
    let again = proof(&format!("{B10167} --out p"));
    assert!(again.exit == 1 && again.err.contains("`p` cannot be written"), "{}", again.err);
    let other = proof(&format!("{B10167} --out q --workload root.key"));
    assert!(other.exit == 2 && other.err.contains("is not the program of"), "{}", other.err);
    world
        .run(&format!(
            "revoke {B10167} --reason wrong --severity harmful --key alice.key --registry-key registry.key --now {NOW}"
        ))
        .ok();
    let revoked = proof(&format!("{B10167} --out q"));
    assert!(revoked.exit == 4 && revoked.err.contains("is revoked: wrong"), "{}", revoked.err);
    world.put("garbage", "capgate proof v1\nfile x 9\n");
    world.facts("tested.toml", B10167, &[]);
    let garbage =
        world.run(&format!("lookup --facts tested.toml --registry garbage --now {NOW} --format json"));
    assert_eq!((garbage.exit, &garbage.json()["reason"]), (3, &"registry-malformed".into()));
}
