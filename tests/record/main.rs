//! `capgate record` through the real binary, with real children, in real control groups and namespaces.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod abilities;
mod compared;
mod limits;
mod passes;
mod pinned;
mod secrets;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The command in a folder, its cache apart from this user's.
pub fn capgate(folder: &Path) -> Command {
    let mut command = support::capgate(folder);
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    command
}

/// Runs `capgate record --out NAME OPTIONS -- WORDS` and returns how it ended.
pub fn record(folder: &Path, name: &str, words: &[&str]) -> support::Run {
    let mut command = capgate(folder);
    command.args(["record", "--out", name]);
    if !words.contains(&"--") {
        command.arg("--");
    }
    support::Run::of(command.args(words))
}

/// A record that was written.
pub fn written(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

/// What `record diff` says for programs.
pub fn diff(folder: &Path, a: &str, b: &str) -> Value {
    support::Run::of(capgate(folder).args(["record", "diff", a, b, "--format", "json"])).ok().json()
}

/// The codes of differences, in their order.
pub fn codes(compared: &Value) -> Vec<&str> {
    compared["differences"].as_array().unwrap().iter().map(|d| d["code"].as_str().unwrap()).collect()
}
