//! Twenty planted secrets: none reaches a record, what is said of it, the cache, or a bundle that holds the record.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::support::Run;
use super::{capgate, written};

/// Twenty secrets, each put together here so that no file of this repository looks as if it held one. None is anybody's.
fn planted() -> Vec<String> {
    let tail = |seed: u8, length: usize| -> String {
        let alphabet = b"aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z";
        (0..length)
            .map(|at| char::from(alphabet[(at * 7 + usize::from(seed) * 11) % alphabet.len()]))
            .collect()
    };
    let hex = |seed: &str| -> String {
        Sha256::digest(seed).iter().take(20).map(|byte| format!("{byte:02x}")).collect()
    };
    vec![
        // Variables, by name.
        "correct horse battery".to_owned(),
        "hunter2hunter2".to_owned(),
        "plainlowercaseword".to_owned(),
        // Variables, by shape.
        format!("ghp_{}", tail(1, 36)),
        format!("sk-{}", tail(2, 40)),
        hex("a variable"),
        // Arguments behind options.
        "behind-an-option".to_owned(),
        "behind-an-equals-sign".to_owned(),
        "in-a-header-value".to_owned(),
        format!("{}+/", tail(3, 40)),
        // In URLs.
        "url-password".to_owned(),
        "url-user-name".to_owned(),
        "url-query-value".to_owned(),
        // In texts.
        "in-a-json-argument".to_owned(),
        "in-a-shell-line".to_owned(),
        tail(4, 32),
        // In paths, and what others print.
        format!("hf_{}", tail(5, 34)),
        format!("glpat-{}", tail(6, 20)),
        format!("xoxb-{}", tail(7, 30)),
        format!("npm_{}", tail(8, 36)),
    ]
}

fn every_file(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            every_file(&path, found);
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
}

#[test]
fn twenty_planted_secrets_never_reach_a_record_or_a_bundle() {
    let secrets = planted();
    let [
        name_1,
        name_2,
        name_3,
        github,
        openai,
        hex,
        option,
        equals,
        header,
        base64,
        password,
        user,
        query,
        json,
        shell,
        random,
        in_path,
        in_folder,
        in_answer,
        in_image,
    ] = secrets.as_slice()
    else {
        panic!("{} secrets", secrets.len());
    };
    assert_eq!(secrets.len(), 20);
    let outside = tempfile::tempdir().unwrap();
    let work = outside.path().join(in_folder);
    let bundle = tempfile::tempdir().unwrap();
    fs::create_dir(&work).unwrap();
    fs::write(work.join(format!("{in_path}.gguf")), "weights").unwrap();
    fs::write(work.join(format!("{in_image}.img")), "disk").unwrap();
    let probe =
        format!("#!/bin/sh\necho 'device={in_answer}'\necho family=1007\necho supports_family=true\n");
    fs::write(work.join("probe"), probe).unwrap();
    fs::set_permissions(work.join("probe"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = capgate(&work);
    command.env("XDG_CACHE_HOME", bundle.path().join("cache"));
    command.env("HF_TOKEN", name_1).env("LLAMA_ARG_PASSWORD", name_2).env("OLLAMA_SECRET", name_3);
    command.env("GGML_NOTE", github).env("CUDA_THING", openai).env("OMP_HASH", hex);
    // Not recorded at all: their names are none that matter.
    command
        .env("AWS_SECRET_ACCESS_KEY", base64)
        .env("DATABASE_URL", format!("postgres://{user}:{password}@db"));
    let out = bundle.path().join("run.json");
    command.args(["record", "--probe", "probe", "--vm-image", &format!("{in_image}.img"), "--out"]).arg(&out);
    // `true` takes any arguments and says nothing.
    command.args(["--", "true", "--api-key", option, &format!("--auth-token={equals}")]);
    command.args(["-H", &format!("Authorization: Bearer {header}"), base64]);
    command.args([&format!("https://{user}:{password}@example.org/x?token={query}&n=1")]);
    command
        .args([&format!("{{\"password\": \"{json}\", \"n\": 1}}"), &format!("export MY_KEY={shell}; run")]);
    command.args([&format!("say {random} twice"), "-m", &format!("{in_path}.gguf")]);
    let run = Run::of(&mut command).ok();

    // A bundle with the record in it, pinned as bundles are.
    let manifest = "schema = \"1.0.0\"\n";
    fs::write(bundle.path().join("bundle.toml"), manifest).unwrap();
    let shown = Run::of(capgate(bundle.path()).args(["record", "show", "run.json"])).ok();
    let inspected = Run::of(capgate(bundle.path()).args(["evidence", "inspect", "run.json"])).ok();
    let compared = Run::of(capgate(bundle.path()).args(["record", "diff", "run.json", "run.json"])).ok();

    let mut everything = Vec::new();
    every_file(bundle.path(), &mut everything);
    assert!(everything.len() >= 2);
    for said in [run, shown, inspected, compared] {
        everything.push(("standard output".to_owned(), said.out.into_bytes()));
        everything.push(("standard error".to_owned(), said.err.into_bytes()));
    }
    for secret in &secrets {
        let digest: String = Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect();
        for (name, bytes) in &everything {
            let text = String::from_utf8_lossy(bytes);
            assert!(!text.contains(secret.as_str()), "{name} holds `{secret}`:\n{text}");
            assert!(!text.contains(&digest), "{name} holds the digest of `{secret}`");
        }
    }

    // Each mask is recorded with its place and rule, and never with a value.
    let found = written(bundle.path(), "run.json");
    let masked = found["run"]["masked"].as_array().unwrap();
    for (place, rule) in [
        ("environment HF_TOKEN", "name"),
        ("environment LLAMA_ARG_PASSWORD", "name"),
        ("environment OLLAMA_SECRET", "name"),
        ("environment GGML_NOTE", "prefix"),
        ("environment CUDA_THING", "prefix"),
        ("environment OMP_HASH", "hex"),
        ("argument 2", "name"),
        ("argument 3", "name"),
        ("argument 5", "name"),
        ("argument 6", "random"),
        ("argument 7", "userinfo"),
        ("argument 7", "name"),
        ("argument 8", "name"),
        ("argument 9", "name"),
        ("argument 10", "random"),
        ("argument 12", "prefix"),
        ("directory", "prefix"),
        ("metal", "prefix"),
        ("files", "prefix"),
    ] {
        let is_it = |mask: &&serde_json::Value| mask["place"] == place && mask["rule"] == rule;
        assert!(masked.iter().any(|mask| is_it(&mask)), "{place} {rule}: {masked:?}");
    }
    // What is no secret is still there.
    let command = found["run"]["command"].to_string();
    for part in
        ["--api-key", "example.org/x?token=[masked]&n=1", "--auth-token=[masked]", "say [masked] twice", "-m"]
    {
        assert!(command.contains(part), "{part}: {command}");
    }
}

#[test]
fn the_record_that_is_there_before_the_program_ends_holds_none_either() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "before-the-end";
    let mut command = capgate(folder.path());
    command.env("HF_TOKEN", secret).args([
        "record",
        "--out",
        "run.json",
        "--",
        "sh",
        "-c",
        "cat run.json",
        "sh",
    ]);
    let run = Run::of(command.args(["--token", secret])).ok();
    assert!(run.out.contains("\"complete\": false") && run.out.contains("[masked]"), "{}", run.out);
    assert!(!run.out.contains(secret), "{}", run.out);
}
