//! Showing and comparing records, and what is said of files that are none.

use std::fs;

use super::support::Run;
use super::{capgate, codes, diff, record, written};

#[test]
fn two_runs_of_one_command_differ_in_nothing_suspicious() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.json", "b.json"] {
        record(folder.path(), name, &["true"]).ok();
    }
    let compared = diff(folder.path(), "a.json", "b.json");
    assert_eq!(codes(&compared), Vec::<&str>::new(), "{compared}");
    let run = Run::of(capgate(folder.path()).args(["record", "diff", "a.json", "b.json"])).ok();
    assert!(run.out.ends_with("nothing that is recorded differs\n"), "{}", run.out);
}

#[test]
fn arguments_variables_and_files_that_differ_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("m.gguf"), "one").unwrap();
    let run = |name: &str, threads: &str| {
        let mut command = capgate(path);
        command.env("OMP_NUM_THREADS", threads).args(["record", "--out", name, "--", "true", "-m", "m.gguf"]);
        Run::of(command.args(["-t", threads, "--flag"])).ok();
    };
    run("a.json", "16");
    fs::write(path.join("m.gguf"), "two").unwrap();
    run("b.json", "1");
    let compared = diff(path, "a.json", "b.json");
    assert_eq!(codes(&compared), ["model", "argument", "variable"], "{compared}");
    let threads = &compared["differences"][1];
    assert_eq!((&threads["what"], &threads["a"], &threads["b"]), (&"-t".into(), &"16".into(), &"1".into()));
}

#[test]
fn show_gives_people_and_programs_what_the_record_says() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), "run.json", &["sh", "-c", "exit 3"]);
    let text = fs::read_to_string(folder.path().join("run.json")).unwrap();
    let json = Run::of(capgate(folder.path()).args(["record", "show", "run.json", "--format", "json"])).ok();
    assert_eq!(json.out, text);
    let human = Run::of(capgate(folder.path()).args(["record", "show", "run.json"])).ok();
    for part in [
        "chip:",
        "kernel:",
        "processor limit:",
        "/dev/shm:",
        "libc.so.6",
        "executable",
        "status 3",
        "rollback:",
    ] {
        assert!(human.out.contains(part), "{part}\n{}", human.out);
    }
    assert!(human.out.contains("unknown: os.host: "), "{}", human.out);
}

#[test]
fn what_is_no_record_is_refused_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    record(path, "good.json", &["true"]).ok();
    let good = fs::read_to_string(path.join("good.json")).unwrap();
    for (text, says) in [
        (String::new(), "byte 0: the record stops before its end"),
        ("[]".to_owned(), "the record: is a list, not an object"),
        (
            good.replace("capgate run-record v1", "capgate run-record v2"),
            "schema: is `capgate run-record v2`, not",
        ),
        (good.replace("\"complete\": true", "\"complete\": 1"), "complete: is a number, not true or false"),
        (good.replace("\"arch\":", "\"bow\":"), "machine.arch: is missing"),
        (format!("{good}x"), "text follows the record"),
    ] {
        fs::write(path.join("bad.json"), &text).unwrap();
        for command in [&["show", "bad.json"][..], &["diff", "good.json", "bad.json"]] {
            let run = Run::of(capgate(path).arg("record").args(command));
            assert_eq!(run.exit, 4, "{}", run.err);
            assert!(
                run.err.starts_with("error: `bad.json` is no record that this version reads: "),
                "{}",
                run.err
            );
            assert!(run.err.contains(says), "{says}\n{}", run.err);
        }
    }
    let run = Run::of(capgate(path).args(["record", "show", "none.json"]));
    run.fails(1, "error: `none.json` cannot be read: No such file or directory (os error 2)\n");
}

#[test]
fn a_probe_is_asked_as_the_program_would_be_and_its_answers_are_compared() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // No Mac is here: a script stands in for a program that asks Metal.
    let script = "#!/bin/sh\necho device=Apple Paravirtual device\necho family=1007\n\
                  echo supports_family=${LUME_METAL_APPLE_FAMILY_MAX:+true}${LUME_METAL_APPLE_FAMILY_MAX:-false}\n\
                  echo max_threadgroup_memory=32768\n";
    let script = script.replace(
        "${LUME_METAL_APPLE_FAMILY_MAX:+true}${LUME_METAL_APPLE_FAMILY_MAX:-false}",
        "$([ -n \"$LUME_METAL_APPLE_FAMILY_MAX\" ] && echo true || echo false)",
    );
    fs::write(path.join("probe"), script).unwrap();
    fs::set_permissions(path.join("probe"), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, family) in [("stock.json", None), ("raised.json", Some("1009"))] {
        let mut command = capgate(path);
        if let Some(family) = family {
            command.env("LUME_METAL_APPLE_FAMILY_MAX", family);
        }
        Run::of(command.args(["record", "--probe", "probe", "--out", name, "--", "true"])).ok();
    }
    let found = written(path, "raised.json");
    assert_eq!(found["capabilities"]["metal"][0]["supports_family"], true);
    assert_eq!(found["run"]["rollback"]["unset"][0], "LUME_METAL_APPLE_FAMILY_MAX");
    let compared = diff(path, "stock.json", "raised.json");
    assert_eq!(codes(&compared), ["metal-family", "capability-variable"], "{compared}");
    for (probe, why) in [("true", "printed no answer"), ("none", "cannot be run")] {
        let out = format!("{probe}.json");
        fs::copy("/bin/true", path.join("true")).unwrap();
        Run::of(capgate(path).args(["record", "--probe", probe, "--out", &out, "--", "/bin/true"])).ok();
        let unknown = written(path, &out)["unknown"].to_string();
        assert!(unknown.contains("capabilities.metal") && unknown.contains(why), "{unknown}");
    }
}
