//! `publish --from`: a site's own registry, which holds what upstream says beside what it says itself.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;

use support::{B10167, B10359, NOW, Run, World, capgate, profiles};

const KEYS: &str = "--key alice.key --registry-key registry.key";

/// A site's own registry, with keys of its own, beside the one that it carries over.
struct Site {
    root: String,
}

impl Site {
    fn new(world: &World) -> Self {
        for (name, file) in [
            ("site-root.test", "s-root.key"),
            ("site-alice.test", "s-alice.key"),
            ("site.test/gpu", "s-registry.key"),
        ] {
            world.run(&format!("keygen {name} --out {file}")).ok();
        }
        let made = world.run(&format!(
            "init site --origin site.test/gpu --root-key s-root.key --publisher s-alice.key --registry-key s-registry.key \
             --now {NOW}"
        ));
        Self { root: made.ok().out.trim().to_owned() }
    }

    fn run(&self, world: &World, line: &str) -> Run {
        world.run(&format!("{line} --registry site --root {} --now {NOW}", self.root))
    }

    fn carry(&self, world: &World, rest: &str) -> Run {
        self.run(
            world,
            &format!("publish --from registry {rest} --key s-alice.key --registry-key s-registry.key"),
        )
    }

    fn publish(&self, world: &World, folder: &str) {
        let line =
            format!("publish --all --profiles {folder} --key s-alice.key --registry-key s-registry.key");
        self.run(world, &line).ok();
    }

    fn verified(&self, world: &World) {
        let line = ["verify", "site", "--root", &self.root, "--now", NOW];
        Run::of(capgate(world.folder.path()).args(line)).ok();
    }
}

#[test]
fn a_site_carries_over_what_upstream_says_and_keeps_its_own() {
    let world = World::new();
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    let site = Site::new(&world);
    let nameless = site.carry(&world, "");
    assert!(nameless.exit == 2 && nameless.err.contains("--from-root sha256:"), "{}", nameless.err);
    let wrong = site.carry(&world, &format!("--from-root {}", site.root));
    assert!(wrong.exit == 4 && wrong.err.contains("the first root is sha256:"), "{}", wrong.err);
    let first = site.carry(&world, &format!("--from-root {}", world.root)).ok();
    assert!(first.out.starts_with(&format!("carried over {B10167} (log index 0)\n")), "{}", first.out);
    // The trust was named once.
    let again = site.carry(&world, "").ok();
    assert!(again.out.contains("nothing changed"), "{}", again.out);
    let other = site.carry(&world, &format!("--from-root {}", site.root));
    assert!(other.exit == 4 && other.err.contains("before, not under"), "{}", other.err);

    // The site publishes its own; upstream publishes another one of the same combination, and one more.
    profiles(&world, "own", &["own-profile".to_owned()]);
    site.publish(&world, "own");
    let theirs = world.read("own/own-profile.toml").replace("own-profile", "their-profile");
    fs::create_dir(world.path("theirs")).unwrap();
    world.put("theirs/their-profile.toml", &theirs);
    world.run(&format!("publish --all --profiles theirs {KEYS} --now {NOW}")).ok();
    world.run(&format!("publish {B10359} {KEYS} --now {NOW}")).ok();
    let mixed = site.carry(&world, "").ok();
    assert!(mixed.out.contains(&format!("carried over {B10359}")), "{}", mixed.out);
    assert!(
        mixed.err.contains(
            "`their-profile` was not carried over: `own-profile` is about the same combination here"
        ),
        "{}",
        mixed.err
    );

    // A revocation upstream ends it here, too.
    world.run(&format!("revoke {B10167} --reason wrong --severity harmful {KEYS} --now {NOW}")).ok();
    let revoked = site.carry(&world, "").ok();
    assert!(revoked.out.contains(&format!("carried over {B10167}")), "{}", revoked.out);
    let in_force = site.run(&world, "list").ok().out;
    assert!(
        in_force.contains(B10359) && in_force.contains("own-profile") && !in_force.contains(B10167),
        "{in_force}"
    );
    site.verified(&world);
}

