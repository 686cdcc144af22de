//! `sync --watch` behind a server that goes away and comes back, and what somebody at a terminal sees.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::registry::{KEYS, profiles};
use crate::served::served;
use crate::support::{B10359, NOW, words};

#[track_caller]
fn until(said: &Path, what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        let said = || fs::read_to_string(said).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60), "it never came: {}", said());
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_watch_outlives_its_server_and_follows_when_it_is_back() {
    let Some((world, mut server, url)) = served() else { return };
    // Who watches goes by the clock.
    world.run("renew --registry-key registry.key").ok();
    let said = world.path("said");
    let mut command = world.command();
    command.args(words(&format!("sync {url} --to mirror --watch --every 5s")));
    command.env("CAPGATE_PATIENCE", "1").stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap());
    let mut child = command.spawn().unwrap();
    let latest = |folder: &str| fs::read(world.path(&format!("{folder}/snapshot/latest.note"))).ok();
    until(&said, || latest("mirror").is_some());
    server.kill();
    until(&said, || fs::read_to_string(&said).unwrap().contains("what is here stays in force"));
    world.run("verify mirror").ok();
    world.run(&format!("publish {B10359} {KEYS}")).ok();
    server.start_again();
    until(&said, || latest("mirror") == latest("registry"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    world.run("verify mirror").ok();
}

#[test]
fn progress_is_for_terminals_alone() {
    let Some((world, _server, url)) = served() else { return };
    let ids: Vec<String> = (0..300).map(|n| format!("profile-{n}")).collect();
    profiles(&world, "many", &ids);
    world.run(&format!("publish --all --profiles many {KEYS} --now {NOW}")).ok();
    let plain = world.run(&format!("sync {url} --to plain --now {NOW}")).ok();
    assert_eq!(plain.err, "");
    // `script` (Debian: bsdutils) gives it a terminal of its own.
    let line =
        format!("{} sync {url} --to mirror --now {NOW} --root {}", env!("CARGO_BIN_EXE_capgate"), world.root);
    let seen =
        Command::new("script").args(["-qec", &line, "/dev/null"]).current_dir(world.folder.path()).output();
    let seen = String::from_utf8_lossy(&seen.unwrap().stdout).into_owned();
    assert!(seen.contains("entries fetched:") && seen.contains("/301"), "{seen:?}");
    assert!(seen.contains("synced: 301 new entries"), "{seen:?}");
}
