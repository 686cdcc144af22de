//! Host statements through the real command: signed on a host, judged and accepted in a guest.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::mac::Mac;
use support::{ORIGIN, Run, run_on};

/// A host's folder with its key, and the folder that its guests see.
struct Host {
    folder: tempfile::TempDir,
    mac: Mac,
}

impl Host {
    fn new() -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap(), mac: Mac::host() };
        let made = host.run("keygen host-7 --out host.key").ok();
        fs::write(host.path("host.pub"), made.out).unwrap();
        fs::create_dir(host.path("shared")).unwrap();
        host
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, line: &str) -> Run {
        run_on(&self.mac, self.folder.path(), line)
    }

    fn attest(&self, rest: &str) -> Run {
        self.run(&format!("host attest --key host.key --origin {ORIGIN} {rest}"))
    }

    fn verify(&self, file: &str, rest: &str) -> Run {
        self.run(&format!("host verify {file} --host-key host.pub --origin {ORIGIN} {rest}"))
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn what_a_host_signs_its_guest_reads() {
    let host = Host::new();
    let rest =
        "--out shared --mac 5e:12:ab:00:34:f0 --least-version 3 --feature-level unrestricted --format json";
    let written = host.attest(rest).ok().json();
    assert_eq!((&written["chip"], &written["os_build"]), (&"Apple M1 Ultra".into(), &"25G76".into()));
    assert_eq!(host.names("shared"), ["host.note"]);
    let mode = fs::metadata(host.path("shared/host.note")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
    let text = fs::read_to_string(host.path("shared/host.note")).unwrap();
    assert!(text.starts_with(&format!("# capgate host v1 {ORIGIN}\nchip = \"Apple M1 Ultra\"\n")), "{text}");

    let on_host = host.verify("shared/host.note", "").ok();
    assert!(on_host.out.contains("signed by:      host-7\n"), "{}", on_host.out);
    let guest = Mac::guest();
    let line = format!("host verify shared/host.note --host-key host.pub --origin {ORIGIN} --format json");
    let judged = run_on(&guest, host.folder.path(), &line).ok().json();
    assert_eq!((&judged["counts"], &judged["this_chip"]), (&true.into(), &true.into()));
    let said = &judged["statement"];
    assert_eq!(said["feature_level"], "unrestricted");
    assert_eq!((&said["least_version"], &said["mac_addresses"][0]), (&3.into(), &"5e:12:ab:00:34:f0".into()));
    let time = |name: &str| said[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(time("expires") - time("issued"), jiff::SignedDuration::from_hours(1));
}

#[test]
fn a_statement_that_does_not_count_says_why() {
    let host = Host::new();
    host.attest("--out shared --lifetime 30m").ok();
    host.run("keygen host-8 --out other.key").ok();
    let other = host.run("keygen host-8 --out another.key").ok().out;
    fs::write(host.path("other.pub"), other).unwrap();
    let verify = |rest: &str| {
        let run = host.run(&format!("host verify shared/host.note --format json {rest}"));
        assert_eq!(run.exit, 4, "{}{}", run.out, run.err);
        let json = run.json();
        assert_eq!(json["counts"], false);
        (json["reason"].as_str().unwrap().to_owned(), json["detail"].as_str().unwrap().to_owned())
    };
    let own = "--host-key host.pub --origin";
    assert_eq!(verify(&format!("{own} {ORIGIN} --now 2040-01-01T00:00:00Z")).0, "host-expired");
    assert_eq!(verify(&format!("{own} {ORIGIN} --now 2020-01-01T00:00:00Z")).0, "host-not-yet-valid");
    assert_eq!(verify(&format!("{own} other.example/gpu")).0, "host-malformed");
    let (reason, detail) = verify(&format!("--host-key other.pub --origin {ORIGIN}"));
    assert_eq!(reason, "host-wrong-signer");
    assert!(detail.ends_with("it names `host-7`"), "{detail}");

    let m2 = Mac::new("kern.hv_vmm_present=#1\nmachdep.cpu.brand_string=Apple M2 Max (Virtual)\n");
    let line = format!("host verify shared/host.note {own} {ORIGIN}");
    let elsewhere = run_on(&m2, host.folder.path(), &line);
    assert_eq!(elsewhere.exit, 4);
    let says = "it does not count: host-other-chip: it names `Apple M1 Ultra`, this is `Apple M2 Max`\n";
    assert!(elsewhere.out.ends_with(says), "{}", elsewhere.out);
    assert!(elsewhere.err.starts_with("hint: See that the shared folder holds"), "{}", elsewhere.err);

    host.attest("--out shared --mac 5e:00:00:00:00:01").ok();
    let guest = run_on(&Mac::guest(), host.folder.path(), &format!("{line} --format json"));
    assert_eq!((guest.exit, &guest.json()["reason"]), (4, &"host-other-vm".into()));
    assert_eq!(host.verify("shared/host.note", "").exit, 0, "a host is none of its guests");
}

#[test]
fn every_changed_byte_stops_it_from_counting() {
    let host = Host::new();
    host.attest("--out shared").ok();
    let bytes = fs::read(host.path("shared/host.note")).unwrap();
    for at in (0..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(host.path("changed.note"), changed).unwrap();
        assert_eq!(host.verify("changed.note", "").exit, 4, "byte {at}");
    }
}

#[test]
fn only_a_host_that_knows_itself_signs() {
    let host = Host::new();
    let on = |mac: &Mac| {
        let line = format!("host attest --key host.key --origin {ORIGIN} --out shared");
        let run = run_on(mac, host.folder.path(), &line);
        assert_eq!((run.exit, run.out.as_str()), (1, ""));
        run.err
    };
    let guest = on(&Mac::guest());
    assert!(
        guest.starts_with("error: this is a virtual machine, and a host statement is about the Mac"),
        "{guest}"
    );
    let host_but = |change: &str| {
        let (name, _) = change.split_once('=').unwrap();
        let facts = [
            "kern.hv_vmm_present=#0",
            "machdep.cpu.brand_string=Apple M1 Ultra",
            "kern.osproductversion=26.6.1",
            "kern.osversion=25G76",
        ];
        let kept = facts.into_iter().filter(|line| !line.starts_with(&format!("{name}=")));
        let mut lines: Vec<&str> = kept.collect();
        if !change.ends_with('=') {
            lines.push(change);
        }
        on(&Mac::new(&format!("{}\n", lines.join("\n"))))
    };
    for (change, said) in [
        ("kern.hv_vmm_present=", "error: it is not known whether this is a virtual machine\n"),
        ("kern.hv_vmm_present=#7", "error: `kern.hv_vmm_present` is 7, neither 0 nor 1\n"),
        ("kern.hv_vmm_present=no", "error: it is not known whether this is a virtual machine\n"),
        (
            "machdep.cpu.brand_string=",
            "error: this machine does not say what its `machdep.cpu.brand_string` is\n",
        ),
        (
            "machdep.cpu.brand_string=Apple M1 Ultra (Virtual)",
            "error: the chip is named `Apple M1 Ultra (Virtual)`, which only a guest reads\n",
        ),
        (
            "machdep.cpu.brand_string=Apple processor",
            "error: `machdep.cpu.brand_string`: `Apple processor` names no",
        ),
        ("kern.osproductversion=", "error: this machine does not say what its `kern.osproductversion` is\n"),
        ("kern.osproductversion=16.0", "error: `kern.osproductversion`: `16.0` is a compatibility answer"),
        ("kern.osproductversion=15.1", "error: version `15.1` and build `25G76` do not belong together"),
        ("kern.osversion=", "error: this machine does not say what its `kern.osversion` is\n"),
        ("kern.osversion=garbage", "error: `kern.osversion`: `garbage` is not a macOS build"),
    ] {
        let err = host_but(change);
        assert!(err.starts_with(said), "{change}: {err}");
        assert!(err.contains("\nhelp: "), "{err}");
    }
    assert!(host.names("shared").is_empty());
    let linux = support::run_in(
        host.folder.path(),
        &format!("host attest --key host.key --origin {ORIGIN} --out shared"),
    );
    assert!(linux.exit == 1 && linux.err.starts_with("error: it is not known whether"), "{}", linux.err);
}

#[test]
fn wrong_usage_and_keys_are_refused() {
    let host = Host::new();
    for (rest, exit, said) in [
        ("--out shared --lifetime 25h", 2, "give from 1 minute to 24 hours"),
        ("--out shared --lifetime soon", 2, "write it as `1h`, `90m` or `30s`"),
        ("--out shared --mac 5E:12:AB:00:34:F0", 2, "is not a MAC address"),
        ("--out shared --every 5m", 2, "--watch"),
        ("--out shared --watch --every 31m", 2, "renew at least twice in a lifetime"),
        ("--out shared --watch --every 0s", 2, "give at least 1 second"),
        ("--out nodir/host.note", 1, "error: `"),
    ] {
        let run = host.attest(rest);
        assert_eq!(run.exit, exit, "{rest}: {}", run.err);
        assert!(run.err.contains(said), "{rest}: {}", run.err);
    }
    fs::set_permissions(host.path("host.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let open = host.attest("--out shared");
    assert!(open.exit == 1 && open.err.contains("can be used by others"), "{}", open.err);
    assert!(host.names("shared").is_empty());
    let private = host.run(&format!("host verify x --host-key host.key --origin {ORIGIN}"));
    assert_eq!(private.exit, 4);
    assert!(private.err.starts_with("error: `host.key` holds a private key"), "{}", private.err);
}

#[test]
fn nothing_but_a_file_is_replaced_and_no_link_is_followed() {
    let host = Host::new();
    let target = host.path("shared/host.note");
    let refused = |what: &str| {
        let run = host.attest("--out shared/host.note");
        let said =
            format!("error: `{}` cannot be written: {what}, which is never replaced\n", target.display());
        run.fails(1, &said);
        assert_eq!(host.names("shared"), ["host.note"]);
    };
    fs::write(host.path("precious"), "kept").unwrap();
    symlink(host.path("precious"), &target).unwrap();
    refused("is a link");
    assert_eq!(fs::read_to_string(host.path("precious")).unwrap(), "kept");
    fs::remove_file(&target).unwrap();
    symlink("nowhere", &target).unwrap();
    refused("is a link");
    fs::remove_file(&target).unwrap();
    make_fifo(&target);
    refused("is not a regular file");
    fs::remove_file(&target).unwrap();

    // A folder gets the statement under its usual name; where a folder has that name too, nothing is written.
    fs::create_dir(&target).unwrap();
    let run = host.attest("--out shared");
    assert!(run.exit == 1 && run.err.contains("is a folder, which is never replaced"), "{}", run.err);
    fs::remove_dir(&target).unwrap();

    symlink("shared", host.path("link")).unwrap();
    let run = host.attest("--out link");
    assert!(run.exit == 1 && run.err.contains("/link` cannot be written: is a link"), "{}", run.err);

    // What is no statement is nobody's to replace, however large, and the key above all.
    fs::File::create(&target).unwrap().set_len(2 << 30).unwrap();
    let run = host.attest("--out shared");
    assert!(run.exit == 1 && run.err.contains("is no host statement, and is not replaced"), "{}", run.err);
    let key = fs::read(host.path("host.key")).unwrap();
    let run = host.attest("--out host.key");
    assert!(run.exit == 1 && run.err.contains("is no host statement, and is not replaced"), "{}", run.err);
    assert_eq!(fs::read(host.path("host.key")).unwrap(), key);
    // An empty file holds nothing, and a statement of another registry is one.
    fs::write(&target, "").unwrap();
    host.attest("--out shared").ok();
    let other = host.run("host attest --key host.key --origin other.example/profiles --out shared");
    other.ok();
    host.attest("--out shared").ok();
    host.verify("shared/host.note", "").ok();
}

#[test]
fn a_hostile_shared_folder_is_refused_at_once() {
    let host = Host::new();
    let (fifo, folder, huge, link) =
        (host.path("fifo"), host.path("folder"), host.path("huge"), host.path("link"));
    make_fifo(&fifo);
    fs::create_dir(&folder).unwrap();
    fs::File::create(&huge).unwrap().set_len(2 << 30).unwrap();
    host.attest("--out shared").ok();
    symlink("shared/host.note", &link).unwrap();
    let start = Instant::now();
    for (file, said) in [
        ("fifo", "is not a regular file"),
        ("folder", "is not a regular file"),
        ("huge", "has more than the 16000 bytes that are accepted"),
        ("link", "is a link"),
        ("missing", "No such file or directory (os error 2)"),
        ("/dev/zero", "is not a regular file"),
    ] {
        host.verify(file, "").fails(1, &format!("error: `{file}` cannot be read: {said}\n"));
    }
    assert!(start.elapsed() < Duration::from_secs(20));
    for (name, content) in
        [("empty", &b""[..]), ("zeros", &[0; 9000]), ("text", b"chip = 1\n"), ("utf", b"\xff\n")]
    {
        fs::write(host.path(name), content).unwrap();
        let run = host.verify(name, "--format json");
        assert_eq!((run.exit, &run.json()["reason"]), (4, &"host-malformed".into()), "{name}");
    }
}

#[test]
fn an_unreadable_statement_is_no_statement() {
    let host = Host::new();
    host.attest("--out shared").ok();
    fs::set_permissions(host.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(host.path("shared/host.note"), fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = support::as_somebody_else(host.folder.path());
    command.args(["host", "verify", "shared/host.note", "--host-key", "host.pub", "--origin", ORIGIN]);
    let run = Run::of(&mut command);
    run.fails(1, "error: `shared/host.note` cannot be read: Permission denied (os error 13)\n");
}

#[test]
fn two_hosts_processes_at_once_leave_a_whole_statement() {
    let host = Host::new();
    let watch = |every: &str| start(&host, &["--out", "shared", "--watch", "--every", every]);
    let mut children = [watch("1s"), watch("1s")];
    let end = Instant::now() + Duration::from_secs(4);
    let mut reads = 0;
    while Instant::now() < end {
        if host.path("shared/host.note").exists() {
            host.verify("shared/host.note", "").ok();
            reads += 1;
        }
    }
    assert!(reads > 5, "{reads}");
    for child in &mut children {
        stop(child, "TERM");
    }
    assert_eq!(host.names("shared"), ["host.note"]);
}

#[test]
fn halves_of_statements_do_not_pile_up() {
    let host = Host::new();
    let (old, new) = (".host.note.0123456789abcdef", ".host.note.fedcba9876543210");
    for name in [old, new] {
        fs::write(host.path("shared").join(name), "half").unwrap();
    }
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(7200);
    fs::File::options()
        .write(true)
        .open(host.path("shared").join(old))
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    host.attest("--out shared").ok();
    assert_eq!(host.names("shared"), [new, "host.note"]);
}

#[test]
fn a_watch_renews_survives_a_failed_write_and_ends_when_asked() {
    let host = Host::new();
    let mut child = start(&host, &["--out", "shared", "--watch", "--every", "1s"]);
    let issued = || {
        let json = host.verify("shared/host.note", "--format json").json();
        json["statement"]["issued"].as_str().map(str::to_owned)
    };
    until(|| host.path("shared/host.note").exists());
    let first = issued().unwrap();
    until(|| issued().is_some_and(|issued| issued != first));
    // The share goes away and comes back.
    fs::rename(host.path("shared"), host.path("away")).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(child.try_wait().unwrap().is_none());
    fs::create_dir(host.path("shared")).unwrap();
    until(|| host.path("shared/host.note").exists());
    let err = stop(&mut child, "INT");
    let failed = "/shared` cannot be written: No such file or directory (os error 2)\n";
    assert!(err.starts_with("error: `") && err.contains(failed), "{err}");
    assert_eq!(host.names("shared"), ["host.note"]);
}

fn start(host: &Host, rest: &[&str]) -> Child {
    let mut command = support::capgate(host.folder.path());
    host.mac.runs(&mut command);
    command.args(["host", "attest", "--key", "host.key", "--origin", ORIGIN]).args(rest);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Asks a process to end; it must end well. Returns what it said on stderr.
fn stop(child: &mut Child, signal: &str) -> String {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
    until(|| child.try_wait().unwrap().is_some());
    assert!(child.wait().unwrap().success());
    std::io::read_to_string(child.stderr.take().unwrap()).unwrap()
}

#[track_caller]
fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "it took too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}
