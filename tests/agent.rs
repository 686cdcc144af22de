//! Keys that stay in a real ssh-agent, and key files of ssh-keygen and openssl.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;
use std::process::Command;

use support::agent::{SshAgent, keygen};
use support::{B10167, B10359, NOW, ORIGIN, Run, World, words};

/// A world whose keys are in an agent, and none in a file.
struct Held {
    agent: SshAgent,
    world: World,
}

impl Held {
    /// With a registry whose every key is in the agent.
    fn new() -> Self {
        let mut held = Self { agent: SshAgent::start(), world: World::bare() };
        for file in ["root.key", "alice.key", "registry.key"] {
            fs::remove_file(held.world.path(file)).unwrap();
        }
        let key = |name: &str, comment: &str| {
            held.agent.make(comment, "ed25519");
            held.run(&format!("keygen {name} --agent {comment}")).ok().out.trim().to_owned()
        };
        let (root, alice) = (key("root.test", "root@test"), key("alice.test", "alice@test"));
        let registry = key(ORIGIN, "registry@test");
        let made = held.run(&format!(
            "init registry --origin {ORIGIN} --root-key agent:{root} --publisher {alice} \
             --registry-key agent:{registry} --now {NOW}"
        ));
        made.ok().out.trim().clone_into(&mut held.world.root);
        held
    }

    fn run(&self, line: &str) -> Run {
        let mut command = self.world.command();
        Run::of(command.args(words(line)).env("SSH_AUTH_SOCK", self.agent.socket()))
    }

    fn publish(&self, what: &str) -> Run {
        self.run(&format!("publish {what} {KEYS} --now {NOW}"))
    }
}

const KEYS: &str = "--key agent:alice.test --registry-key agent:test.example/gpu";

#[test]
fn a_registry_is_kept_with_keys_that_are_in_no_file() {
    let held = Held::new();
    held.publish(&format!("{B10167} {B10359}")).ok();
    held.run(&format!("revoke {B10359} --reason test --severity withdrawn {KEYS} --now {NOW}")).ok();
    held.run(&format!("renew --registry-key agent:{ORIGIN} --now {NOW}")).ok();
    held.run(&format!("trust draft --days 500 --now {NOW}")).ok();
    held.run(&format!("trust sign trust-next.note --key agent:root.test --now {NOW}")).ok();
    held.run(&format!("trust rotate trust-next.note --registry-key agent:{ORIGIN} --now {NOW}")).ok();
    let verified = held.run(&format!("verify registry --now {NOW}")).ok();
    assert!(verified.err.is_empty(), "{}", verified.err);
    let listed = held.run(&format!("list --now {NOW}")).ok().out;
    assert!(listed.contains(B10167) && !listed.contains(B10359), "{listed}");
    // Nothing of the keys came to lie anywhere in the folder.
    for entry in fs::read_dir(held.world.folder.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(["registry", "profiles.d", "trust-next.note"].contains(&name.as_str()), "{name}");
    }
}

#[test]
fn a_key_in_the_agent_gets_its_name_and_no_file() {
    let world = World::bare();
    let agent = SshAgent::start();
    let file = keygen(world.folder.path(), "carol@test", "ed25519", "");
    agent.add(&file);
    let run = |line: &str| Run::of(world.command().args(words(line)).env("SSH_AUTH_SOCK", agent.socket()));
    let by_comment = run("keygen carol.test --agent carol@test").ok();
    assert!(
        by_comment.out.starts_with("carol.test+") && by_comment.out.ends_with('\n'),
        "{}",
        by_comment.out
    );
    let shown = Run::of(Command::new("ssh-keygen").arg("-lf").arg(&file)).ok().out;
    let print = shown.split(' ').nth(1).unwrap();
    assert_eq!(run(&format!("keygen carol.test --agent {print}")).ok().out, by_comment.out);
    // The same key, from its file.
    let imported = run("keygen carol.test --import carol-test --out carol.key").ok();
    assert_eq!(imported.out, by_comment.out);
    let json = run("--format json keygen carol.test --agent carol@test").ok().json();
    assert_eq!(json["verifier_key"].as_str(), Some(by_comment.out.trim()));
    assert!(json.get("file").is_none(), "{json}");
    let missing = run("keygen carol.test --agent dave@test");
    missing.fails(
        1,
        &format!(
            "error: no key in the ssh-agent has the comment or fingerprint `dave@test`\n\
             help: it holds {print} `carol@test` (ssh-ed25519)\n"
        ),
    );
    agent.make("rsa@test", "rsa");
    run("keygen carol.test --agent rsa@test").fails(
        1,
        "error: the key `rsa@test` is a `ssh-rsa` key, only `ssh-ed25519` is accepted\n\
         help: make one: ssh-keygen -t ed25519\n",
    );
    agent.make("carol@test", "ecdsa");
    let several = run("keygen carol.test --agent carol@test");
    assert!(
        several.err.starts_with(
            "error: several keys in the ssh-agent have the comment `carol@test`\nhelp: say which: SHA256:"
        ),
        "{}",
        several.err
    );
    assert_eq!(run(&format!("keygen carol.test --agent {print}")).ok().out, by_comment.out);
    assert_eq!(run("keygen 'a b' --agent carol@test").exit, 1);
    assert_eq!(run(&format!("keygen 'a b' --agent {print}")).exit, 2);
    assert_eq!(run("keygen carol.test --agent carol@test --out f").exit, 2);
    assert_eq!(run("keygen carol.test").exit, 2);
}

