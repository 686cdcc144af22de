//! Statements that go into an installed prefix.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::site::Site;
use crate::support::mac::Mac;
use crate::support::{ORIGIN, run_on};

#[test]
fn a_statement_is_accepted_into_the_prefix() {
    let site = Site::new();
    // A registry that is in force today, since statements are signed today.
    site.world.run("renew --registry-key registry.key").ok();
    site.run(&format!(
        "install {} --library libcapgate.so --registry registry --host-key host.pub",
        site.prefix().display()
    ))
    .ok();
    let folder = site.world.folder.path();
    let host = Mac::host();
    let attest = |key: &str, out: &str, rest: &str| {
        let line = format!("host attest --key {key} --origin {ORIGIN} --out {out} {rest}");
        run_on(&host, folder, &line).ok();
    };
    let guest = Mac::guest();
    let verify = |mac: &Mac, file: &str, rest: &str| {
        run_on(mac, folder, &format!("host verify {file} --prefix {} {rest}", site.prefix().display()))
    };
    attest("host.key", "first.note", "");
    let accepted = site.file("etc/capgate/host.note");
    verify(&guest, "first.note", "").ok();
    assert!(!accepted.exists());
    let run = verify(&guest, "first.note", "--accept").ok();
    assert!(run.out.ends_with(&format!("accepted: {}\n", accepted.display())), "{}", run.out);
    assert_eq!(fs::read(&accepted).unwrap(), fs::read(folder.join("first.note")).unwrap());
    assert_eq!(fs::metadata(&accepted).unwrap().mode() & 0o7777, 0o644);
    verify(&guest, "first.note", "--accept").ok();

    // A newer one takes its place; the older one never comes back.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    attest("host.key", "second.note", "");
    verify(&guest, "second.note", "--accept").ok();
    let older = verify(&guest, "first.note", "--accept");
    assert!(older.exit == 4 && older.err.contains("by the same host was accepted before"), "{}", older.err);
    let second = fs::read(folder.join("second.note")).unwrap();
    assert_eq!(fs::read(&accepted).unwrap(), second);

    // What does not count, or is not known to be this host's, is not accepted.
    site.world.run("keygen host-8 --out other.key").ok();
    attest("other.key", "other.note", "");
    assert_eq!(verify(&guest, "other.note", "--accept").exit, 4);
    assert_eq!(verify(&guest, "second.note", "--accept --now 2040-01-01T00:00:00Z").exit, 4);
    let m2 = Mac::new("kern.hv_vmm_present=#1\nmachdep.cpu.brand_string=Apple M2 (Virtual)\n");
    assert_eq!(verify(&m2, "second.note", "--accept").exit, 4);
    let nameless = verify(&Mac::new("kern.hv_vmm_present=#1\n"), "second.note", "--accept");
    assert!(
        nameless.exit == 1 && nameless.err.contains("does not say which chip it has"),
        "{}",
        nameless.err
    );
    assert_eq!(fs::read(&accepted).unwrap(), second);

    // A prefix that others can write, or a link in the statement's place, is refused.
    fs::remove_file(&accepted).unwrap();
    symlink(folder.join("first.note"), &accepted).unwrap();
    let link = verify(&guest, "second.note", "--accept");
    assert!(link.exit == 1 && link.err.contains("host.note` is a link"), "{}", link.err);
    fs::remove_file(&accepted).unwrap();
    fs::set_permissions(site.file("etc/capgate"), fs::Permissions::from_mode(0o777)).unwrap();
    let open = verify(&guest, "second.note", "--accept");
    assert!(open.exit == 1 && open.err.contains("\nhelp: chmod go-w "), "{}", open.err);
    fs::set_permissions(site.file("etc/capgate"), fs::Permissions::from_mode(0o755)).unwrap();

    // Without a host key or a registry it says what is missing.
    verify(&guest, "second.note", "--accept").ok();
    fs::write(site.file("etc/capgate/site.toml"), "schema = \"1.0.0\"\nmode = \"enforce\"\n").unwrap();
    let keyless = verify(&guest, "second.note", "");
    assert!(keyless.exit == 1 && keyless.err.contains("names no host key"), "{}", keyless.err);
    let gone = site.uninstall("").ok();
    assert!(!accepted.exists() && gone.out.contains("kept: etc/capgate/site.toml"), "{}", gone.out);
}
