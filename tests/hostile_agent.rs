//! Agents that lie, stall or babble: nothing that they say gets into a registry.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use capgate_registry::keys::SigningKey;
use support::{B10167, NOW, ORIGIN, Run, World, words};

const LIST: u8 = 11;
const SIGN: u8 = 13;

/// What an agent answers to a request to sign these bytes. `None`: it closes the connection.
type Answer = fn(&SigningKey, &[u8]) -> Option<Vec<u8>>;

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn response(kind: &str, signature: &[u8]) -> Vec<u8> {
    let inner = [string(kind.as_bytes()), string(signature)].concat();
    string(&[&[14], string(&inner).as_slice()].concat())
}

/// Takes a string off the front.
fn take<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let (length, rest) = bytes.split_first_chunk().unwrap();
    let (string, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
    *bytes = rest;
    string
}

/// An agent that lists alice's key truly, and answers requests to sign as it was made to.
struct Hostile {
    folder: tempfile::TempDir,
    ends: Arc<AtomicBool>,
    served: Option<JoinHandle<()>>,
}

impl Hostile {
    fn start(answer: Answer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let served = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                serve(stream, answer);
            }
        });
        Self { folder, ends, served: Some(served) }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        drop(UnixStream::connect(self.socket()));
        self.served.take().unwrap().join().unwrap();
    }
}

/// One request on one connection, as the client does it.
fn serve(mut stream: UnixStream, answer: Answer) {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut request = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut request).unwrap();
    let key = alice();
    let said = match request[0] {
        LIST => {
            let blob = [string(b"ssh-ed25519"), string(key.verifier().public())].concat();
            let list = [&[12, 0, 0, 0, 1], string(&blob).as_slice(), &string(b"alice@test")].concat();
            Some(string(&list))
        }
        SIGN => {
            let mut fields = &request[1..];
            let _key = take(&mut fields);
            answer(&key, take(&mut fields))
        }
        other => panic!("a request of type {other}"),
    };
    // Who refuses an answer by its length does not wait for the rest.
    if let Some(said) = said {
        let _ = stream.write_all(&said);
    }
}

fn alice() -> SigningKey {
    SigningKey::from_seed("alice.test", [1; 32]).unwrap()
}

fn mallory() -> SigningKey {
    SigningKey::from_seed("mallory.test", [2; 32]).unwrap()
}

/// A registry whose publisher's key the agent says it holds.
fn world() -> World {
    let mut world = World::bare();
    let made = world.run(&format!(
        "init registry --origin {ORIGIN} --root-key root.key --publisher {} --registry-key registry.key --now {NOW}",
        alice().verifier()
    ));
    made.ok().out.trim().clone_into(&mut world.root);
    world
}

fn run(world: &World, agent: &Hostile, line: &str) -> Run {
    Run::of(world.command().args(words(line)).env("SSH_AUTH_SOCK", agent.socket()))
}

fn sign() -> String {
    format!("sign profiles.d/{B10167}.toml --key agent:alice.test --out x.note --now {NOW}")
}

fn publish() -> String {
    format!("publish {B10167} --key agent:alice.test --registry-key registry.key --now {NOW}")
}

#[test]
fn the_same_agent_is_believed_where_it_is_honest() {
    let world = world();
    let honest = Hostile::start(|key, text| Some(response("ssh-ed25519", &key.sign(text).unwrap())));
    run(&world, &honest, &sign()).ok();
    run(&world, &honest, &publish()).ok();
    world.run(&format!("publish --note x.note --registry-key registry.key --now {NOW}")).ok();
}

#[test]
fn nothing_that_an_agent_makes_up_is_used() {
    const WRONG: &str = "answered with a signature that is not that key's over this text";
    let cases: [(&str, Answer, &str); 10] = [
        ("another key's", |_, text| Some(response("ssh-ed25519", &mallory().sign(text).unwrap())), WRONG),
        (
            "over another text",
            |key, text| Some(response("ssh-ed25519", &key.sign(&[text, b"\n"].concat()).unwrap())),
            WRONG,
        ),
        ("zeroes", |_, _| Some(response("ssh-ed25519", &[0; 64])), WRONG),
        (
            "an RSA signature",
            |_, _| Some(response("rsa-sha2-512", &[7; 256])),
            "its signature is `rsa-sha2-512`, `ssh-ed25519` was asked for",
        ),
        ("too short", |_, _| Some(response("ssh-ed25519", &[7; 63])), "its answer is malformed"),
        ("too long", |_, _| Some(response("ssh-ed25519", &[7; 65])), "its answer is malformed"),
        ("endless", |_, _| Some(vec![0xff; 1 << 22]), "its answer is said to have 4294967295 bytes"),
        (
            "the list again",
            |_, _| Some(string(&[12, 0, 0, 0, 0])),
            "is a message of type 12, 14 was expected",
        ),
        ("a refusal", |_, _| Some(string(&[5])), "refuses; it was locked, it wants a confirmation"),
        ("nothing", |_, _| None, "broke off: failed to fill whole buffer"),
    ];
    let world = world();
    let before = world.read("registry/snapshot/latest.note");
    for (what, answer, wanted) in cases {
        let agent = Hostile::start(answer);
        for line in [sign(), publish()] {
            let run = run(&world, &agent, &line);
            assert_eq!(run.exit, 1, "{what}: {}{}", run.out, run.err);
            assert!(
                run.err.contains("cannot be signed: ") && run.err.contains(wanted),
                "{what}: {}",
                run.err
            );
        }
        assert!(!world.path("x.note").exists(), "{what}");
        assert_eq!(world.read("registry/snapshot/latest.note"), before, "{what}");
    }
    world.run(&format!("verify registry --now {NOW}")).ok();
}

#[test]
fn a_draft_keeps_its_bytes_where_an_agent_lies() {
    let mut world = World::bare();
    let root = SigningKey::from_seed("root-b.test", [1; 32]).unwrap();
    let made = world.run(&format!(
        "init registry --origin {ORIGIN} --root-key root.key --publisher alice.key --registry-key registry.key --now {NOW}"
    ));
    made.ok().out.trim().clone_into(&mut world.root);
    world.run(&format!("trust add-key root {} --now {NOW}", root.verifier())).ok();
    let draft = world.read("trust-next.note");
    let agent = Hostile::start(|_, text| Some(response("ssh-ed25519", &mallory().sign(text).unwrap())));
    let signed =
        run(&world, &agent, &format!("trust sign trust-next.note --key agent:root-b.test --now {NOW}"));
    assert_eq!(signed.exit, 1, "{}", signed.err);
    assert!(signed.err.contains("answered with a signature that is not that key's"), "{}", signed.err);
    assert_eq!(world.read("trust-next.note"), draft);
}

#[test]
fn a_key_is_named_only_if_its_private_half_signs() {
    const LINE: &str = "keygen alice.test --agent alice@test";
    let world = World::bare();
    let honest = Hostile::start(|key, text| Some(response("ssh-ed25519", &key.sign(text).unwrap())));
    let line = format!("{}\n", alice().verifier());
    assert_eq!(run(&world, &honest, LINE).ok().out, line);
    let lies: Answer = |_, text| Some(response("ssh-ed25519", &mallory().sign(text).unwrap()));
    let refuses: Answer = |_, _| Some(string(&[5]));
    for answer in [lies, refuses] {
        let run = run(&world, &Hostile::start(answer), LINE);
        assert!(run.exit == 1 && run.out.is_empty(), "{} {}", run.out, run.err);
        assert!(run.err.contains("the key `alice@test` does not sign"), "{}", run.err);
    }
}
