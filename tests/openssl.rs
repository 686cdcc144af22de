//! A note that openssl signs, put together as docs/format.md says, with no code of ours.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};
use support::{B10167, NOW, ORIGIN, Run, World, words};

/// Runs openssl in a folder; that it is missing is a failure.
fn openssl(folder: &Path, line: &str) -> Run {
    Run::of(Command::new("openssl").current_dir(folder).args(words(line))).ok()
}

/// Standard base64 of bytes, as openssl writes it.
fn base64(folder: &Path, bytes: &[u8]) -> String {
    fs::write(folder.join("bytes"), bytes).unwrap();
    openssl(folder, "base64 -A -in bytes").out
}

/// The 32 public bytes: the last ones of its SubjectPublicKeyInfo (RFC 8410).
fn public_bytes(folder: &Path) -> [u8; 32] {
    openssl(folder, "pkey -in key.pem -pubout -outform DER -out public.der");
    *fs::read(folder.join("public.der")).unwrap().last_chunk().unwrap()
}

/// The first 4 bytes of SHA-256(NAME || 0x0A || 0x01 || 32 public bytes).
fn hash(name: &str, public: &[u8; 32]) -> [u8; 4] {
    let digest = Sha256::digest([name.as_bytes(), b"\n\x01", public].concat());
    *digest.first_chunk().unwrap()
}

/// `NAME+HASH+BASE64(0x01 || 32 public bytes)`
fn verifier_key(folder: &Path, name: &str) -> String {
    let public = public_bytes(folder);
    let hex: String = hash(name, &public).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name}+{hex}+{}", base64(folder, &[&[1], public.as_slice()].concat()))
}

/// The text, an empty line, and `— NAME BASE64(4 bytes of key hash || signature)`.
fn signed(folder: &Path, name: &str, text: &str) -> String {
    fs::write(folder.join("text"), text).unwrap();
    openssl(folder, "pkeyutl -sign -rawin -inkey key.pem -in text -out signature");
    let signature = fs::read(folder.join("signature")).unwrap();
    assert_eq!(signature.len(), 64);
    let material = [hash(name, &public_bytes(folder)).as_slice(), &signature].concat();
    format!("{text}\n\u{2014} {name} {}\n", base64(folder, &material))
}

#[test]
fn a_note_that_openssl_signed_is_published() {
    let mut world = World::bare();
    let folder = world.folder.path().to_owned();
    openssl(&folder, "genpkey -algorithm ed25519 -out key.pem");
    let key = verifier_key(&folder, "bob.test");
    let made = world.run(&format!(
        "init registry --origin {ORIGIN} --root-key root.key --publisher {key} --registry-key registry.key --now {NOW}"
    ));
    made.ok().out.trim().clone_into(&mut world.root);
    let profile = world.read(&format!("profiles.d/{B10167}.toml"));
    let text = format!("# capgate profile v1 {ORIGIN}\n{profile}");
    let note = signed(&folder, "bob.test", &text);
    let publish =
        |file: &str| world.run(&format!("publish --note {file} --registry-key registry.key --now {NOW}"));
    // Its own signature over another text, and another name for the key.
    world.put("other.note", &note.replace("Tahoe guest", "Tahoe  guest"));
    let other = publish("other.note");
    assert_eq!(other.exit, 4);
    assert!(other.err.contains("the signature by `bob.test` does not verify"), "{}", other.err);
    world.put("renamed.note", &note.replace("\u{2014} bob.test", "\u{2014} carol.test"));
    let renamed = publish("renamed.note");
    assert_eq!(renamed.exit, 4);
    assert!(renamed.err.contains("signed by 0 of the 1 publishers"), "{}", renamed.err);
    world.put("bob.note", &note);
    publish("bob.note").ok();
    let verified = world.run(&format!("verify registry --now {NOW}")).ok();
    assert!(verified.err.is_empty(), "{}", verified.err);
    let listed = world.run(&format!("list --format json --now {NOW}")).ok().json();
    assert_eq!((&listed[0]["id"], &listed[0]["signers"][0]), (&B10167.into(), &"bob.test".into()));
}

#[test]
fn a_public_line_made_by_hand_is_the_one_that_is_shown() {
    let world = World::bare();
    let folder = world.folder.path();
    openssl(folder, "genpkey -algorithm ed25519 -out key.pem");
    fs::set_permissions(folder.join("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
    let key = verifier_key(folder, "bob.test");
    assert_eq!(world.run("key show key.pem --name bob.test").ok().out, format!("{key}\n"));
}

#[test]
fn the_commands_in_the_description_of_the_format_sign() {
    let mut world = World::bare();
    let folder = world.folder.path().to_owned();
    openssl(&folder, "genpkey -algorithm ed25519 -out alice.pem");
    fs::set_permissions(folder.join("alice.pem"), fs::Permissions::from_mode(0o600)).unwrap();
    let key = world.run("key show alice.pem --name alice.example").ok().out;
    world.run("keygen example.org/gpu --out made.key").ok();
    let made = world.run(&format!(
        "init registry --origin example.org/gpu --root-key root.key --publisher {} --registry-key made.key --now {NOW}",
        key.trim()
    ));
    made.ok().out.trim().clone_into(&mut world.root);
    fs::copy(folder.join(format!("profiles.d/{B10167}.toml")), folder.join("ID.toml")).unwrap();
    let format = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/format.md")).unwrap();
    let section = format.split_once("### Signing without capgate\n").unwrap().1;
    let script = section.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
    Run::of(Command::new("sh").current_dir(&folder).args(["-euc", script])).ok();
    world.run(&format!("publish --note ID.note --registry-key made.key --now {NOW}")).ok();
    world.run(&format!("verify registry --now {NOW}")).ok();
}