#[test]
fn a_key_that_is_not_there_is_named_with_what_is() {
    let held = Held::new();
    let before = held.world.read("registry/snapshot/latest.note");
    let unknown =
        held.run(&format!("publish {B10167} --key agent:mallory.test --registry-key agent:{ORIGIN}"));
    unknown.fails(
        1,
        "error: no key that may sign here is named `mallory.test`\nhelp: those that may are `alice.test`\n",
    );
    let root = held.run("keygen root.test --agent root@test").ok().out;
    let wrong =
        held.run(&format!("publish {B10167} --key agent:{} --registry-key agent:{ORIGIN}", root.trim()));
    assert_eq!(wrong.exit, 1);
    assert!(
        wrong.err.contains("is no publisher key here\nhelp: the publisher keys are `alice.test`"),
        "{}",
        wrong.err
    );
    let init =
        format!("init other --origin {ORIGIN} --publisher {} --registry-key agent:{ORIGIN}", root.trim());
    held.run(&format!("{init} --root-key agent:root.test")).fails(
        2,
        "error: which key `agent:root.test` is cannot be known here\n\
         help: give the whole public key, `agent:root.test+HASH+BASE64`, as `capgate keygen root.test --agent COMMENT` prints it\n",
    );
    held.agent.remove_all();
    held.agent.make("other@test", "ed25519");
    let gone = held.publish(B10167);
    assert_eq!(gone.exit, 1);
    assert!(
        gone.err.starts_with("error: the ssh-agent does not hold the key `alice.test` (SHA256:"),
        "{}",
        gone.err
    );
    assert!(
        gone.err.contains("\nhelp: it holds SHA256:") && gone.err.contains("`other@test` (ssh-ed25519)\n"),
        "{}",
        gone.err
    );
    assert_eq!(held.world.read("registry/snapshot/latest.note"), before);
}

#[test]
fn a_locked_an_empty_and_a_missing_agent_are_told_apart() {
    let held = Held::new();
    let at = held.agent.socket().display().to_string();
    let none = format!(
        "error: the ssh-agent at `{at}` shows no key: it holds none, or it is locked\n\
         help: `ssh-add FILE` puts a key into it, `ssh-add -X` unlocks it\n"
    );
    held.agent.lock("-x");
    held.publish(B10167).fails(1, &none);
    held.agent.lock("-X");
    held.publish(B10167).ok();
    held.agent.remove_all();
    held.publish(B10359).fails(1, &none);
    let line = words(&format!("publish {B10359} {KEYS} --now {NOW}"));
    let mut unset = held.world.command();
    Run::of(unset.args(&line).env_remove("SSH_AUTH_SOCK")).fails(
        1,
        "error: there is no ssh-agent: the variable SSH_AUTH_SOCK is not set\n\
         help: start one: eval \"$(ssh-agent)\", then ssh-add FILE\n",
    );
    let mut gone = held.world.command();
    Run::of(gone.args(&line).env("SSH_AUTH_SOCK", "/nowhere/agent")).fails(
        1,
        "error: no ssh-agent listens at `/nowhere/agent`: No such file or directory (os error 2)\n\
         help: the agent has ended, or SSH_AUTH_SOCK is left from another login\n",
    );
}

