//! `--to`: several maintainers with working copies of their own, one published registry.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;

use support::{B10167, B10359, NOW, Run, World, capgate};

const KEYS: &str = "--key alice.key --registry-key registry.key";

/// Profiles of programs that nobody has, each under an id of its own.
fn profiles(world: &World, folder: &str, ids: &[String]) {
    fs::create_dir(world.path(folder)).unwrap();
    let text = world.read(&format!("profiles.d/{B10167}.toml"));
    let digest = text.lines().find_map(|line| line.strip_prefix("sha256 = ")).unwrap().to_owned();
    for (n, id) in ids.iter().enumerate() {
        let own = format!(
            "\"{:0>32}{:032x}\"",
            folder.bytes().map(|b| format!("{b:02x}")).collect::<String>(),
            n + 1
        );
        let text = text.replace(B10167, id).replace(&digest, &own);
        world.put(&format!("{folder}/{id}.toml"), &text);
    }
}

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
