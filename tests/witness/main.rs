//! `capgate witness` through the real command: offline, as a server, under hostile requests, and killed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod asked;
mod hostile;
mod killed;
mod log;
mod offline;
mod server;
#[path = "../support/mod.rs"]
mod support;

use support::{NOW, World};

const KEYS: &str = "--key alice.key --registry-key registry.key";

/// A witness that has cosigned nothing yet, in the world's folder: its key file, its memory. Returns its public key.
pub fn witness(world: &World, name: &str) -> String {
    let key = world.run(&format!("keygen {name}.test --witness --out {name}.key")).ok().out;
    let made = world.run(&format!("witness init --state {name} --key {name}.key")).ok().out;
    assert_eq!(made, key);
    key.trim().to_owned()
}

/// The cosignature of what `registry` says now, in a file.
pub fn cosigned(world: &World, registry: &str, name: &str) -> String {
    let line =
        world.run(&format!("witness cosign {registry} --state {name} --key {name}.key --now {NOW}")).ok().out;
    let file = format!("{name}.lines");
    world.put(&file, &line);
    file
}
