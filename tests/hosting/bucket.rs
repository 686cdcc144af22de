//! A bucket of an S3 server, s3s-fs: published to, followed, verified.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use crate::proxy::{Fault, Proxy};
use crate::random::seed;
use crate::registry::{KEYS, listed, profiles};
use crate::server::{Server, free_port};
use crate::site::Site;
use crate::support::{B10167, B10359, NOW, Run, World};

pub const URL: &str = "s3://test-bucket/team/gpu";

/// The server where this machine has it. `cargo xtask test` installs it and says where.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("CAPGATE_S3S_FS").map(PathBuf::from);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = named.or_else(|| {
        std::env::split_paths(&folders).map(|folder| folder.join("s3s-fs")).find(|path| path.is_file())
    });
    if found.is_none() {
        println!("left out: s3s-fs is not installed; `cargo xtask test --only hosting` does it");
    }
    found
}

/// A world, and an empty bucket behind a proxy.
pub struct Bucket(pub Site);

impl Bucket {
    pub fn new(seed: u64) -> Option<Self> {
        let program = program()?;
        let world = World::new();
        let folder = world.path("s3");
        fs::create_dir_all(folder.join("test-bucket")).unwrap();
        let port = free_port();
        let mut command = Command::new(program);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        // Credentials of this test alone.
        command.args(["--access-key", "TESTACCESSKEY", "--secret-key", "test-secret-key"]).arg(&folder);
        let server = Server::start(command, port, world.path("s3.log"));
        let proxy = Proxy::start(port, seed);
        let settings = vec![
            ("AWS_ENDPOINT", format!("http://127.0.0.1:{}", proxy.port)),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "TESTACCESSKEY".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test-secret-key".to_owned()),
        ];
        let (to, from) = (URL.to_owned(), URL.to_owned());
        // A publication asks for some forty things, of which a few shall go wrong.
        let per_mille = 30;
        Some(Self(Site { world, server: Mutex::new(server), proxy, to, from, per_mille, settings }))
    }

    fn run(&self, line: &str) -> Run {
        self.0.run(line)
    }

    fn publish(&self, what: &str, registry: &str) -> Run {
        self.run(&format!("publish {what} {KEYS} --registry {registry} --to {URL} --now {NOW}"))
    }
}

#[test]
fn a_bucket_is_published_to_followed_and_verified() {
    let Some(bucket) = Bucket::new(seed()) else { return };
    let world = &bucket.0.world;
    let empty = bucket.run(&format!("sync {URL} --to mirror --now {NOW}"));
    assert!(empty.exit == 1 && empty.err.contains("compare the address"), "{}", empty.err);
    let first = bucket.publish(B10167, "registry").ok();
    assert!(first.err.contains(&format!("brought `{URL}` to version 1")), "{}", first.err);
    // A colleague begins with nothing but the digest and the address.
    bucket.publish(B10359, "colleague").ok();
    bucket.run(&format!("sync {URL} --to mirror --now {NOW}")).ok();
    assert_eq!(listed(world, "mirror").len(), 2);
    let verified = bucket.run(&format!("verify {URL} --now {NOW}")).ok();
    assert!(verified.out.contains("verified: no fault"), "{}", verified.out);
    assert!(!verified.out.contains("no listing"), "a bucket has one: {}", verified.out);
    let revoke = format!("revoke {B10167} --reason test --severity withdrawn {KEYS} --to {URL} --now {NOW}");
    bucket.run(&revoke).ok();
    bucket.run(&format!("sync {URL} --to mirror --now {NOW}")).ok();
    assert_eq!(listed(world, "mirror").len(), 1);
    // What a cache before the bucket is told.
    let told: Vec<String> = fs::read_dir(world.path("s3"))
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_file())
        .map(|entry| fs::read_to_string(entry.path()).unwrap())
        .collect();
    for word in ["\"no-cache\"", "immutable"] {
        assert!(told.iter().any(|text| text.contains(word)), "{word}: {told:?}");
    }
}

#[test]
fn what_a_bucket_lacks_is_said() {
    let Some(bucket) = Bucket::new(seed()) else { return };
    let mut command = bucket.0.command();
    command.env("AWS_SECRET_ACCESS_KEY", "wrong").args(["sync", URL, "--to", "mirror", "--now", NOW]);
    let wrong = Run::of(&mut command);
    assert!(wrong.exit == 1 && wrong.err.contains("SignatureDoesNotMatch"), "{}", wrong.err);
    let mut command = bucket.0.command();
    command
        .env("AWS_ENDPOINT", "http://store.example.org")
        .args(["sync", URL, "--to", "mirror", "--now", NOW]);
    let clear = Run::of(&mut command);
    assert!(clear.exit == 2 && clear.err.contains("is not encrypted"), "{}", clear.err);
}

#[test]
fn a_large_snapshot_goes_in_parts() {
    let Some(bucket) = Bucket::new(seed()) else { return };
    let ids: Vec<String> = (0..400).map(|n| format!("profile-{n}")).collect();
    profiles(&bucket.0.world, "many", &ids);
    for id in &ids {
        // As long as a profile may be.
        let name = format!("many/{id}.toml");
        let text = bucket.0.world.read(&name);
        let padding = format!("# {}\n", "x".repeat(97)).repeat((15_900 - text.len()) / 100);
        bucket.0.world.put(&name, &(text + &padding));
    }
    let patient = |line: &str| {
        let mut command = bucket.0.command();
        // The server of the tests is built without optimisation.
        Run::of(command.env("CAPGATE_PATIENCE", "60").args(line.split(' '))).ok()
    };
    patient(&format!("publish --all --profiles many {KEYS} --to {URL} --now {NOW}"));
    let snapshots = fs::read_dir(bucket.0.world.path("s3/test-bucket/team/gpu/snapshot")).unwrap().flatten();
    let largest = snapshots.map(|entry| entry.metadata().unwrap().len()).max().unwrap();
    assert!(largest > 5 << 20, "{largest} bytes are sent in one part");
    patient(&format!("verify {URL} --now {NOW}"));
}

/// The answer to a commit is lost after the commit was made.
#[test]
fn an_answer_that_was_lost_does_not_publish_twice_or_never() {
    let Some(bucket) = Bucket::new(seed()) else { return };
    bucket.publish(B10167, "registry").ok();
    let mut failures = 0;
    bucket.0.proxy.plan(&[Fault::Cut, Fault::Status(500)], 300);
    let done = (0..60).any(|_| {
        let done = bucket.publish(B10359, "registry");
        failures += usize::from(done.exit != 0);
        done.exit == 0
    });
    assert!(done, "never published");
    bucket.0.proxy.plan(&[], 0);
    println!("{failures} failed and were repeated, {:?}", bucket.0.proxy.done());
    bucket.run(&format!("verify {URL} --now {NOW}")).ok();
    let synced = bucket.run(&format!("sync {URL} --to mirror --now {NOW} --format json")).ok().json();
    assert_eq!(synced["log_size"], 2, "{synced}");
}
