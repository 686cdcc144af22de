//! Only `capgate bench` tries what nobody tested: in its own children, from a prefix that it throws away.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::built::built;
use crate::guest::{STOCK, user};
use crate::lab::{Lab, NAMED, run, start_until};

/// A bench whose override arm hangs, killed while it does; what is left is the trial.
fn killed_in_a_trial(lab: &Lab) {
    let mut command =
        lab.bench_with("--override 1009/65536 --rounds 2 --out bundle", "-m tiny.gguf -p 64 -n 16");
    let started = || fs::read_to_string(lab.path("counts/override")).is_ok();
    let mut child = start_until(command.process_group(0), started);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(lab.trials().len(), 1, "{:?}", lab.trials());
}

#[test]
fn a_trial_that_a_killed_bench_left_is_removed_by_the_next_one_and_grants_nobody_meanwhile() {
    let lab = Lab::new().does("hang", "override");
    killed_in_a_trial(&lab);
    let trial = lab.trials().remove(0);
    let names: Vec<String> = fs::read_dir(trial.join("etc/capgate"))
        .unwrap()
        .flatten()
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().all(|name| !name.contains("key")), "{names:?}");

    // The registry is whole and in force, and yet nobody but a child of that bench believes it.
    let library = trial.join("lib/libcapgate.so");
    let asked = lab
        .guest
        .finish(lab.guest.command_with(&built().ask, library.to_str().unwrap()).arg("AppleParavirtDevice"));
    assert_eq!(asked.out, format!("AppleParavirtDevice {STOCK}\n"));
    assert!(asked.err.starts_with("[capgate] Stock: registry-wrong-origin: "), "{}", asked.err);
    let log = fs::read_to_string(trial.join(format!("var/log/capgate/{}.jsonl", user()))).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("\"outcome\":\"grant\"")).count(), 2, "{log}");

    // Its hung child is not this test's to leave behind.
    end_hung_children(&trial.join("lib/libcapgate.so").display().to_string());
    let lab = Lab { environment: Vec::new(), ..lab };
    let ran = lab.bench("--override 1009/65536 --rounds 2 --out second").exits(0);
    assert!(ran.err.contains("1 trial of a bench that was killed: removed"), "{}", ran.err);
    lab.has_no_trial();
    let exists = lab.path(&format!("second/rounds/01/{NAMED}.decisions.jsonl")).exists();
    assert!(exists && !trial.exists());
}

/// Ends processes that have a library loaded, each by its number.
fn end_hung_children(library: &str) {
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let maps = fs::read_to_string(entry.path().join("maps")).unwrap_or_default();
        if maps.contains(library) {
            let number = entry.file_name().into_string().unwrap();
            assert!(Command::new("kill").args(["-9", &number]).status().unwrap().success());
        }
    }
}

#[test]
fn no_other_command_makes_or_believes_a_trials_registry() {
    let lab = Lab::new().does("hang", "override");
    killed_in_a_trial(&lab);
    let trial = lab.trials().remove(0);
    end_hung_children(&trial.join("lib/libcapgate.so").display().to_string());
    let root = fs::read_to_string(trial.join("etc/capgate/root.note")).unwrap();
    let registry = trial.join("etc/capgate/registry").display().to_string();
    let listed = lab.run(&format!("list --registry {registry} --root {}", root.trim())).exits(4);
    assert!(listed.err.contains("is a trial of `capgate bench`"), "{}", listed.err);
    lab.run("keygen a.key --out a.key").exits(0);
    let made = lab
        .run("init other --origin trial/mine --root-key a.key --publisher a.key --registry-key a.key")
        .exits(2);
    assert!(
        made.err.starts_with("error: the origin `trial/mine` is `capgate bench`'s own\n"),
        "{}",
        made.err
    );
    let mut command = lab.capgate();
    command
        .args(["run", "--require", "--prefix"])
        .arg(&trial)
        .arg("--")
        .arg(&built().ask)
        .arg("AppleParavirtDevice");
    let ran = run(&mut command).exits(125);
    assert!(ran.err.contains("registry-wrong-origin"), "{}", ran.err);
}

#[test]
fn what_can_never_be_granted_is_not_tried_either() {
    let lab = Lab::new();
    for (values, said) in [
        ("2009/65536", "families 1001 to 1010"),
        ("1011/65536", "families 1001 to 1010"),
        ("1009/131072", "threadgroup memory 32768 or 65536 only"),
        ("1009", "write it as FAMILY/MEMORY"),
    ] {
        let ran = lab.bench(&format!("--override {values} --out bundle")).exits(2);
        assert!(ran.err.contains(said), "{}", ran.err);
        assert!(!lab.path("bundle").exists());
    }
}

#[test]
fn a_machine_that_is_no_guest_tries_nothing() {
    let lab = Lab::new();
    lab.guest.answer(
        "sysctl",
        "machdep.cpu.brand_string=Apple M1 Ultra\nkern.osversion=25G76\nkern.hv_vmm_present=#0\n",
    );
    fs::write(
        lab.path("machine.toml"),
        "host = { chip = \"Apple M1 Ultra\", os = { version = \"26.6.1\", build = \"25G76\" } }\n\
         guest = { os = { version = \"26.5.2\", build = \"25F84\" }, model = \"VirtualMac2,1\" }\n",
    )
    .unwrap();
    let ran = lab.bench("--override 1009/65536 --machine machine.toml --out bundle").exits(3);
    assert!(ran.err.contains("no override can be tried here: fact-not-a-guest"), "{}", ran.err);
    lab.has_no_trial();
}
