//! The whole way: `capgate install` makes the prefix, `host attest` signs on the host, `host verify --accept` takes the
//! statement in, and a program that has the installed library inserted is granted.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::built::built;
use crate::guest::{GRANTED, Guest, ORIGIN, Plan, STOCK, key, user};

/// A real command on a stand-in that answers from that folder.
fn capgate(guest: &Guest, standin: &Path, words: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capgate"));
    command.env_clear().env("LD_PRELOAD", &built().standin).env("STANDIN", standin);
    let output = command.current_dir(&guest.folder).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?} {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_was_installed_and_attested_is_granted() {
    let guest = Plan { statement: None, ..Plan::default() }.make();
    let host = key("host.test", 4);
    fs::write(guest.folder.join("host.key"), format!("{}\n", host.encode().unwrap().as_str())).unwrap();
    Guest::mode(&guest.folder.join("host.key"), 0o600);
    fs::write(guest.folder.join("host.pub"), format!("{}\n", host.verifier())).unwrap();
    let mac = guest.folder.join("host");
    fs::create_dir(&mac).unwrap();
    let answers = "machdep.cpu.brand_string=Apple M1 Ultra\nkern.osproductversion=26.6.1\nkern.osversion=25G76\n\
                   kern.hv_vmm_present=#0\n";
    fs::write(mac.join("sysctl"), answers).unwrap();

    let prefix = guest.folder.join("installed");
    let shown = prefix.to_str().unwrap();
    let (here, library) = (guest.folder.join("standin"), built().library.to_str().unwrap());
    let registry = guest.state("registry");
    let from = ["--registry", registry.to_str().unwrap(), "--library", library, "--host-key", "host.pub"];
    capgate(&guest, &here, &[&["install", shown, "--root", &guest.pin], &from[..]].concat());

    let log = prefix.join(format!("var/log/capgate/{}.jsonl", user()));
    let installed = prefix.join("lib/libcapgate.so");
    let ask = || {
        let mut command = guest.command_with(&built().ask, installed.to_str().unwrap());
        command.arg("AppleParavirtDevice");
        let output = command.output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (out, err) = ask();
    assert!(out.ends_with(&format!(" {STOCK}\n")), "{out}");
    assert!(err.starts_with("[capgate] Stock: host-missing: "), "{err}");

    capgate(
        &guest,
        &mac,
        &["host", "attest", "--key", "host.key", "--origin", ORIGIN, "--out", "shared.note"],
    );
    capgate(&guest, &here, &["host", "verify", "shared.note", "--prefix", shown, "--accept"]);
    let (out, err) = ask();
    assert!(out.ends_with(&format!(" {GRANTED}\n")), "{out}{err}");
    assert!(fs::read_to_string(&log).unwrap().lines().count() >= 3);

    // What it logged stays when it is taken away.
    capgate(&guest, &here, &["uninstall", shown, "--agents", mac.to_str().unwrap()]);
    assert!(log.exists() && !installed.exists() && !prefix.join("etc").exists());
}
