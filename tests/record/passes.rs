//! The program is run unchanged: streams, exit status, signals.

use std::io::{Read, Write};
use std::process::Stdio;

use super::support::Run;
use super::{capgate, record, written};

#[test]
fn what_goes_in_and_comes_out_is_the_programs_own_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..100_000u32).flat_map(|n| n.to_le_bytes()).collect();
    let mut command = capgate(folder.path());
    command.args(["record", "--out", "run.json", "--", "sh", "-c", "tee /dev/stderr"]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let (mut input, sent) = (child.stdin.take().unwrap(), bytes.clone());
    let writer = std::thread::spawn(move || input.write_all(&sent).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == bytes);
    let (own, said) = output.stderr.split_at(bytes.len());
    assert!(own == bytes);
    assert_eq!(String::from_utf8_lossy(said), "capgate: recorded in run.json\n");
    let text = std::fs::read_to_string(folder.path().join("run.json")).unwrap();
    assert!(text.len() < 200_000, "neither stream is recorded");
}

#[test]
fn the_exit_status_is_the_programs_own() {
    let folder = tempfile::tempdir().unwrap();
    for (at, code) in [0, 1, 4, 77, 125, 255].into_iter().enumerate() {
        let name = format!("{at}.json");
        let run = record(folder.path(), &name, &["sh", "-c", &format!("exit {code}")]);
        assert_eq!((run.exit, run.out.as_str()), (code, ""));
        let found = written(folder.path(), &name);
        assert_eq!(found["run"]["exit"]["code"], code);
        assert_eq!(found["complete"], true);
    }
}

#[test]
fn a_program_that_a_signal_ends_gives_128_and_its_number() {
    let folder = tempfile::tempdir().unwrap();
    for (name, number) in [("KILL", 9), ("SEGV", 11), ("TERM", 15)] {
        let file = format!("{name}.json");
        let run = record(folder.path(), &file, &["sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!(run.exit, 128 + number);
        assert_eq!(written(folder.path(), &file)["run"]["exit"]["signal"], number);
    }
}

#[test]
fn what_cannot_be_started_ends_as_env_would_and_leaves_no_record() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), "a.json", &["no-such-program"]).fails(
        127,
        "error: there is no program `no-such-program`\nhelp: give its path, or a name that is in PATH\n",
    );
    std::fs::write(folder.path().join("text"), "no program\n").unwrap();
    let run = record(folder.path(), "a.json", &["./text"]);
    assert_eq!(run.exit, 126, "{}", run.err);
    assert!(run.err.starts_with("error: `./text` cannot be started: "), "{}", run.err);
    assert!(!folder.path().join("a.json").exists());
    assert_eq!(Run::of(capgate(folder.path()).arg("record")).exit, 2);
}

#[test]
fn nothing_is_started_where_nothing_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("there.json"), "mine").unwrap();
    for (out, says) in [
        ("there.json", "`there.json` exists, and a record is never overwritten"),
        ("none/run.json", "`none/run.json` cannot be written: No such file or directory (os error 2)"),
        ("/dev/full", "`/dev/full` exists, and a record is never overwritten"),
        ("/proc/run.json", "`/proc/run.json` cannot be written: "),
        ("..", "`..` cannot be written: it names no file"),
    ] {
        let run = record(folder.path(), out, &["touch", "started"]);
        assert_eq!(run.exit, 125, "{out}: {}", run.err);
        assert!(run.err.contains(says), "{out}: {}", run.err);
        assert!(!folder.path().join("started").exists(), "{out}");
    }
    assert_eq!(std::fs::read(folder.path().join("there.json")).unwrap(), b"mine");
}

#[test]
fn a_record_that_can_no_longer_be_written_is_a_failure_that_keeps_a_failures_status() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    for (line, exit) in [("rm -r out && mkdir out", 125), ("rm -r out; mkdir out; exit 7", 7)] {
        let run = record(folder.path(), "out/run.json", &["sh", "-c", line]);
        assert_eq!(run.exit, exit, "{}", run.err);
        assert!(run.err.contains("error: `out/run.json` cannot be written: "), "{}", run.err);
    }
}

#[test]
fn without_out_the_record_gets_a_name_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::of(capgate(folder.path()).args(["record", "--", "true"])).ok();
    let name = run.err.strip_prefix("capgate: recorded in ").unwrap().trim();
    assert!(name.starts_with("capgate-record-2") && name.ends_with(".json"), "{name}");
    assert_eq!(written(folder.path(), name)["run"]["command"][0], "true");
}

#[test]
fn a_signal_reaches_the_program_and_the_record_is_written_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, number) in [(rustix::process::Signal::TERM, 15), (rustix::process::Signal::INT, 2)] {
        let name = format!("{number}.json");
        let line =
            format!("trap 'echo got {number}; exit 3' {number}; echo ready; while :; do sleep 0.05; done");
        // A shell ignores Ctrl-C for what it starts in the background, as these tests may be.
        let mut command = std::process::Command::new("env");
        command.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_capgate"), "record", "--out", &name]);
        command
            .args(["--", "sh", "-c", &line])
            .current_dir(folder.path())
            .env("XDG_CACHE_HOME", folder.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut ready = [0u8; 6];
        out.read_exact(&mut ready).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        let mut said = String::new();
        out.read_to_string(&mut said).unwrap();
        assert_eq!(said, format!("got {number}\n"));
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert_eq!(written(folder.path(), &name)["run"]["exit"]["code"], 3);
    }
}

#[test]
fn a_recorder_that_is_killed_leaves_a_record_that_says_it_is_not_complete() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = capgate(folder.path());
    command.args(["record", "--out", "run.json", "--", "sh", "-c", "echo $$; exec sleep 60"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut text = String::new();
    while !text.ends_with('\n') {
        let mut byte = [0u8];
        out.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let program = rustix::process::Pid::from_raw(text.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(program, rustix::process::Signal::KILL).unwrap();
    let found = written(folder.path(), "run.json");
    assert_eq!((&found["complete"], &found["run"]["exit"]), (&false.into(), &serde_json::Value::Null));
    let run = Run::of(capgate(folder.path()).args(["record", "show", "run.json"])).ok();
    assert!(run.err.contains("before the program ended"), "{}", run.err);
}

#[test]
fn what_was_ignored_stays_ignored_for_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let line = "trap '' HUP INT; exec \"$@\"";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", line, "sh"]).arg(env!("CARGO_BIN_EXE_capgate"));
    command.args(["record", "--out", "run.json", "--", "grep", "SigIgn", "/proc/self/status"]);
    let run = Run::of(command.current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path())).ok();
    let mask = u64::from_str_radix(run.out.trim().trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(mask & 0b11, 0b11, "{}", run.out);
}
