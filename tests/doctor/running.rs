//! Processes that run on a profile which was revoked since, and shims that are active already.

use std::process::{Child, Command};

use jiff::Timestamp;
use serde_json::Value;

use crate::found::{Files, Found};
use crate::support::{B10167, NOW, World};
use crate::writer::Image;

/// A process that only waits, and ends with the test.
struct Waiting(Child);

impl Waiting {
    fn new() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn sleep() -> String {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join("sleep")).find(|path| path.is_file());
    found.unwrap().canonicalize().unwrap().display().to_string()
}

/// A log of one grant, with some keys of its line replaced.
fn logged(world: &World, changes: &[(&str, Value)]) -> String {
    world.facts("tested.toml", B10167, &[]);
    let _ = std::fs::remove_file(world.path("one.jsonl"));
    world.run(&format!("lookup --facts tested.toml --log one.jsonl --now {NOW}")).ok();
    let mut line: Value = serde_json::from_str(&world.read("one.jsonl")).unwrap();
    for (key, value) in changes {
        line[key] = value.clone();
    }
    format!("{line}\n")
}

fn look(world: &World) -> Found {
    let mut command = world.command();
    command.args(["doctor", "--format", "json", "--facts", "tested.toml", "--log", "log.jsonl"]);
    Found::of(command.args(["--now", NOW, "--registry", "registry", "--root", &world.root]))
}

#[test]
fn a_process_that_runs_on_a_revoked_profile_is_named() {
    let world = World::published();
    let process = Waiting::new();
    let now = Timestamp::now();
    let line = |more: &[(&str, Value)]| {
        let mut changes = vec![
            ("stage", "start".into()),
            ("pid", process.0.id().into()),
            ("program", sleep().into()),
            ("time", now.to_string().into()),
        ];
        changes.extend(more.iter().cloned());
        logged(&world, &changes)
    };
    let granted = line(&[]);
    let device = |outcome: &str| {
        let profile = if outcome == "grant" { B10167.into() } else { Value::Null };
        line(&[("stage", "device".into()), ("outcome", outcome.into()), ("profile", profile)])
    };
    let id = |text: &str| serde_json::from_str::<Value>(text).unwrap()["decision"].clone();
    let same = |text: String| text.replace(id(&text).as_str().unwrap(), id(&granted).as_str().unwrap());
    let others = [
        ("another program", line(&[("program", "/bin/sh".into())])),
        ("an earlier process of that number", line(&[("time", "2020-01-01T00:00:00Z".into())])),
        ("a mere question", line(&[("stage", "lookup".into())])),
        ("another machine", line(&[("machine", "0".repeat(64).into())])),
        ("an ended process", line(&[("pid", 4_194_305.into())])),
        ("a device that stayed stock", format!("{granted}{}", same(device("stock")))),
    ];
    let twice = format!("{granted}{}{}", same(device("grant")), same(device("stock")));
    world.put("log.jsonl", &granted);
    look(&world).says("running processes", "ok", "of 1 grant").exits(0);
    world.put("log.jsonl", &format!("not JSON\n{granted}"));
    look(&world).says("running processes", "warning", "1 line of `log.jsonl` cannot be read, the first is 1");
    world.put("log.jsonl", &granted);
    let revoke = "revoke B10167 --reason 'wrong answers' --severity harmful --key alice.key --registry-key registry.key";
    world.run(&format!("{} --now {NOW}", revoke.replace("B10167", B10167))).ok();
    let pid = format!("process {} ", process.0.id());
    let found = look(&world);
    found
        .says("running processes", "warning", &pid)
        .says("running processes", "warning", "wrong answers")
        .exits(0);
    world.put("log.jsonl", &twice);
    look(&world).says("running processes", "warning", &pid);
    // Where the machine has no id of its own, a line of another one cannot be told apart.
    let has_id = !id_of_machine(&world).is_null();
    for (what, text) in others.iter().filter(|(what, _)| has_id || *what != "another machine") {
        world.put("log.jsonl", text);
        let found = look(&world);
        assert_eq!(found.line("running processes")["level"], "ok", "{what}");
    }
    world.put("log.jsonl", "{\"torn");
    look(&world).says("running processes", "ok", "of 0 grants").exits(0);
}

fn id_of_machine(world: &World) -> Value {
    serde_json::from_str::<Value>(&world.read("one.jsonl")).unwrap()["machine"].clone()
}

#[test]
fn another_shim_that_is_active_is_named() {
    let files = Files::new();
    let lume = files.put("LumeMetalCapabilities-arm64.dylib", Image::dylib("lume").bytes());
    let look = |variables: &[(&str, &str)]| {
        let mut command = files.command();
        command.env_remove("LD_PRELOAD");
        // The loader of this system says on standard error that it cannot load the file, and goes on.
        Found::of(command.envs(variables.iter().copied()))
    };
    look(&[]).says("other shims", "ok", "none is active").exits(0);
    let value = ("LUME_METAL_APPLE_FAMILY_MAX", "1009");
    look(&[value]).says("other shims", "failed", "unset LUME_METAL_APPLE_FAMILY_MAX").exits(3);
    let inserted = ("LD_PRELOAD", lume.to_str().unwrap());
    look(&[inserted]).says("other shims", "failed", "unset LD_PRELOAD").exits(3);
    look(&[inserted, value])
        .says("other shims", "failed", "unset LUME_METAL_APPLE_FAMILY_MAX LD_PRELOAD")
        .exits(3);
    look(&[("LD_PRELOAD", "/none/lib.so")]).says("other shims", "failed", "is not there").exits(3);
}
