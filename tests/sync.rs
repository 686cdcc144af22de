//! `capgate sync`: folders that follow a registry, through the real command.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{B10167, B10359, NOW, ORIGIN, Run, World, capgate};

const KEYS: &str = "--key alice.key --registry-key registry.key";

fn sync(world: &World, rest: &str) -> Run {
    world.run(&format!("sync registry --to mirror --now {NOW} {rest}"))
}

fn verified(world: &World, folder: &str) -> Run {
    Run::of(capgate(world.folder.path()).args(["verify", folder, "--root", &world.root, "--now", NOW]))
}

#[test]
fn a_folder_becomes_a_copy_and_stays_one() {
    let world = World::new();
    let first = sync(&world, "").ok();
    assert!(first.out.starts_with("synced: 0 new entries, version 1, 0 records, expires "), "{}", first.out);
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    assert!(sync(&world, "").ok().out.starts_with("synced: 1 new entry, version 2"));
    assert!(sync(&world, "").ok().out.starts_with("nothing new: version 2"));
    let url = format!("file://{}", world.path("registry").display());
    let by_url = world.run(&format!("sync {url} --to other --now {NOW} --format json")).ok().json();
    assert_eq!((&by_url["log_size"], &by_url["records"]), (&1.into(), &1.into()));
    for folder in ["mirror", "other"] {
        assert!(verified(&world, folder).ok().out.contains("verified: no fault"));
        let listed = world.run(&format!("list --registry {folder} --now {NOW}")).ok().out;
        assert!(listed.contains(B10167), "{listed}");
    }
    // A copy of a copy is one, too.
    world.run(&format!("sync mirror --to third --now {NOW}")).ok();
    verified(&world, "third").ok();
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    let world = World::new();
    let fresh = Run::of(capgate(world.folder.path()).args(["sync", "registry", "--to", "mirror"]));
    assert!(fresh.exit == 2 && fresh.err.contains("--root"), "no trust on first use: {}", fresh.err);
    assert_eq!(world.run("sync registry").exit, 2);
    let empty = world.path("empty");
    fs::create_dir(&empty).unwrap();
    let none = world.run(&format!("sync empty --to mirror --now {NOW}"));
    assert!(none.exit == 1 && none.err.starts_with("error: empty: "), "{}", none.err);
    let late = world.run("sync registry --to mirror --now 2027-06-01T00:00:00Z");
    assert!(late.exit == 4 && late.err.contains("capgate renew"), "{}", late.err);
    assert!(!world.path("mirror/snapshot").exists());
    // A mirror that was damaged is made anew, and says so.
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    sync(&world, "").ok();
    fs::remove_file(world.path("mirror/log/tile/entries/000.p/1")).unwrap();
    let mended = sync(&world, "").ok();
    assert!(mended.err.contains("the copy was damaged and was made anew"), "{}", mended.err);
    verified(&world, "mirror").ok();
    fs::write(world.path("mirror/.seen"), "version = x\n").unwrap();
    let forgot = sync(&world, "");
    assert!(forgot.exit == 4 && forgot.err.contains("mirror/.seen` is malformed"), "{}", forgot.err);
}