#[test]
fn what_a_thief_signed_upstream_is_revoked_where_it_was_carried_over() {
    let world = World::new();
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    world.run(&format!("publish {B10359} {KEYS} --now {NOW}")).ok();
    let site = Site::new(&world);
    site.carry(&world, &format!("--from-root {}", world.root)).ok();
    let bob = world.run("keygen bob.test --out bob.key").ok().out;
    world.run(&format!("trust add-key publisher {} --now {NOW}", bob.trim())).ok();
    world.run(&format!("trust compromised alice.test --from 1 --now {NOW}")).ok();
    world.run(&format!("trust sign trust-next.note --key root.key --now {NOW}")).ok();
    world.run(&format!("trust rotate trust-next.note --registry-key registry.key --now {NOW}")).ok();
    site.carry(&world, "").ok();
    let in_force = site.run(&world, "list").ok().out;
    assert!(in_force.contains(B10167) && !in_force.contains(B10359), "{in_force}");
    let asked = site.run(&world, "list --revoked").ok().out;
    assert!(asked.contains(B10359), "{asked}");
}

/// A file of one profile, made from another one's text.
fn derived(world: &World, from: &str, folder: &str, id: &str, supersedes: Option<&str>) {
    let old = fs::read_to_string(world.path(from)).unwrap();
    let old_id = old.lines().find_map(|line| line.strip_prefix("id = ")).unwrap().to_owned();
    let supersedes = supersedes.map_or_else(String::new, |id| format!("\nsupersedes = \"{id}\""));
    fs::create_dir(world.path(folder)).unwrap();
    let text = old.replace(&format!("id = {old_id}"), &format!("id = \"{id}\"{supersedes}"));
    world.put(&format!("{folder}/{id}.toml"), &text);
}

fn upstream(world: &World, folder: &str) {
    world.run(&format!("publish --all --profiles {folder} {KEYS} --now {NOW}")).ok();
}

fn revoke_upstream(world: &World, id: &str) {
    world.run(&format!("revoke {id} --reason wrong --severity harmful {KEYS} --now {NOW}")).ok();
}

#[test]
fn what_does_not_fit_is_left_out_with_all_that_refers_to_it_and_holds_up_no_revocation() {
    let world = World::new();
    let site = Site::new(&world);
    profiles(&world, "own", &["own-one".to_owned()]);
    site.publish(&world, "own");
    // Upstream says otherwise about the site's combination: one, what supersedes it, a revocation of that, and so on.
    derived(&world, "own/own-one.toml", "a", "their-one", None);
    derived(&world, "own/own-one.toml", "b", "their-two", Some("their-one"));
    derived(&world, "own/own-one.toml", "c", "their-three", None);
    derived(&world, "own/own-one.toml", "d", "their-four", Some("their-three"));
    upstream(&world, "a");
    upstream(&world, "b");
    revoke_upstream(&world, "their-two");
    upstream(&world, "c");
    upstream(&world, "d");
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    let first = site.carry(&world, &format!("--from-root {}", world.root)).ok();
    assert_eq!(first.out.lines().filter(|line| line.starts_with("carried over")).count(), 1, "{}", first.out);
    assert!(first.out.contains(&format!("carried over {B10167}")), "{}", first.out);
    for said in [
        "`their-one` was not carried over: `own-one` is about the same combination here",
        "`their-two` was not carried over: `own-one` is about the same combination here",
        "the revocation of `their-two` was not carried over: `their-two` is not in this registry",
        "`their-three` was not carried over: `own-one` is about the same combination here",
        "`their-four` was not carried over: `own-one` is about the same combination here",
    ] {
        assert!(first.err.contains(said), "{said}\n{}", first.err);
    }
    // Whatever stays behind, a later revocation arrives, and so does what is new.
    revoke_upstream(&world, B10167);
    world.run(&format!("publish {B10359} {KEYS} --now {NOW}")).ok();
    let later = site.carry(&world, "").ok();
    let said = format!("carried over {B10167} (log index 2)\ncarried over {B10359} (log index 3)\n");
    assert!(later.out.starts_with(&said), "{}", later.out);
    let in_force = site.run(&world, "list").ok().out;
    assert!(in_force.contains("own-one") && in_force.contains(B10359), "{in_force}");
    assert!(!in_force.contains(B10167) && !in_force.contains("their-"), "{in_force}");
    // Once the site's own is gone, what fits then comes.
    let revoke =
        "revoke own-one --reason test --severity withdrawn --key s-alice.key --registry-key s-registry.key";
    site.run(&world, revoke).ok();
    site.carry(&world, "").ok();
    assert!(site.run(&world, "list").ok().out.contains("their-four"));
    site.verified(&world);
}

