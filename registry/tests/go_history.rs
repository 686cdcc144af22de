//! Go's own note and tlog verify everything that a registry of 10,000 entries ever signed, over 50 publications, three
//! rotations of the registry key, and revocations.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking"
)]

mod support;

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::process::Command;

use capgate_registry::keys::SigningKey;
use capgate_registry::log::CHECKPOINT;
use capgate_registry::note::{self, Kind};
use capgate_registry::publish::{self, LIFE, Terms};
use capgate_registry::reader::read_chain;
use capgate_registry::trust::{Role, Trust};
use support::{ORIGIN, World, key, origin, profile};

const PUBLICATIONS: u64 = 50;
const EACH: u64 = 200;

/// `None` where Go or its packages are missing, with a line that says so.
fn verify_program() -> Option<std::path::PathBuf> {
    let packages = Path::new("/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog");
    if !packages.is_dir() || Command::new("go").arg("version").output().is_err() {
        eprintln!("left out: golang-go or golang-golang-x-mod-dev is not installed");
        return None;
    }
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let binary = temporary.join("go-history");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&binary)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/go/verify"))
        .envs([
            ("GO111MODULE", "off"),
            ("GOPATH", "/usr/share/gocode"),
            ("GOFLAGS", ""),
            ("CGO_ENABLED", "0"),
        ])
        .env("GOCACHE", temporary.join("go-cache"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(binary)
}

/// The registry key is replaced: the old one signs nothing any more.
fn rotate(world: &mut World, seed: u8) {
    let current = read_chain(&world.store, &world.pin, None).unwrap().current().clone();
    world.registry = key(ORIGIN, seed);
    let log_index = world.open().unwrap().latest().log_size;
    let role = Role { threshold: 1, keys: vec![world.registry.verifier().clone()] };
    let next = Trust { version: current.version + 1, log_index, registry: role, ..current };
    let text = note::compose(Kind::Trust, &origin(), &next.to_toml()).unwrap();
    let bytes = note::sign(&text, &[&key("root.test", 1)]).unwrap();
    let keys = [SigningKey::parse(&world.registry.encode().unwrap()).unwrap()];
    let threads = NonZero::new(2).unwrap();
    let terms = Terms { keys: &keys, now: world.now, life: LIFE, renew: false, threads };
    publish::rotate(&world.store, &world.pin, &bytes, &terms, &mut |_| {}).unwrap();
}

#[test]
fn go_verifies_a_history_of_10_000_entries_50_publications_and_3_rotations() {
    let Some(program) = verify_program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    fs::create_dir(&kept).unwrap();
    let mut world = World::new();
    let mut keys = vec![world.registry.verifier().to_string()];
    let mut count = 0;
    let mut keep = |world: &World| {
        fs::write(kept.join(count.to_string()), world.store.get(CHECKPOINT)).unwrap();
        count += 1;
    };
    keep(&world);
    for publication in 0..PUBLICATIONS {
        let first = publication * EACH;
        let mut notes: Vec<Vec<u8>> =
            (first..first + EACH - 1).map(|n| world.sign(&profile(&format!("profile-{n}"), n))).collect();
        notes.push(world.revocation(&format!("profile-{first}"), "withdrawn"));
        world.publish(&notes).unwrap();
        keep(&world);
        if publication % 15 == 14 {
            rotate(&mut world, 40 + publication as u8);
            keys.push(world.registry.verifier().to_string());
            keep(&world);
        }
    }
    assert_eq!((world.open().unwrap().latest().log_size, keys.len(), count), (10_000, 4, 54));
    for (path, bytes) in world.store.files.borrow().iter() {
        let path = folder.path().join("registry").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let registry = folder.path().join("registry");
    let run = |keys: &[String]| {
        let line = [Path::new("-history"), &registry, &kept, Path::new("1000")];
        Command::new(&program).args(line).args(keys).output().unwrap()
    };
    let output = run(&keys);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.ends_with(&format!("verified {} things\n", 54 + 53 + 1_000)), "{stdout}");
    // Without the key of a time, or with one checkpoint of another history, it refuses.
    let output = run(&keys[..3]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("checkpoint 48: "), "{output:?}");
    let other = World::new();
    let notes: Vec<Vec<u8>> = (0..400).map(|n| other.sign(&profile(&format!("other-{n}"), n))).collect();
    other.publish(&notes).unwrap();
    fs::write(kept.join("2"), other.store.get(CHECKPOINT)).unwrap();
    let output = run(&keys);
    assert!(String::from_utf8_lossy(&output.stderr).contains("verify: checkpoint "), "{output:?}");
    assert!(!output.status.success());
}