#[test]
fn key_files_of_ssh_keygen_and_openssl_sign() {
    let world = World::bare();
    let ssh = keygen(world.folder.path(), "bob@test", "ed25519", "");
    let made = Command::new("openssl")
        .args(["genpkey", "-algorithm", "ed25519", "-out"])
        .arg(world.path("carol.pem"))
        .status();
    assert!(made.unwrap().success());
    fs::set_permissions(world.path("carol.pem"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    let public = |name: &str, file: &str| {
        let line = format!("keygen {name} --import {file} --out {name}.key");
        world.run(&line).ok().out.trim().to_owned()
    };
    let (bob, carol) = (public("bob.test", "bob-test"), public("carol.test", "carol.pem"));
    let made = world.run(&format!(
        "init registry --origin {ORIGIN} --root-key root.key --publisher {bob} --publisher {carol} \
         --threshold-publisher 2 --registry-key registry.key --now {NOW}"
    ));
    let root = made.ok().out.trim().to_owned();
    // The files as those programs wrote them.
    let line = format!(
        "publish {B10167} --key bob-test --key carol.pem --registry-key registry.key --root {root} --now {NOW}"
    );
    world.run(&line).ok();
    world.run(&format!("verify registry --root {root} --now {NOW}")).ok();
    fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    world.run(&line).fails(
        1,
        "error: the key file `bob-test` can be used by others than its owner (mode 644)\nhelp: chmod 600 bob-test\n",
    );
}

#[test]
fn key_files_that_cannot_be_used_say_what_can() {
    let world = World::bare();
    keygen(world.folder.path(), "locked@test", "ed25519", "passphrase");
    world.run("keygen bob.test --import locked-test --out bob.key").fails(
        1,
        "error: the key file `locked-test` is encrypted with a passphrase (`aes256-ctr`)\n\
         help: put it into the agent, `ssh-add locked-test`, and give `agent:NAME` instead of the file\n",
    );
    keygen(world.folder.path(), "curve@test", "ecdsa", "");
    world.run("keygen bob.test --import curve-test --out bob.key").fails(
        1,
        "error: the key file `curve-test` is a `ecdsa-sha2-nistp256` key, only `ssh-ed25519` is accepted\n\
         help: make one with `capgate keygen`, or with `ssh-keygen -t ed25519`\n",
    );
    assert!(!world.path("bob.key").exists());
}

#[test]
fn a_profile_is_signed_with_a_key_in_the_agent_and_published_by_another() {
    let held = Held::new();
    let note = format!("{B10167}.note");
    let signed = held.run(&format!("sign profiles.d/{B10167}.toml --key agent:alice.test --now {NOW}")).ok();
    assert!(signed.out.ends_with(&format!("signed: 1 of 1 (alice.test), in {note}\n")), "{}", signed.out);
    held.run(&format!("publish --note {note} --registry-key agent:{ORIGIN} --now {NOW}")).ok();
    let verified = held.run(&format!("verify registry --now {NOW}")).ok();
    assert!(verified.err.is_empty(), "{}", verified.err);
    // What is in force is signed by a key in the agent, too.
    let latest = held.world.read("registry/snapshot/latest.note");
    assert!(latest.contains(&format!("\n\u{2014} {ORIGIN} ")), "{latest}");
}

#[test]
fn the_public_line_of_a_key_that_exists_is_shown() {
    let world = World::bare();
    let agent = SshAgent::start();
    let file = keygen(world.folder.path(), "carol@test", "ed25519", "");
    agent.add(&file);
    let run = |line: &str| Run::of(world.command().args(words(line)).env("SSH_AUTH_SOCK", agent.socket()));
    // The file of `capgate keygen` has a name of its own.
    let alice = run("key show alice.key").ok().out;
    assert!(alice.starts_with("alice.test+") && alice.ends_with('\n'), "{alice}");
    assert_eq!(run("key show alice.key --name alice.test").ok().out, alice);
    run("key show alice.key --name bob.test")
        .fails(2, "error: the key has a name already: `alice.test`\nhelp: leave `--name` out\n");
    // The other kinds get one.
    let carol = run("key show carol-test --name carol.test").ok().out;
    assert_eq!(run("keygen carol.test --import carol-test --out carol.key").ok().out, carol);
    for key in ["carol.key", "'agent:carol@test' --name carol.test", &format!("agent:{}", carol.trim())] {
        assert_eq!(run(&format!("key show {key}")).ok().out, carol, "{key}");
    }
    let json = run("--format json key show carol.key").ok().json();
    assert_eq!(
        (json["name"].as_str(), json["verifier_key"].as_str()),
        (Some("carol.test"), Some(carol.trim()))
    );
    for key in ["carol-test", "agent:carol@test"] {
        run(&format!("key show {key}")).fails(
            2,
            &format!("error: the key `{key}` has no name of its own\nhelp: say under which it signs: `--name NAME`\n"),
        );
    }
    // Alice's key is in no agent.
    let gone = run(&format!("key show agent:{}", alice.trim()));
    assert_eq!(gone.exit, 1);
    assert!(
        gone.err.starts_with("error: the ssh-agent does not hold the key `alice.test` (SHA256:"),
        "{}",
        gone.err
    );
    // Nothing secret is said.
    assert!(!world.run("key show alice.key").out.contains("PRIVATE"));
    assert_eq!(run("key show none.key").exit, 1);
}
