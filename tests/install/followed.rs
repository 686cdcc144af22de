//! A prefix that follows a registry: `capgate sync --prefix`.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::site::Site;
use crate::support::mac::Mac;
use crate::support::{B10359, ORIGIN, run_on};

const KEYS: &str = "--key alice.key --registry-key registry.key";

#[test]
fn a_prefix_follows_its_registry_and_carries_the_statement() {
    let site = Site::new();
    let folder = site.world.folder.path();
    site.world.run("renew --registry-key registry.key").ok();
    // Installed without a registry: there is only the pin.
    site.run(&format!("install {} --library libcapgate.so --host-key host.pub", site.prefix().display()))
        .ok();
    let shared = folder.join("shared");
    fs::create_dir(&shared).unwrap();
    let policy = fs::read_to_string(site.file("etc/capgate/site.toml")).unwrap();
    let statement = format!("statement = \"{}\"\n", shared.join("host.note").display());
    let policy = policy.replacen("host_keys", &format!("{statement}host_keys"), 1);
    fs::write(site.file("etc/capgate/site.toml"), policy).unwrap();

    let guest = Mac::guest();
    let sync = |rest: &str| {
        run_on(&guest, folder, &format!("sync registry --prefix {} {rest}", site.prefix().display()))
    };
    let first = sync("--format json").ok();
    assert!(first.err.contains("host statement: `") && first.err.contains("cannot be read"), "{}", first.err);
    let json = first.json();
    assert_eq!((&json["changed"], &json["fetched"]), (&true.into(), &3.into()), "{json}");
    assert!(site.file("etc/capgate/seen").exists());
    for name in ["etc/capgate/seen", "etc/capgate/registry/snapshot/latest.note"] {
        assert_eq!(fs::metadata(site.file(name)).unwrap().mode() & 0o022, 0, "{name}");
    }

    let attest = format!("host attest --key host.key --origin {ORIGIN} --out shared");
    run_on(&Mac::host(), folder, &attest).ok();
    let second = sync("").ok();
    assert!(second.out.starts_with("nothing new: version "), "{}", second.out);
    assert_eq!(second.err, "");
    let host_note = site.file("etc/capgate/host.note");
    assert_eq!(fs::read(&host_note).unwrap(), fs::read(shared.join("host.note")).unwrap());

    let old = folder.join("old");
    copy(&folder.join("registry"), &old);
    site.world.run(&format!("revoke {B10359} --reason test --severity withdrawn {KEYS}")).ok();
    let third = sync("").ok();
    assert!(third.out.starts_with("synced: 1 new entry, version "), "{}", third.out);
    // An older registry, from the source or put in its place, is refused: `seen` remembers.
    let back = run_on(&guest, folder, &format!("sync old --prefix {}", site.prefix().display()));
    assert!(back.exit == 4 && back.err.contains("error: old: "), "{}", back.err);
    assert!(back.err.contains("after version"), "{}", back.err);
    fs::rename(site.file("etc/capgate/registry"), folder.join("aside")).unwrap();
    copy(&old, &site.file("etc/capgate/registry"));
    let doctor = run_on(&guest, folder, &format!("doctor --prefix {}", site.prefix().display()));
    assert!(
        doctor.out.contains("registry-rollback") || doctor.out.contains("after version"),
        "{}",
        doctor.out
    );
    // The next sync mends that, and everything can be taken away again.
    sync("").ok();
    assert_eq!(
        run_on(&guest, folder, &format!("doctor --prefix {}", site.prefix().display()))
            .out
            .matches("after version")
            .count(),
        0
    );
    site.uninstall("").ok();
    let left: Vec<String> = site.tree().into_keys().collect();
    assert_eq!(
        left,
        ["etc/", "etc/capgate/", "etc/capgate/site.toml"],
        "the policy was changed, so it stays"
    );
}

#[test]
fn a_prefix_follows_one_root_alone() {
    let site = Site::new();
    site.install("").ok();
    let folder = site.world.folder.path();
    let sync = |source: &str, rest: &str| {
        run_on(&Mac::guest(), folder, &format!("sync {source} --prefix {} {rest}", site.prefix().display()))
    };
    let other = "sha256:0000000000000000000000000000000000000000000000000000000000000001";
    let refused = sync("registry", &format!("--root {other}"));
    assert!(refused.exit == 4 && refused.err.contains("is pinned to sha256:"), "{}", refused.err);
    site.world.run(&format!("keygen {ORIGIN} --out registry-x.key")).ok();
    site.world.run(&format!(
        "init other --origin {ORIGIN} --root-key root.key --publisher alice.key --registry-key registry-x.key"
    )).ok();
    let foreign = sync("other", "");
    assert!(foreign.exit == 4 && foreign.err.contains("the first root is sha256:"), "{}", foreign.err);
    let nothing = sync("nowhere", "");
    assert!(
        nothing.exit == 1 && nothing.err.contains("there is no registry folder `nowhere`"),
        "{}",
        nothing.err
    );
    let unknown = sync("gopher://x/y", "");
    assert_eq!(unknown.exit, 2, "{}", unknown.err);
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let done = std::process::Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}
