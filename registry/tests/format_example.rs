//! The worked example of docs/format.md is what this code writes, byte for byte.
//!
//! After a change of format, `CAPGATE_WRITE_DOCS=1 cargo test -p capgate-registry --test format_example` writes it anew.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

mod support;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use capgate_registry::merkle::Hash;
use capgate_registry::profile::Profile;
use support::{World, time};

const BEGIN: &str = "<!-- example: begin -->\n";
const END: &str = "<!-- example: end -->\n";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The registry of the example: TEST keys, an empty first version, then one real profile.
fn world(toml: &str) -> World {
    let mut world = World::new();
    world.now = time("2026-12-01T12:00:00Z");
    world.publish(&[world.sign(toml)]).unwrap();
    world
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, line) in bytes.chunks(16).enumerate() {
        let pairs: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{:04x}  {}", at * 16, pairs.join(" ")).unwrap();
    }
    text
}

fn block(text: &mut String, about: &str, content: &str) {
    write!(text, "\n{about}\n\n```text\n{}\n```\n", content.trim_end_matches('\n')).unwrap();
}

fn render() -> String {
    let path = repository().join("profiles.d/m1-ultra-25g76-25f84-llama-bench-b10167.toml");
    let toml = fs::read_to_string(path).unwrap();
    let world = world(&toml);
    let profile = Profile::parse(toml.as_bytes()).unwrap();
    let combination = &profile.combinations()[0];
    let reader = world.open().unwrap();
    let (latest, key) = (reader.latest().clone(), combination.key());
    let snapshot = world.store.get(&latest.snapshot_path());
    let record = reader.snapshot().find(&key).unwrap().unwrap();
    let note = world.sign(&toml);
    let file = |path: &str| String::from_utf8(world.store.get(path)).unwrap();
    let lines: Vec<&str> = str::from_utf8(&note).unwrap().lines().collect();

    let mut text = String::new();
    block(&mut text, "Canonical bytes of the combination. Each line ends in LF.", &combination.canonical());
    block(&mut text, "Its key, the SHA-256 of these bytes:", &key.to_string());
    let about = format!("`trust/1.note`. Its SHA-256 is the pin, `sha256:{}`.", world.pin);
    block(&mut text, &about, &file("trust/1.note"));
    let shown = format!("{}\n{}\n…\n\n{}", lines[0], lines[1], lines[lines.len() - 1]);
    let about = format!(
        "The signed profile, entry 0 of the log: {} bytes with the SHA-256 `{}`. Between the first two lines and the \
         signature stands the rest of the file in `profiles.d/`, unchanged.",
        note.len(),
        Hash::of(&note)
    );
    block(&mut text, &about, &shown);
    block(&mut text, "`log/checkpoint`", &file("log/checkpoint"));
    block(&mut text, "`snapshot/latest.note`", &file("snapshot/latest.note"));
    let files = world.store.files.borrow();
    let files: Vec<String> =
        files.iter().map(|(path, bytes)| format!("{:>6}  {path}", bytes.len())).collect();
    block(&mut text, "Every file of the registry, with its size in bytes:", &files.join("\n"));
    let about = format!("The first 64 bytes of the snapshot, {} bytes in all:", snapshot.len());
    block(&mut text, &about, &hex(&snapshot[..64]));
    let about = format!(
        "Its only record begins at byte 64 and has {} bytes. These are the first 44: key, count 1, log index 0, and \
         {} as the length of the note.",
        record.len(),
        note.len()
    );
    block(&mut text, &about, &hex(&record[..44]));
    assert_eq!(record.last(), Some(&0), "not revoked");
    block(&mut text, "The record's last byte, behind the note:", &hex(&record[record.len() - 1..]));
    let about = "The index entry at byte 16384: the key, 64 as the offset, and the record's length.";
    block(&mut text, about, &hex(&snapshot[16_384..16_384 + 44]));
    let about = "The hash at byte 32768. With one record, the leaf hash is the root.";
    block(&mut text, about, &hex(&snapshot[32_768..32_768 + 32]));
    block(
        &mut text,
        "The entry that would revoke the profile:",
        str::from_utf8(&world.revocation(profile.id.as_str(), "harmful")).unwrap(),
    );
    text + "\n"
}

#[test]
fn the_example_in_the_format_is_what_is_written() {
    let path = repository().join("docs/format.md");
    let document = fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the example begins");
    let (shown, after) = rest.split_once(END).expect("the example ends");
    let example = render();
    if std::env::var_os("CAPGATE_WRITE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{example}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(shown, example, "docs/format.md shows another example");
}
