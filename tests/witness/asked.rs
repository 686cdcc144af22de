//! Publishers who ask witnesses over HTTP.

use crate::server::Server;
use crate::support::{B10167, B10359, NOW, World};
use crate::{KEYS, witness};

fn cosigners(world: &World) -> Vec<String> {
    let note = world.read("registry/log/checkpoint");
    let names = note.lines().filter_map(|line| line.strip_prefix("\u{2014} ")?.split(' ').next());
    names.filter(|name| name.starts_with("w")).map(str::to_owned).collect()
}

fn watching(world: &World) -> String {
    format!("--registry registry --root {}", world.root)
}

#[test]
fn each_publication_can_be_witnessed_as_it_is_made() {
    let world = World::new();
    let (one, two) = (witness(&world, "w1"), witness(&world, "w2"));
    let servers =
        [Server::start(&world, "w1", &watching(&world)), Server::start(&world, "w2", &watching(&world))];
    let [first, second] = servers.each_ref().map(Server::url);
    let asked =
        format!("--witness {first} --witness {second}/ --witness-key {one} --witness-key {two} --now {NOW}");
    world.run(&format!("publish {B10167} {KEYS} {asked}")).ok();
    assert_eq!(cosigners(&world), ["w1.test", "w2.test"]);
    let published = world.run(&format!("publish {B10359} {KEYS} {asked}")).ok();
    assert!(published.err.contains("cosigned by w1.test, w2.test"), "{}", published.err);
    assert_eq!(cosigners(&world), ["w1.test", "w2.test"]);
    world.run(&format!("revoke {B10359} --reason test --severity withdrawn {KEYS} {asked}")).ok();
    world.run(&format!("renew --registry-key registry.key {asked}")).ok();
    assert_eq!(cosigners(&world), ["w1.test", "w2.test"]);
    // Asked again, each line makes room for the new one.
    let again = world.run(&format!("witness ask {asked} --format json")).ok().json();
    assert_eq!(
        (&again["size"], &again["cosigned_by"]),
        (&3.into(), &serde_json::json!(["w1.test", "w2.test"]))
    );
    assert_eq!(cosigners(&world).len(), 2);
    world.run(&format!("verify registry --now {NOW}")).ok();
    for server in servers {
        server.stop();
    }
}

#[test]
fn the_place_where_it_is_published_gets_the_cosignatures_too() {
    let world = World::new();
    let one = witness(&world, "w1");
    let server = Server::start(&world, "w1", &watching(&world));
    let asked = format!("--to place --witness {} --witness-key {one} --now {NOW}", server.url());
    world.run(&format!("publish {B10167} {KEYS} {asked}")).ok();
    assert_eq!(cosigners(&world), ["w1.test"]);
    assert_eq!(world.read("place/log/checkpoint"), world.read("registry/log/checkpoint"));
}

#[test]
fn what_is_published_stands_although_a_witness_does_not_answer() {
    let world = World::new();
    let (one, two) = (witness(&world, "w1"), witness(&world, "w2"));
    let up = Server::start(&world, "w1", &watching(&world));
    let mut down = Server::start(&world, "w2", &watching(&world));
    let gone = down.url();
    down.kill();
    let asked = format!(
        "--witness {gone} --witness {} --witness-key {one} --witness-key {two} --now {NOW}",
        up.url()
    );
    let run = world.run(&format!("publish {B10167} {KEYS} {asked}"));
    assert!(run.exit == 1 && run.err.contains("it is in force, but not witnessed"), "{}", run.err);
    assert!(run.err.contains("help: ask again: capgate witness ask"), "{}", run.err);
    // The other one's answer is kept all the same.
    assert_eq!(cosigners(&world), ["w1.test"]);
    world.run(&format!("verify registry --now {NOW}")).ok();
    let back = Server::start(&world, "w2", &watching(&world));
    let asked = format!("--witness {} --witness-key {two} --now {NOW}", back.url());
    world.run(&format!("witness ask {asked}")).ok();
    assert_eq!(cosigners(&world), ["w1.test", "w2.test"]);
}

#[test]
fn answers_that_are_of_no_use_are_named() {
    let world = World::published();
    let (one, two) = (witness(&world, "w1"), witness(&world, "w2"));
    let server = Server::start(&world, "w1", &watching(&world));
    let ask = |url: &str, key: &str| {
        world.run(&format!("witness ask --witness {url} --witness-key {key} --now {NOW}"))
    };
    let stranger = ask(&server.url(), &two);
    assert!(
        stranger.exit == 1 && stranger.err.contains("without a cosignature by a witness that is named"),
        "{}",
        stranger.err
    );
    let elsewhere = ask(&format!("{}/elsewhere", server.url()), &one);
    assert!(elsewhere.err.contains("answered 404"), "{}", elsewhere.err);
    assert!(ask("gopher://nowhere", &one).exit == 1);
    let nobody = world.run(&format!("witness ask --now {NOW}"));
    assert_eq!((nobody.exit, nobody.err.contains("nobody is asked")), (2, true), "{}", nobody.err);
    let keyless = world.run(&format!("witness ask --witness {} --now {NOW}", server.url()));
    assert_eq!(keyless.exit, 2);
    // Its key signs another history, and the witness has the first.
    ask(&server.url(), &one).ok();
    std::process::Command::new("cp")
        .arg("-r")
        .arg(world.path("registry"))
        .arg(world.path("other"))
        .status()
        .unwrap();
    world.run(&format!("revoke {B10167} --reason one --severity withdrawn {KEYS} --now {NOW}")).ok();
    ask(&server.url(), &one).ok();
    let other = |line: &str| world.run(&format!("{line} --registry other --now {NOW}"));
    other(&format!("revoke {B10167} --reason two --severity withdrawn {KEYS}")).ok();
    let split = other(&format!("witness ask --witness {} --witness-key {one}", server.url()));
    assert!(split.exit == 1 && split.err.contains("two histories were signed"), "{}", split.err);
    other(&format!("revoke {B10359} --reason two --severity withdrawn {KEYS}")).ok();
    let longer = other(&format!("witness ask --witness {} --witness-key {one}", server.url()));
    assert!(longer.exit == 1 && longer.err.contains("does not continue what it cosigned"), "{}", longer.err);
    assert!(!world.read("other/log/checkpoint").contains("w1.test"));
    // Its memory has both, once it is free again.
    server.stop();
    let status = world.run("witness status --state w1");
    assert!(status.exit == 4 && status.err.matches("signed two histories").count() == 2, "{}", status.err);
}
