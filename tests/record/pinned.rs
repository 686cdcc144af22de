//! What a run was made of: digests, images, and a cache that is never wrong; and the committed records.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::support::Run;
use super::{capgate, record, written};

fn file<'v>(found: &'v Value, role: &str, name: &str) -> &'v Value {
    let files = found["files"].as_array().unwrap();
    let is_it = |file: &&Value| file["role"] == role && file["path"].as_str().unwrap().ends_with(name);
    files.iter().find(is_it).unwrap_or_else(|| panic!("{role} {name}: {found}"))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn program_images_model_and_vm_image_are_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("model.gguf"), "weights").unwrap();
    fs::write(path.join("disk.img"), "disk").unwrap();
    let words = ["--vm-image", "disk.img", "--", "sh", "-c", "sleep 0.3; exit 0", "sh", "--model=model.gguf"];
    record(path, "run.json", &words).ok();
    let found = written(path, "run.json");
    assert_eq!(file(&found, "argument", "/model.gguf")["sha256"], sha256(b"weights"));
    assert_eq!(file(&found, "vm-image", "/disk.img")["sha256"], sha256(b"disk"));
    let program = file(&found, "program", "/sh");
    let real = fs::canonicalize(program["path"].as_str().unwrap()).unwrap();
    assert_eq!(program["sha256"], sha256(&fs::read(real).unwrap()));
    let libc = file(&found, "image", "libc.so.6");
    assert_eq!(libc["sha256"], sha256(&fs::read(libc["path"].as_str().unwrap()).unwrap()));
    // The shell waits for a child, which is looked at, too.
    assert!(file(&found, "executable", "/sleep")["sha256"].is_string());
    let library = found["capabilities"]["libraries"].as_array().unwrap();
    let libc = library.iter().find(|library| library["name"] == "libc.so.6").unwrap();
    assert!(libc["version"].as_str().unwrap().starts_with("GLIBC_2."), "{libc}");
}

#[test]
fn what_a_program_opens_later_is_seen_and_said_to_be_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("late.c"), "int late(void) { return 1; }\n").unwrap();
    let program = "#include <dlfcn.h>\n#include <unistd.h>\n\
                   int main(void) { if (!dlopen(\"./backend.so\", RTLD_NOW)) return 1; usleep(400000); return 0; }\n";
    fs::write(path.join("main.c"), program).unwrap();
    for words in
        [&["-shared", "-fPIC", "-o", "backend.so", "late.c"][..], &["-o", "program", "main.c", "-ldl"]]
    {
        assert!(Command::new("cc").current_dir(path).args(words).status().unwrap().success());
    }
    record(path, "run.json", &["./program"]).ok();
    let found = written(path, "run.json");
    let libraries = found["capabilities"]["libraries"].as_array().unwrap();
    let loaded =
        |name: &str| libraries.iter().find(|library| library["name"] == name).unwrap()["loaded"].clone();
    assert_eq!((loaded("backend.so"), loaded("libc.so.6")), ("later".into(), "start".into()));
    assert_eq!(
        file(&found, "image", "/backend.so")["sha256"],
        sha256(&fs::read(path.join("backend.so")).unwrap())
    );
}

#[test]
fn a_script_is_the_program_and_its_interpreter_the_executable() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    fs::write(&path, "#!/bin/sh\nexit 5\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(record(folder.path(), "run.json", &["./script"]).exit, 5);
    let found = written(folder.path(), "run.json");
    assert_eq!(file(&found, "program", "/script")["sha256"], sha256(b"#!/bin/sh\nexit 5\n"));
    let shell = fs::canonicalize("/bin/sh").unwrap();
    assert!(file(&found, "executable", shell.to_str().unwrap())["sha256"].is_string());
}

#[test]
fn a_file_over_a_gibibyte_is_hashed_once_and_again_once_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.gguf");
    let size = (1u64 << 30) + 1;
    File::create(&path).unwrap().set_len(size).unwrap();
    let time = path.metadata().unwrap().modified().unwrap();
    let take = |name: &str| {
        record(folder.path(), name, &["true", "large.gguf"]).ok();
        let found = written(folder.path(), name);
        let entry = file(&found, "argument", "/large.gguf");
        assert_eq!(entry["size"], size);
        (entry["sha256"].as_str().unwrap().to_owned(), entry["cached"].as_bool().unwrap())
    };
    // What changed a moment ago is not remembered.
    std::thread::sleep(Duration::from_millis(3_100));
    let (zeros, cached) = take("first.json");
    assert!(!cached);
    assert_eq!(take("second.json"), (zeros.clone(), true));
    // One byte, and the old time: what the kernel notes of it cannot be set back.
    let mut changed = File::options().write(true).open(&path).unwrap();
    changed.write_all(b"1").unwrap();
    changed.set_modified(time).unwrap();
    drop(changed);
    assert_eq!(path.metadata().unwrap().modified().unwrap(), time);
    let (other, cached) = take("third.json");
    assert!(!cached && other != zeros);
}