#[test]
fn more_under_one_combination_than_a_record_holds_stops_nothing_else() {
    let world = World::new();
    let site = Site::new(&world);
    profiles(&world, "own", &["own-one".to_owned()]);
    derived(&world, "own/own-one.toml", "a", "their-one", None);
    site.publish(&world, "own");
    // 64 revoked ones of one combination are as many as a record holds.
    let line =
        "revoke own-one --reason test --severity withdrawn --key s-alice.key --registry-key s-registry.key";
    site.run(&world, line).ok();
    for n in 2..=64 {
        let (folder, id) = (format!("own-{n}"), format!("own-{n}"));
        derived(&world, "own/own-one.toml", &folder, &id, None);
        site.publish(&world, &folder);
        site.run(&world, &line.replace("own-one", &id)).ok();
    }
    upstream(&world, "a");
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    let mixed = site.carry(&world, &format!("--from-root {}", world.root)).ok();
    assert!(mixed.out.contains(&format!("carried over {B10167}")), "{}", mixed.out);
    let said =
        "`their-one` was not carried over: too many profiles under one combination, `their-one` among them";
    assert!(mixed.err.contains(said), "{}", mixed.err);
    site.verified(&world);
}

#[test]
fn what_upstream_says_of_its_profile_is_not_said_of_the_sites_own_of_that_id() {
    let world = World::new();
    let site = Site::new(&world);
    profiles(&world, "own", &["one-name".to_owned()]);
    site.publish(&world, "own");
    // The same id and the same combination, and other content; then what supersedes and revokes it.
    let text = world.read("own/one-name.toml");
    let summary = text.lines().find(|line| line.starts_with("summary = ")).unwrap().to_owned();
    fs::create_dir(world.path("theirs")).unwrap();
    world.put("theirs/one-name.toml", &text.replace(&summary, "summary = \"upstream's\""));
    derived(&world, "theirs/one-name.toml", "next", "next-name", Some("one-name"));
    upstream(&world, "theirs");
    upstream(&world, "next");
    revoke_upstream(&world, "one-name");
    world.run(&format!("publish {B10167} {KEYS} --now {NOW}")).ok();
    let carried = site.carry(&world, &format!("--from-root {}", world.root)).ok();
    assert!(carried.out.starts_with(&format!("carried over {B10167} (log index 1)\n")), "{}", carried.out);
    for said in [
        "`one-name` was not carried over: that id has other content here",
        "`next-name` was not carried over: it supersedes `one-name`, which has other content here",
        "the revocation of `one-name` was not carried over: that id has other content here",
    ] {
        assert!(carried.err.contains(said), "{said}\n{}", carried.err);
    }
    let in_force = site.run(&world, "list").ok().out;
    assert!(in_force.contains("one-name") && !in_force.contains("next-name"), "{in_force}");
    site.verified(&world);
}

#[test]
fn attack_a_link_for_copies_of_other_registries_is_not_followed() {
    let world = World::new();
    let site = Site::new(&world);
    fs::create_dir(world.path("victim")).unwrap();
    std::os::unix::fs::symlink(world.path("victim"), world.path("site/.upstream")).unwrap();
    let run = site.carry(&world, &format!("--from-root {}", world.root));
    assert!(run.exit == 1 && run.err.contains("`.upstream` in it is a link"), "{}", run.err);
    assert_eq!(fs::read_dir(world.path("victim")).unwrap().count(), 0);
}
