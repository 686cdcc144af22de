//! Go's `golang.org/x/mod/sumdb/note` and `tlog`, which share no code with this crate, accept what it writes, refuse
//! what it refuses, and write what it accepts.
//!
//! Left out, with a line that says so, where Debian's `golang-go` and `golang-golang-x-mod-dev` are not installed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use base64ct::{Base64, Encoding};
use capgate_registry::keys::{SigningKey, VerifierKey};
use capgate_registry::log::{CHECKPOINT, Checkpoint, LogReader, append};
use capgate_registry::merkle::{
    Hash, MemoryTree, empty_root, leaf_hash, prove_consistency, prove_inclusion, root,
};
use capgate_registry::note::{Kind, Note, Origin, compose, sign};
use capgate_registry::store::{Listed, ReadAt, Store, StoreError};
use capgate_registry::witness::{WitnessSigner, parse_answer, with_cosignatures};
use jiff::Timestamp;
use tempfile::TempDir;

const GOPATH: &str = "/usr/share/gocode";

/// The verifying program, built once for all tests that run it at the same time.
fn verify_program() -> Option<PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| build("verify")).clone()
}

/// Builds one of the programs in tests/go; `None` where Go or its packages are missing.
fn build(program: &str) -> Option<PathBuf> {
    let packages = Path::new(GOPATH).join("src/golang.org/x/mod/sumdb/tlog");
    let go = Command::new("go").arg("version").output().is_ok_and(|output| output.status.success());
    if !go || !packages.is_dir() {
        eprintln!("left out: golang-go or golang-golang-x-mod-dev is not installed");
        return None;
    }
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let binary = temporary.join(format!("go-{program}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/go").join(program);
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&binary)
        .current_dir(source)
        .envs([("GO111MODULE", "off"), ("GOPATH", GOPATH), ("GOFLAGS", ""), ("CGO_ENABLED", "0")])
        .env("GOCACHE", temporary.join("go-cache"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(binary)
}

/// A TEST key.
fn key(name: &str, byte: u8) -> SigningKey {
    SigningKey::from_seed(name, [byte; 32]).unwrap()
}

fn origin() -> Origin {
    Origin::parse("example.org/gpu").unwrap()
}

/// Reads a folder; only what the log needs.
struct Folder<'a>(&'a Path);

impl Store for Folder<'_> {
    fn read(&self, path: &str, _: u64) -> Result<Vec<u8>, StoreError> {
        fs::read(self.0.join(path)).map_err(|error| StoreError::io(path, error))
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        Err(StoreError::NotFound { path: path.into() })
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        Ok(vec![])
    }
}

/// A registry of signed profiles on disk, grown in the steps given.
struct Published {
    folder: TempDir,
    registry: SigningKey,
    publisher: SigningKey,
}

