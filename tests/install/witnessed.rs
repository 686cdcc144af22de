//! A prefix whose site demands witnesses.

use std::fs;

use crate::site::Site;
use crate::support::mac::Mac;
use crate::support::{B10359, Run, run_on};

fn add(site: &Site) {
    let line = site.world.run("witness cosign registry --state one --key one.key").ok().out;
    site.world.put("lines", &line);
    let key = site.world.read("one.pub");
    site.world.run(&format!("witness ask --lines lines --witness-key {}", key.trim())).ok();
}

#[test]
fn a_prefix_whose_site_demands_witnesses_follows_what_they_cosigned() {
    let site = Site::new();
    let folder = site.world.folder.path();
    site.world.run("renew --registry-key registry.key").ok();
    let key = site.world.run("keygen one.test --witness --out one.key").ok().out;
    site.world.put("one.pub", &key);
    site.world.run("witness init --state one --key one.key").ok();
    site.run(&format!("install {} --library libcapgate.so --host-key host.pub", site.prefix().display()))
        .ok();
    let policy = fs::read_to_string(site.file("etc/capgate/site.toml")).unwrap();
    let demand = format!("witness_keys = [\"{}\"]\nwitness_threshold = 1\n", key.trim());
    let demanding = policy.replacen("host_keys", &format!("{demand}host_keys"), 1);
    fs::write(site.file("etc/capgate/site.toml"), demanding).unwrap();
    let on_guest = |command: &str| -> Run {
        run_on(&Mac::guest(), folder, &format!("{command} --prefix {}", site.prefix().display()))
    };
    let latest = || fs::read(site.file("etc/capgate/registry/snapshot/latest.note")).ok();

    let unwitnessed = on_guest("sync registry");
    assert!(
        unwitnessed.exit == 4 && unwitnessed.err.contains("not witnessed as this site demands"),
        "{}",
        unwitnessed.err
    );
    assert!(unwitnessed.err.contains("capgate witness ask"), "{}", unwitnessed.err);
    assert_eq!(latest(), None);
    add(&site);
    on_guest("sync registry").ok();
    let first = latest().unwrap();
    assert!(!on_guest("doctor").out.contains("not witnessed"));
    let keys = "--key alice.key --registry-key registry.key";
    site.world.run(&format!("revoke {B10359} --reason test --severity withdrawn {keys}")).ok();
    assert_eq!(on_guest("sync registry").exit, 4);
    assert_eq!(latest().unwrap(), first, "what is there stays in force");
    add(&site);
    on_guest("sync registry").ok();
    assert_ne!(latest().unwrap(), first);

    // A registry that was put there otherwise is held against the same demand.
    let checkpoint = site.file("etc/capgate/registry/log/checkpoint");
    let text = fs::read_to_string(&checkpoint).unwrap();
    let bare: String =
        text.lines().filter(|line| !line.contains("one.test")).map(|line| format!("{line}\n")).collect();
    fs::write(&checkpoint, bare).unwrap();
    assert!(on_guest("doctor").out.contains("not witnessed"), "{}", on_guest("doctor").out);

    // Under a policy that cannot be read, what it demands is not known, and nothing is replaced.
    site.world.run("renew --registry-key registry.key").ok();
    let before = latest();
    fs::write(site.file("etc/capgate/site.toml"), "mode = \"enfroce\"\n").unwrap();
    assert_eq!(on_guest("sync registry").exit, 4);
    assert_eq!(latest(), before);
}
