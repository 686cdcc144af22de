//! What was interrupted goes on, if it is still the same.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::lab::{Lab, Ran, run, start_until};

const WORDS: &str = "-m tiny.gguf -p 64 -n 16 -r 2";

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// A bench that is asked to end, or killed, in its third round; each start takes a second from then on.
fn interrupted(name: &str) -> Lab {
    let lab = Lab::new().does("slow", "any").with("FROM", "4");
    let mut command = lab.bench_with("--override 1009/65536 --rounds 4 --out bundle", WORDS);
    let begun = || fs::read_to_string(lab.path("counts/override")).is_ok_and(|count| count == "4\n");
    let mut child = start_until(command.process_group(0), begun);
    signal(&child, name);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), if name == "-9" { None } else { Some(1) });
    let refused = lab.run("evidence check bundle").exits(4);
    assert!(
        refused.err.contains("the bundle `bundle` is not complete\nhelp: capgate bench --resume bundle"),
        "{}",
        refused.err
    );
    assert!(!lab.path("bundle/bundle.toml").exists());
    lab
}

fn resume(lab: &Lab, words: &str) -> Ran {
    run(&mut lab.bench_with("--resume bundle", words))
}

#[test]
fn a_bench_that_was_killed_or_stopped_goes_on_where_it_was() {
    for name in ["-9", "-INT", "-TERM"] {
        let mut lab = interrupted(name);
        lab.environment.clear();
        let before = lab.state("bundle");
        assert_eq!(before["rounds"].as_array().unwrap().len(), 2, "{name}");
        let ran = resume(&lab, WORDS).exits(0);
        assert!(ran.out.contains("bundle: bundle (4 rounds, 0 discarded)"), "{}", ran.out);
        let after = lab.state("bundle");
        assert_eq!(after["rounds"][1], before["rounds"][1], "{name}");
        assert_eq!(after["warm_ups"], before["warm_ups"], "{name}");
        lab.run("evidence check bundle").exits(0);
        lab.has_no_trial();
        let again = resume(&lab, WORDS).exits(1);
        assert!(
            again.err.starts_with("error: `bundle` is complete, so there is nothing to go on with\n"),
            "{}",
            again.err
        );
    }
}

#[test]
fn what_changed_meanwhile_is_named_and_nothing_is_mixed() {
    let mut lab = interrupted("-9");
    lab.environment.clear();
    let refused = |lab: &Lab, words: &str, said: &str| {
        let ran = resume(lab, words).exits(4);
        assert!(ran.err.contains(said), "{said}\n{}", ran.err);
        assert!(ran.err.contains("error: this is no longer what was measured: "), "{}", ran.err);
    };
    refused(&lab, "-m tiny.gguf -p 128 -n 16 -r 2", "arguments: `-m tiny.gguf -p 64");
    fs::write(lab.path("tiny.gguf"), "another model\n").unwrap();
    refused(&lab, WORDS, "model's SHA-256: `");
    fs::write(lab.path("tiny.gguf"), "a model\n").unwrap();
    let sysctl = fs::read_to_string(lab.path("standin/sysctl")).unwrap();
    lab.guest.answer("sysctl", &sysctl.replace("25F84", "25F90"));
    refused(&lab, WORDS, "guest's build: `25F84` before, `25F90` now");
    lab.guest.answer("sysctl", &sysctl);
    fs::write(lab.path("bundle/bench.json"), "{}").unwrap();
    let ran = resume(&lab, WORDS).exits(4);
    assert!(ran.err.starts_with("error: `bundle/bench.json` is malformed: "), "{}", ran.err);
    let ran = run(&mut lab.bench_with("--resume nothing", WORDS)).exits(1);
    assert!(ran.err.starts_with("error: `nothing` holds no `bench.json`\n"), "{}", ran.err);
}

#[test]
fn two_benches_never_write_into_one_bundle() {
    let lab = Lab::new().does("hang", "stock").with("FROM", "3");
    let mut command = lab.bench_with("--cpu --rounds 2 --out bundle", WORDS);
    let begun = || fs::read_to_string(lab.path("counts/stock")).is_ok_and(|count| count == "2\n");
    let mut child = start_until(command.process_group(0), begun);
    let ran = resume(&lab, WORDS).exits(1);
    assert!(ran.err.starts_with("error: another bench is running on `bundle`"), "{}", ran.err);
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