impl Published {
    fn new(steps: &[u64]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let published =
            Self { folder, registry: key("example.org/gpu", 1), publisher: key("example.org/gpu/alice", 2) };
        let (mut size, mut root) = (0, empty_root());
        for step in steps {
            let entries = (size..size + step).map(|index| published.entry(index));
            let extension = append(&LogReader::new(&Folder(published.path()), size), &root, entries).unwrap();
            for (path, bytes) in &extension.files {
                published.write(path, bytes);
            }
            (size, root) = (extension.size, extension.root);
        }
        published.commit(size, &root, &root);
        published
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn entry(&self, index: u64) -> Vec<u8> {
        let body = format!("schema = \"1.0.0\"\nid = \"profile-{index}\"\n");
        let kind = if index % 7 == 6 { Kind::Revocation } else { Kind::Profile };
        sign(&compose(kind, &origin(), &body).unwrap(), &[&self.publisher]).unwrap()
    }

    fn commit(&self, size: u64, root: &Hash, latest_root: &Hash) {
        let checkpoint = Checkpoint { origin: origin(), size, root: *root };
        self.write(CHECKPOINT, &sign(&checkpoint.to_text(), &[&self.registry]).unwrap());
        let snapshot = empty_root();
        let body = format!(
            "version = 1\nsize = 0\nroot = \"{snapshot}\"\nlog_size = {size}\nlog_root = \"{latest_root}\"\n"
        );
        let latest = compose(Kind::Latest, &origin(), &body).unwrap();
        self.write("snapshot/latest.note", &sign(&latest, &[&self.registry]).unwrap());
    }

    fn verify(&self, program: &Path) -> Output {
        let keys = [&self.registry, &self.publisher].map(|key| key.verifier().to_string());
        Command::new(program).arg(self.path()).args(keys).output().unwrap()
    }

    fn refused(&self, program: &Path, reason: &str) {
        let output = self.verify(program);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{reason}");
        assert!(stderr.contains(reason), "{stderr}");
    }
}

#[test]
fn go_verifies_published_registries() {
    let Some(program) = verify_program() else { return };
    for (steps, size) in [(&[][..], 0), (&[1], 1), (&[256], 256), (&[100, 157], 257), (&[7, 300, 250], 557)] {
        let output = Published::new(steps).verify(&program);
        assert!(output.status.success(), "{size}: {}", String::from_utf8_lossy(&output.stderr));
        let stdout = String::from_utf8(output.stdout).unwrap();
        // Signature, inclusion and prefix for each entry; two notes, their agreement, and the whole root.
        assert!(stdout.ends_with(&format!("verified {} things\n", 3 * size + 4)), "{stdout}");
    }
}

#[test]
fn go_refuses_tampered_registries() {
    let Some(program) = verify_program() else { return };
    let flip = |published: &Published, path: &str, back: usize| {
        let file = published.path().join(path);
        let mut bytes = fs::read(&file).unwrap();
        let at = bytes.len() - back;
        bytes[at] ^= 1;
        fs::write(file, bytes).unwrap();
    };
    for (path, back, reason) in [
        ("log/checkpoint", 130, "log/checkpoint"),
        ("snapshot/latest.note", 200, "snapshot/latest.note"),
        ("log/tile/0/000", 1, "inclusion of entry 0"),
        ("log/tile/0/001.p/44", 1, "inclusion of entry 0"),
        ("log/tile/1/000.p/1", 1, "inclusion of entry 0"),
        ("log/tile/entries/001.p/44", 150, "entry 299"),
    ] {
        let published = Published::new(&[300]);
        flip(&published, path, back);
        published.refused(&program, reason);
    }

    let published = Published::new(&[5]);
    let entries: MemoryTree = (0..5).map(|index| leaf_hash(&published.entry(index))).collect();
    published.commit(5, &entries.root(), &empty_root());
    published.refused(&program, "latest.note names the log");
    published.commit(4, &entries.root(), &entries.root());
    published.refused(&program, "log/tile/entries/000.p/4");

    // Right hashes, wrong signer.
    let mut published = Published::new(&[3]);
    published.publisher = key("example.org/gpu/alice", 3);
    published.refused(&program, "entry 0");
}

#[test]
fn go_accepts_every_proof_and_refuses_changed_ones() {
    let Some(program) = verify_program() else { return };
    let tree: MemoryTree = (0..9u8).map(|index| leaf_hash(&[index])).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proof");
    let check = |form: &str, head: &[String], proof: &[Hash]| {
        let lines: Vec<String> = head.iter().cloned().chain(proof.iter().map(Hash::to_base64)).collect();
        fs::write(&file, lines.join("\n") + "\n").unwrap();
        Command::new(&program).arg(form).arg(&file).output().unwrap().status.success()
    };
    for size in [1, 2, 3, 8, 9] {
        let whole = root(&tree, size).unwrap();
        for index in 0..size {
            let record = Base64::encode_string(&[u8::try_from(index).unwrap()]);
            let head = [size.to_string(), whole.to_base64(), index.to_string(), record];
            let mut proof = prove_inclusion(&tree, index, size).unwrap();
            assert!(check("-proof", &head, &proof), "{index} of {size}");
            proof.push(whole);
            assert!(!check("-proof", &head, &proof), "{index} of {size}");
        }
        for old in 1..=size {
            let old_root = root(&tree, old).unwrap();
            let head = [old.to_string(), old_root.to_base64(), size.to_string(), whole.to_base64()];
            let mut proof = prove_consistency(&tree, old, size).unwrap();
            assert!(check("-consistency", &head, &proof), "{old} to {size}");
            proof.push(whole);
            assert!(!check("-consistency", &head, &proof), "{old} to {size}");
        }
    }
}

/// What `publish` really writes: latest.note, the checkpoint, every entry's signature and inclusion, and the inclusion of
/// every record of the snapshot in the tree that latest.note signs.
#[test]
fn go_verifies_a_published_registry_and_its_snapshot() {
    let Some(program) = verify_program() else { return };
    let world = support::World::new();
    let numbers = 1..=300u64;
    let notes: Vec<_> = numbers.map(|n| world.sign(&support::profile(&format!("profile-{n}"), n))).collect();
    world.publish(&notes).unwrap();
    world.publish(&[world.revocation("profile-7", "harmful")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (path, bytes) in world.store.files.borrow().iter() {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let registry = world.registry.verifier().to_string();
    let publisher = world.publisher.verifier().to_string();
    let output = Command::new(&program).arg(folder.path()).args([&registry, &publisher]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("301"), "{said}");

    let reader = world.open().unwrap();
    let (snapshot, latest) = (reader.snapshot(), reader.latest());
    assert_eq!(latest.size, 300);
    let file = folder.path().join("proof");
    let accepted = |head: [String; 4], proof: &[Hash]| {
        let lines: Vec<String> = head.into_iter().chain(proof.iter().map(Hash::to_base64)).collect();
        fs::write(&file, lines.join("\n") + "\n").unwrap();
        Command::new(&program).arg("-proof").arg(&file).output().unwrap().status.success()
    };
    for position in (0..latest.size).step_by(7).chain([latest.size - 1]) {
        let record = snapshot.record(position).unwrap();
        let proof = prove_inclusion(snapshot, position, latest.size).unwrap();
        let head = |bytes: &[u8]| {
            let root = latest.root.to_base64();
            [latest.size.to_string(), root, position.to_string(), Base64::encode_string(bytes)]
        };
        assert!(accepted(head(&record), &proof), "record {position}");
        let mut changed = record;
        changed[40] ^= 1;
        assert!(!accepted(head(&changed), &proof), "changed record {position}");
    }
}

#[test]
fn keys_and_notes_made_by_go_are_accepted() {
    let Some(program) = build("sign") else { return };
    for (name, text) in [
        ("example.org/gpu", "# capgate profile v1 example.org/gpu\nschema = \"1.0.0\"\n"),
        ("another.example/with-a-path_and.dots", "one\n\ntwo\n\n\n"),
    ] {
        let mut child =
            Command::new(&program).arg(name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let stdout = String::from_utf8(output.stdout).unwrap();
        let (signing, rest) = stdout.split_once('\n').unwrap();
        let (verifier, signed) = rest.split_once('\n').unwrap();

        let own = SigningKey::parse(signing).unwrap();
        let verifier = VerifierKey::parse(verifier).unwrap();
        assert_eq!(own.verifier(), &verifier);
        assert_eq!(*own.encode().unwrap(), signing);
        // The TEST seed that the program has.
        assert_eq!(own.verifier(), key(name, 7).verifier());
        let note = Note::parse(signed.as_bytes()).unwrap();
        assert_eq!(note.text(), text);
        assert_eq!(note.verify(&[verifier], 1).unwrap().len(), 1);
        assert_eq!(sign(text, &[&own]).unwrap(), signed.as_bytes(), "both write the same bytes");
    }
}

#[test]
fn cosignatures_are_those_that_go_makes_and_accepts() {
    let Some(program) = build("cosigned") else { return };
    let published = Published::new(&[5]);
    let log = published.registry.verifier().to_string();
    let checkpoint = fs::read(published.path().join(CHECKPOINT)).unwrap();
    let text = Note::parse(&checkpoint).unwrap().text().to_owned();
    let witnesses = [11, 12].map(|byte| WitnessSigner::new(key(&format!("witness.test/w{byte}"), byte)));
    let lines = witnesses
        .each_ref()
        .map(|witness| witness.cosign(&text, Timestamp::from_second(1_700_000_000).unwrap()).unwrap());
    let lines = parse_answer(lines.concat().as_bytes()).unwrap();
    let file = published.path().join("cosigned");
    let go = |checkpoint: &[u8], keys: &[String]| {
        fs::write(&file, checkpoint).unwrap();
        Command::new(&program).arg(&file).arg(&log).args(keys).output().unwrap()
    };
    let keys = witnesses.each_ref().map(|witness| witness.verifier().to_string());
    let cosigned = with_cosignatures(&checkpoint, &lines).unwrap();
    let said = go(&cosigned, &keys);
    assert_eq!(
        String::from_utf8_lossy(&said.stdout),
        "witness.test/w11 1700000000\nwitness.test/w12 1700000000\n",
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    // It demands each of them, and notices another text.
    assert!(!go(&with_cosignatures(&checkpoint, &lines[..1]).unwrap(), &keys).status.success());
    let changed = String::from_utf8(cosigned).unwrap().replacen("\n5\n", "\n6\n", 1);
    assert!(!go(changed.as_bytes(), &keys).status.success());

    // The other way round.
    fs::write(&file, &checkpoint).unwrap();
    let seed = "0b".repeat(32);
    let arguments = ["witness.test/w11", &seed, "1700000000"];
    let made = Command::new(&program).arg("-sign").arg(&file).args(arguments).output().unwrap();
    let made = parse_answer(&made.stdout).unwrap();
    assert_eq!(made, lines[..1], "both write the same bytes");
}
