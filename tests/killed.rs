//! kill -9 at random moments of publish, sync and rotation: what is left verifies, and nothing acknowledged is gone.
//!
//! `CAPGATE_KILLS` says how often each is killed; docs/benchmarks.md has the figures of the full count.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use support::{B10167, NOW, Run, World, capgate, words};

const KEYS: &str = "--key alice.key --registry-key registry.key";

fn kills() -> u64 {
    std::env::var("CAPGATE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(15)
}

/// Moments to kill at, which follow how fast the machine is just now: about a fifth of the commands end by themselves, so
/// that the others are killed at every stage of them.
struct Moments {
    /// xorshift64.
    state: u64,
    /// Latest moment, in microseconds.
    most: u64,
}

impl Moments {
    fn new(state: u64, whole: Duration) -> Self {
        Self { state, most: u64::try_from(whole.as_micros()).unwrap() }
    }

    fn next(&mut self) -> Duration {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Duration::from_micros(self.state % self.most.max(1))
    }

    fn learn(&mut self, finished: bool) {
        self.most = if finished { self.most * 90 / 100 } else { self.most * 103 / 100 };
    }
}

/// What became of the commands that were killed.
#[derive(Debug, Default)]
struct Counts {
    killed: u64,
    finished: u64,
}

/// Starts a command, kills it at a moment of the time that one takes, and tells whether it had ended well before.
fn killed(world: &World, line: &str, moments: &mut Moments, counts: &mut Counts) -> bool {
    let mut command = world.command();
    command.args(words(line)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(moments.next());
    child.kill().unwrap();
    let status = child.wait().unwrap();
    moments.learn(status.success());
    if status.success() {
        counts.finished += 1;
        return true;
    }
    assert_eq!(status.code(), None, "it ended by itself: {line}");
    counts.killed += 1;
    false
}

fn timed(world: &World, line: &str) -> Duration {
    let begun = Instant::now();
    world.run(line).ok();
    begun.elapsed()
}

#[track_caller]
fn verified(world: &World, folder: &str) {
    let line = ["verify", folder, "--root", &world.root, "--now", NOW];
    let run = Run::of(capgate(world.folder.path()).args(line));
    assert_eq!(run.exit, 0, "{folder}: {}{}", run.out, run.err);
}

fn listed(world: &World) -> BTreeSet<String> {
    let json = world.run(&format!("list --now {NOW} --format json")).ok().json();
    let rows = json.as_array().cloned().unwrap_or_else(|| json["profiles"].as_array().unwrap().clone());
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn put_profile(world: &World, n: u64) -> String {
    let (id, text) = (format!("killed-profile-{n}"), world.read(&format!("profiles.d/{B10167}.toml")));
    let digest = text.lines().find_map(|line| line.strip_prefix("sha256 = ")).unwrap().to_owned();
    fs::create_dir_all(world.path("own")).unwrap();
    let text = text.replace(B10167, &id).replace(&digest, &format!("\"{:064x}\"", n + 1));
    world.put(&format!("own/{id}.toml"), &text);
    id
}

#[test]
fn a_publication_that_is_killed_loses_nothing_that_was_acknowledged() {
    let world = World::new();
    let line = |id: &str| format!("publish {id} --profiles own {KEYS} --now {NOW}");
    let whole = timed(&world, &line(&put_profile(&world, 0)));
    let (mut moments, mut counts) = (Moments::new(0x9e37_79b9_7f4a_7c15, whole), Counts::default());
    let mut acknowledged = BTreeSet::from(["killed-profile-0".to_owned()]);
    for n in 1..=kills() {
        let id = put_profile(&world, n);
        if killed(&world, &line(&id), &mut moments, &mut counts) {
            acknowledged.insert(id);
        }
        verified(&world, "registry");
        let in_force = listed(&world);
        assert!(acknowledged.is_subset(&in_force), "{acknowledged:?} of {in_force:?}");
        // What was killed behind its commit counts as well from now on.
        acknowledged = in_force;
    }
    println!("publish: {counts:?}, {} profiles in force", acknowledged.len());
    world.run(&line(&put_profile(&world, kills() + 1))).ok();
    verified(&world, "registry");
}

#[test]
fn a_sync_that_is_killed_leaves_a_copy_that_verifies() {
    let world = World::new();
    let line = format!("sync registry --to mirror --now {NOW}");
    let publish = |n: u64| {
        let id = put_profile(&world, n);
        world.run(&format!("publish {id} --profiles own {KEYS} --now {NOW}")).ok();
    };
    publish(0);
    let whole = timed(&world, &line);
    let (mut moments, mut counts) = (Moments::new(0xd1b5_4a32_d192_ed03, whole), Counts::default());
    for n in 1..=kills() {
        publish(n);
        killed(&world, &line, &mut moments, &mut counts);
        verified(&world, "mirror");
    }
    println!("sync: {counts:?}");
    world.run(&line).ok();
    verified(&world, "mirror");
    let latest = |folder: &str| fs::read(world.path(&format!("{folder}/snapshot/latest.note"))).unwrap();
    assert_eq!(latest("mirror"), latest("registry"));
}

#[test]
fn a_rotation_that_is_killed_is_completed_by_the_same_command() {
    let rotate = format!("trust rotate trust-next.note --registry-key registry.key --now {NOW}");
    let draft = |world: &World, n: u64| {
        drop(fs::remove_file(world.path("trust-next.note")));
        world.run(&format!("trust draft --days {} --now {NOW}", 100 + n % 200)).ok();
        world.run(&format!("trust sign trust-next.note --key root.key --now {NOW}")).ok();
    };
    let mut world = World::new();
    draft(&world, 0);
    let whole = timed(&world, &rotate);
    let (mut moments, mut counts) = (Moments::new(0x2545_f491_4f6c_dd1d, whole), Counts::default());
    let mut in_force = 2;
    for n in 1..=kills() {
        // A trust has at most so many versions, and reading all of them each time is slow.
        if n % 100 == 0 {
            (world, in_force) = (World::new(), 1);
        }
        draft(&world, n);
        killed(&world, &rotate, &mut moments, &mut counts);
        verified(&world, "registry");
        world.run(&rotate).ok();
        verified(&world, "registry");
        in_force += 1;
        let shown = world.run(&format!("trust show --now {NOW} --format json")).ok().json();
        assert_eq!(shown["in_force"], in_force);
    }
    println!("rotate: {counts:?}");
}
