//! `--to`: several maintainers with working copies of their own, one published registry.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use support::{B10167, B10359, NOW, Run, World, capgate, profiles, words};

const KEYS: &str = "--key alice.key --registry-key registry.key";

fn verified(world: &World, folder: &str) {
    Run::of(capgate(world.folder.path()).args(["verify", folder, "--root", &world.root, "--now", NOW])).ok();
}

fn listed(world: &World, folder: &str) -> BTreeSet<String> {
    let json = world.run(&format!("list --registry {folder} --now {NOW} --format json")).ok().json();
    let rows = json.as_array().cloned().unwrap_or_else(|| json["profiles"].as_array().unwrap().clone());
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_published_elsewhere_is_the_truth_and_the_folder_follows() {
    let world = World::new();
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    // The first time the folder's registry is brought there.
    let first = world.run(&format!("renew --registry-key registry.key --to public --now {NOW}")).ok();
    assert!(first.err.contains("brought `public` to version 2"), "{}", first.err);
    assert!(first.out.starts_with("renewed: version 3"), "{}", first.out);
    verified(&world, "public");
    verified(&world, "registry");
    // A colleague begins with nothing but the digest and the address.
    world.run(&format!("publish {B10359} {KEYS} --registry colleague --to public --now {NOW}")).ok();
    assert_eq!(listed(&world, "public"), listed(&world, "colleague"));
    let revoke = format!("revoke {B10167} --reason test --severity withdrawn {KEYS} --to public --now {NOW}");
    world.run(&revoke).ok();
    for folder in ["public", "registry"] {
        verified(&world, folder);
        assert_eq!(listed(&world, folder), BTreeSet::from([B10359.to_owned()]));
    }
    // Both publish without telling the other: two histories, of which one was published.
    world
        .run(&format!("renew --registry-key registry.key --registry colleague --to public --now {NOW}"))
        .ok();
    profiles(&world, "own", &["lonely-profile".to_owned()]);
    world.run(&format!("publish --all --profiles own {KEYS} --now {NOW}")).ok();
    profiles(&world, "other", &["public-profile".to_owned()]);
    world
        .run(&format!("publish --all --profiles other {KEYS} --registry colleague --to public --now {NOW}"))
        .ok();
    let forked = world.run(&format!("renew --registry-key registry.key --to public --now {NOW}"));
    assert_eq!(forked.exit, 4, "{}", forked.err);
    assert!(forked.err.contains("shows different histories"), "{}", forked.err);
    verified(&world, "public");
}

#[test]
fn two_maintainers_at_once_lose_nothing_and_never_fork() {
    const EACH: usize = 8;
    let world = World::new();
    world.run(&format!("renew --registry-key registry.key --to public --now {NOW}")).ok();
    let names = ["one", "two", "three"];
    let ids = |name: &str| (0..EACH).map(|n| format!("{name}-profile-{n}")).collect::<Vec<_>>();
    for name in names {
        profiles(&world, name, &ids(name));
    }
    let tried_again: usize = std::thread::scope(|scope| {
        let work: Vec<_> = names
            .iter()
            .map(|name| {
                let (world, ids) = (&world, ids(name));
                scope.spawn(move || {
                    let publish = |id: &String| {
                        let line = format!(
                            "publish {id} --profiles {name} {KEYS} --registry work-{name} --to public --now {NOW}"
                        );
                        world.run(&line).ok().err.matches("doing it again").count()
                    };
                    ids.iter().map(publish).sum::<usize>()
                })
            })
            .collect();
        work.into_iter().map(|work| work.join().unwrap()).sum()
    });
    // How often they met depends on the machine; that they did not stand in each other's way does not.
    println!("tried again {tried_again} times");
    verified(&world, "public");
    let all: BTreeSet<String> = names.iter().flat_map(|name| ids(name)).collect();
    assert_eq!(listed(&world, "public"), all);
    for name in names {
        world.run(&format!("sync public --to work-{name} --now {NOW}")).ok();
        verified(&world, &format!("work-{name}"));
        assert_eq!(listed(&world, &format!("work-{name}")), all);
    }
}

#[test]
fn a_rotation_is_published_too() {
    let world = World::new();
    let new = world.run("keygen bob.test --out bob.key").ok().out;
    world.run(&format!("trust add-key publisher {} --now {NOW}", new.trim())).ok();
    world.run(&format!("trust sign trust-next.note --key root.key --now {NOW}")).ok();
    world
        .run(&format!("trust rotate trust-next.note --registry-key registry.key --to public --now {NOW}"))
        .ok();
    let publish = format!("publish {B10167} --key bob.key --registry-key registry.key --now {NOW}");
    world.run(&format!("{publish} --registry colleague --to public")).ok();
    for folder in ["public", "colleague"] {
        verified(&world, folder);
    }
    world.run(&format!("sync public --to registry --now {NOW}")).ok();
    verified(&world, "registry");
}

#[test]
fn a_folder_that_was_restored_from_a_backup_signs_no_second_history() {
    let world = World::new();
    let home = world.path("home");
    fs::create_dir(&home).unwrap();
    let run = |line: &str| {
        let mut command = world.command();
        Run::of(command.env("HOME", &home).args(words(line)))
    };
    let publish =
        |id: &str| run(&format!("publish {id} --key alice.key --registry-key registry.key --now {NOW}"));
    publish(B10167).ok();
    let copy = |from: &str, to: &str| {
        assert!(
            Command::new("cp").arg("-r").args([world.path(from), world.path(to)]).status().unwrap().success()
        );
    };
    copy("registry", "backup");
    publish(B10359).ok();
    fs::remove_dir_all(world.path("registry")).unwrap();
    copy("backup", "registry");
    let refused = publish(B10359);
    assert_eq!(refused.exit, 4, "{}", refused.err);
    let said = "error: `registry` is at version 2 with 1 entries, and version 3 with 2 was published from here before";
    assert!(refused.err.starts_with(said), "{}", refused.err);
    // Whoever has nothing to remember is not hindered, and what is remembered can be removed.
    let memory = home.join(".local/state/capgate/published").join(world.root.trim_start_matches("sha256:"));
    assert!(refused.err.contains(&format!("remove `{}`", memory.display())), "{}", refused.err);
    fs::remove_file(memory).unwrap();
    publish(B10359).ok();
}

/// A place that whoever can write it put back to before a revocation.
struct PutBack {
    world: World,
}

impl PutBack {
    fn new() -> Self {
        let world = World::new();
        world.run(&format!("publish {B10167} {KEYS} --to public --now {NOW}")).ok();
        let place = Self { world };
        place.copy("public", "old");
        let revoke =
            format!("revoke {B10167} --reason wrong --severity harmful {KEYS} --to public --now {NOW}");
        place.world.run(&revoke).ok();
        place
    }

    fn copy(&self, from: &str, to: &str) {
        let (from, to) = (self.world.path(from), self.world.path(to));
        assert!(Command::new("cp").arg("-rT").args([from, to]).status().unwrap().success());
    }

    /// The files alone: whoever holds the lock goes on holding it.
    fn put_back(&self) {
        for part in ["log", "snapshot", "trust"] {
            fs::remove_dir_all(self.world.path(&format!("public/{part}"))).unwrap();
            self.copy(&format!("old/{part}"), &format!("public/{part}"));
        }
    }

    fn is_revoked_there(&self, now: &str) {
        let line = ["verify", "public", "--root", &self.world.root, "--now", now];
        Run::of(capgate(self.world.folder.path()).args(line)).ok();
        let json = self.world.run(&format!("list --registry public --now {now} --format json")).ok().json();
        let rows = json.as_array().cloned().unwrap_or_else(|| json["profiles"].as_array().unwrap().clone());
        let ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
        assert_eq!(ids, [B10359]);
    }
}

#[test]
fn attack_a_place_that_expired_and_was_put_back_is_not_built_on() {
    let place = PutBack::new();
    place.put_back();
    let later = "2027-01-15T00:00:00Z";
    place.world.run(&format!("publish {B10359} {KEYS} --to public --now {later}")).ok();
    place.is_revoked_there(later);
}

#[test]
fn attack_a_place_that_is_put_back_while_the_lock_is_waited_for_is_not_built_on() {
    let place = PutBack::new();
    let lock = fs::File::options().write(true).open(place.world.path("public/.lock")).unwrap();
    lock.lock().unwrap();
    let mut command = place.world.command();
    let line = format!("publish {B10359} {KEYS} --to public --now {NOW}");
    let mut child = command.args(words(&line)).spawn().unwrap();
    // By then it waits; where it does not yet, it sees the old files at once.
    std::thread::sleep(std::time::Duration::from_secs(2));
    place.put_back();
    drop(lock);
    assert!(child.wait().unwrap().success());
    place.is_revoked_there(NOW);
}

#[test]
fn attack_a_link_for_unfinished_files_costs_nobody_a_file() {
    let world = World::new();
    fs::create_dir(world.path("victim")).unwrap();
    world.put("victim/precious", "kept");
    drop(fs::remove_dir_all(world.path("registry/.tmp")));
    std::os::unix::fs::symlink(world.path("victim"), world.path("registry/.tmp")).unwrap();
    let run = world.run(&format!("publish {B10167} {KEYS} --now {NOW}"));
    assert!(run.exit == 1 && run.err.contains("`.tmp` in it is no folder"), "{}", run.err);
    assert_eq!(world.read("victim/precious"), "kept");
    assert_eq!(fs::read_dir(world.path("victim")).unwrap().count(), 1);
}