#[test]
fn a_model_that_changes_while_the_program_runs_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m.gguf"), "before").unwrap();
    record(folder.path(), "run.json", &["sh", "-c", "echo after > m.gguf", "sh", "m.gguf"]).ok();
    let found = written(folder.path(), "run.json");
    assert_eq!(file(&found, "argument", "/m.gguf")["sha256"], sha256(b"after\n"));
    assert!(found["notes"].to_string().contains("/m.gguf` changed while the program ran"), "{found}");
}

#[test]
fn what_cannot_be_hashed_is_unknown_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m.gguf"), "x").unwrap();
    record(folder.path(), "run.json", &["sh", "-c", "rm m.gguf", "sh", "m.gguf"]).ok();
    let found = written(folder.path(), "run.json");
    assert_eq!(file(&found, "argument", "/m.gguf")["sha256"], Value::Null);
    assert!(found["unknown"].to_string().contains("No such file"), "{found}");
}

#[test]
fn raw_samples_are_summed_up_and_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/llama-bench/small-10x.json");
    let raw = fs::read(&here).unwrap();
    let words = [
        "--samples",
        "bench.json",
        "--samples",
        "none.json",
        "--",
        "cp",
        here.to_str().unwrap(),
        "bench.json",
    ];
    record(folder.path(), "run.json", &words).ok();
    let found = written(folder.path(), "run.json");
    let samples = &found["run"]["samples"][0];
    assert_eq!(samples["n"], 10);
    let (least, median, most) = (&samples["least"], &samples["median"], &samples["most"]);
    assert!(
        least.as_f64() <= median.as_f64() && median.as_f64() <= most.as_f64() && least.as_f64() > Some(0.0)
    );
    assert_eq!(file(&found, "samples", "/bench.json")["sha256"], sha256(&raw));
    assert!(found["unknown"].to_string().contains("none.json"), "{found}");
}

#[test]
fn the_committed_records_are_read_and_each_change_is_refused_with_its_place() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records");
    let work = tempfile::tempdir().unwrap();
    let show = |path: &Path| Run::of(capgate(work.path()).args(["record", "show"]).arg(path));
    let mut good: Vec<_> =
        fs::read_dir(folder.join("good")).unwrap().map(|entry| entry.unwrap().path()).collect();
    good.sort();
    assert!(good.len() >= 2);
    for path in &good {
        show(path).ok();
    }
    let rows: toml::Table = fs::read_to_string(folder.join("bad.toml")).unwrap().parse().unwrap();
    assert!(rows.len() >= 20, "{}", rows.len());
    for (name, row) in &rows {
        let mut document: Value =
            serde_json::from_slice(&fs::read(folder.join("good/linux.json")).unwrap()).unwrap();
        change(&mut document, row.as_table().unwrap());
        let path = work.path().join(format!("{name}.json"));
        fs::write(&path, document.to_string()).unwrap();
        let run = show(&path);
        let message = row["message"].as_str().unwrap();
        assert_eq!(run.exit, 4, "{name}: {}", run.err);
        assert!(run.err.contains(message), "{name}: {message}\n{}", run.err);
    }
}

/// What a row of `bad.toml` says: `remove` a member, or `set` one `to` a JSON text.
fn change(document: &mut Value, row: &toml::Table) {
    let text = |key: &str| row.get(key).and_then(toml::Value::as_str);
    let pointer = text("remove").or(text("set")).unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap();
    match text("to") {
        None => assert!(parent.as_object_mut().unwrap().remove(key).is_some()),
        Some(json) => {
            let value: Value = serde_json::from_str(json).unwrap();
            match parent {
                Value::Object(members) => drop(members.insert(key.to_owned(), value)),
                Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
                _ => panic!("{pointer}"),
            }
        }
    }
}