#[test]
fn two_histories_are_kept_as_evidence() {
    let world = World::new();
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    // A thief of the registry key restores an older copy and publishes something else on top.
    let old = world.path("old");
    let copied = Command::new("cp").arg("-r").arg(world.path("registry")).arg(&old).status().unwrap();
    assert!(copied.success());
    world.run(&format!("publish {B10359} {KEYS} --now {NOW}")).ok();
    sync(&world, "").ok();
    let other = "m1-ultra-25g76-25f84-mlx-lm-0-31-3";
    let id = fs::read_dir(world.path("profiles.d"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap());
    let id = id.map(|name| name.trim_end_matches(".toml").to_owned()).find(|id| id != B10167 && id != B10359);
    let id = id.unwrap_or_else(|| other.to_owned());
    for command in [format!("publish {id} {KEYS}"), "renew --registry-key registry.key".into()] {
        world.run(&format!("{command} --registry old --now {NOW}")).ok();
    }
    let before = fs::read(world.path("mirror/snapshot/latest.note")).unwrap();
    let forked = world.run(&format!("sync old --to mirror --now {NOW}"));
    assert_eq!(forked.exit, 4, "{}", forked.err);
    assert!(forked.err.contains("shows different histories to different readers"), "{}", forked.err);
    let kept = fs::read_dir(world.path("mirror/.evidence")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read(kept.join("here-latest.note")).unwrap(), before);
    assert_eq!(
        fs::read(kept.join("there-latest.note")).unwrap(),
        fs::read(world.path("old/snapshot/latest.note")).unwrap()
    );
    assert_eq!(fs::read(world.path("mirror/snapshot/latest.note")).unwrap(), before, "what was there stays");
    verified(&world, "mirror").ok();
    sync(&world, "").ok();

    // A line that anybody adds makes no other history of it, and no link is followed to keep it.
    let kept = || fs::read_dir(world.path("mirror/.evidence")).unwrap().count();
    for n in 0..3 {
        let line = format!("\u{2014} anybody.test AAAAAAA{n}\n");
        let note = world.read("old/snapshot/latest.note") + &line;
        world.put("old/snapshot/latest.note", &note);
        assert_eq!(world.run(&format!("sync old --to mirror --now {NOW}")).exit, 4);
        assert_eq!(kept(), 1);
    }
    // Where the copy is gone, what was seen of it stays.
    for part in ["log", "snapshot", "trust"] {
        fs::remove_dir_all(world.path(&format!("mirror/{part}"))).unwrap();
    }
    world.run(&format!("renew --registry-key registry.key --registry old --now {NOW}")).ok();
    let gone = world.run(&format!("sync old --to mirror --now {NOW}"));
    assert!(gone.exit == 4 && gone.err.contains("shows different histories"), "{}", gone.err);
    assert_eq!(kept(), 2);
    let seen = |folder: fs::DirEntry| fs::read_to_string(folder.path().join("here-seen")).unwrap();
    let all: Vec<String> =
        fs::read_dir(world.path("mirror/.evidence")).unwrap().map(|folder| seen(folder.unwrap())).collect();
    assert!(all.iter().all(|seen| seen.starts_with("log_size = 2\nlog_root = \"sha256:")), "{all:?}");
    // However many histories somebody signs, 16 are kept.
    for n in 2..=17 {
        world.run(&format!("renew --registry-key registry.key --registry old --now {NOW}")).ok();
        let forked = world.run(&format!("sync old --to mirror --now {NOW}"));
        assert!(forked.exit == 4 && forked.err.contains("shows different histories"), "{}", forked.err);
        assert_eq!(forked.err.contains("holds 16 histories already"), n >= 16, "{}", forked.err);
    }
    assert_eq!(kept(), 16);
    fs::remove_dir_all(world.path("mirror/.evidence")).unwrap();
    fs::create_dir(world.path("victim")).unwrap();
    std::os::unix::fs::symlink(world.path("victim"), world.path("mirror/.evidence")).unwrap();
    let linked = world.run(&format!("sync old --to mirror --now {NOW}"));
    assert!(linked.exit == 4 && linked.err.contains("`.evidence` in it is a link"), "{}", linked.err);
    assert_eq!(fs::read_dir(world.path("victim")).unwrap().count(), 0);
}

#[test]
fn copies_that_follow_while_others_publish_and_sync_never_hold_a_mixture() {
    let world = World::new();
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            for round in 0..6 {
                let line = if round == 0 {
                    format!("publish --all {KEYS} --now {NOW}")
                } else {
                    format!("renew --registry-key registry.key --now {NOW}")
                };
                world.run(&line).ok();
            }
        });
        let followers: Vec<_> = (0..4)
            .map(|n| {
                let world = &world;
                // Two of them bring the same folder up to date at once.
                let to = format!("mirror-{}", n / 2);
                scope.spawn(move || {
                    for _ in 0..6 {
                        let run = world.run(&format!("sync registry --to {to} --now {NOW}"));
                        assert!(run.exit == 0, "{}", run.err);
                        verified(world, &to).ok();
                    }
                })
            })
            .collect();
        publisher.join().unwrap();
        followers.into_iter().for_each(|follower| follower.join().unwrap());
    });
    for n in 0..2 {
        world.run(&format!("sync registry --to mirror-{n} --now {NOW}")).ok();
        let path = |folder: &str| world.path(&format!("{folder}/snapshot/latest.note"));
        assert_eq!(fs::read(path(&format!("mirror-{n}"))).unwrap(), fs::read(path("registry")).unwrap());
    }
}

#[test]
fn it_watches_until_it_is_asked_to_end() {
    let world = World::new();
    world.run("renew --registry-key registry.key").ok();
    let mut command = world.command();
    let line = ["sync", "registry", "--to", "mirror", "--watch", "--every", "5s"];
    let mut child = command.args(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = |what: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !what() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it never came");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let latest = |folder: &str| fs::read(world.path(&format!("{folder}/snapshot/latest.note"))).ok();
    until(&|| latest("mirror").is_some());
    world.run("renew --registry-key registry.key").ok();
    until(&|| latest("mirror") == latest("registry"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(ORIGIN, "test.example/gpu");
}
