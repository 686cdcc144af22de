//! Hostile state, hostile environments, and many processes: never a crash, a blocking open, an unbounded read or a grant.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::built::built;
use crate::guest::{GRANTED, Guest, Plan, Ran, STOCK, user};

const DEVICE: &str = "AppleParavirtDevice";
/// What every test of a refusal may take at most; a blocking open would take for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// What stands there instead, and how it gets there; the second path is where the real file was put.
type Replacement = (&'static str, fn(&Path, &Path));

#[track_caller]
fn never_granted(guest: &Guest, what: &str) -> Ran {
    let start = Instant::now();
    let ran = guest.ask(&[DEVICE]);
    assert!(start.elapsed() < PATIENCE, "{what} took {:?}", start.elapsed());
    assert_eq!(
        (ran.status, ran.out.as_str()),
        (Some(0), format!("{DEVICE} {STOCK}\n").as_str()),
        "{what}: {ran:?}"
    );
    assert!(ran.err.starts_with("[capgate] Stock: "), "{what}: {}", ran.err);
    ran
}

/// Every file of the state, from the prefix's `etc/capgate`.
fn files(guest: &Guest) -> Vec<String> {
    let mut names: Vec<String> = ["root.note", "site.toml", "host.note", "seen"].map(str::to_owned).into();
    names.extend(["registry/trust/1.note", "registry/snapshot/latest.note"].map(str::to_owned));
    let snapshots = fs::read_dir(guest.state("registry/snapshot")).unwrap();
    let snapshots = snapshots.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // The one that is in force is the newest; the empty one before it may be there too.
    let newest = snapshots.filter(|name| name.ends_with(".snap")).max().unwrap();
    names.push(format!("registry/snapshot/{newest}"));
    names
}

fn with_seen() -> Guest {
    let guest = Plan::default().make();
    guest.put("seen", "version = 0\nlog_size = 0\ntrust = 0\n");
    guest.ask(&[DEVICE]).is_granted(DEVICE);
    drop(fs::remove_file(guest.log()));
    guest
}

#[test]
fn a_state_file_that_is_something_else_means_stock() {
    let guest = with_seen();
    for name in files(&guest) {
        let path = guest.state(&name);
        let kept = guest.folder.join("kept");
        let replacements: [Replacement; 6] = [
            ("a FIFO", |path, _| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
            ("a directory", |path, _| fs::create_dir(path).unwrap()),
            ("a link to the real one", |path, kept| symlink(kept, path).unwrap()),
            ("a link to nowhere", |path, _| symlink("/nowhere", path).unwrap()),
            ("a socket", |path, _| {
                // The name of a socket has at most 107 bytes, so it is made elsewhere and moved.
                let folder = tempfile::tempdir_in(path.parent().unwrap()).unwrap();
                let short = tempfile::tempdir().unwrap();
                drop(std::os::unix::net::UnixListener::bind(short.path().join("s")).unwrap());
                let made = Command::new("mv").arg(short.path().join("s")).arg(path).status().unwrap();
                assert!(made.success());
                drop(folder);
            }),
            ("2 GiB", |path, _| fs::File::create(path).unwrap().set_len(2 << 30).unwrap()),
        ];
        for (what, replace) in replacements {
            fs::rename(&path, &kept).unwrap();
            replace(&path, &kept);
            never_granted(&guest, &format!("{name} is {what}"));
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir(&path).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            fs::rename(&kept, &path).unwrap();
        }
    }
    guest.ask(&[DEVICE]);
}

#[test]
fn a_state_that_others_can_write_means_stock() {
    let guest = with_seen();
    let mut names = files(&guest);
    names.extend(["", "registry", "registry/trust", "registry/snapshot"].map(str::to_owned));
    let folders = ["", "..", "../..", "../../lib", "../../lib/libcapgate.so"].map(str::to_owned);
    for name in names.into_iter().chain(folders) {
        let path = guest.state(&name);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        for more in [0o002, 0o020] {
            Guest::mode(&path, mode | more);
            let ran = never_granted(&guest, &format!("{name} with {more:o}"));
            assert!(ran.err.contains("can be written by others"), "{name}: {}", ran.err);
        }
        Guest::mode(&path, mode);
        // An access control list, which only macOS keeps beside the mode.
        guest.answer("acl", &format!("{}\n", path.canonicalize().unwrap().display()));
        let ran = never_granted(&guest, &format!("{name} with a list"));
        assert!(ran.err.contains("access control list"), "{name}: {}", ran.err);
        guest.answer("acl", "");
    }
}

#[test]
fn a_state_of_another_user_means_stock() {
    if user() != 0 {
        eprintln!("not tested: only root can give files away");
        return;
    }
    let guest = with_seen();
    let mut names = files(&guest);
    names.extend(["", "registry", "registry/snapshot", "../../lib", "../.."].map(str::to_owned));
    for name in names {
        chown(guest.state(&name), Some(12_345), None).unwrap();
        let ran = never_granted(&guest, &format!("{name} of another"));
        assert!(ran.err.contains("belongs to user 12345"), "{name}: {}", ran.err);
        chown(guest.state(&name), Some(0), None).unwrap();
    }
}

#[test]
fn another_user_is_granted_by_roots_state_and_logs_for_itself() {
    if user() != 0 {
        eprintln!("not tested: only root can become another user");
        return;
    }
    let guest = Plan::default().make();
    let folder = guest.log().parent().unwrap().to_owned();
    Guest::mode(&folder, 0o1777);
    let run = |guest: &Guest| guest.finish(guest.command(&built().ask).arg(DEVICE).uid(12_345).gid(12_345));
    let ran = run(&guest);
    assert_eq!(ran.out, format!("{DEVICE} {GRANTED}\n"), "{ran:?}");
    let own = folder.join("12345.jsonl");
    assert_eq!(fs::read_to_string(&own).unwrap().lines().count(), 2);
    // Reads refused.
    for name in files(&guest).iter().filter(|name| *name != "seen") {
        Guest::mode(&guest.state(name), 0o600);
        let ran = run(&guest);
        assert_eq!(ran.out, format!("{DEVICE} {STOCK}\n"), "{name}: {ran:?}");
        assert!(ran.err.contains("Permission denied"), "{name}: {}", ran.err);
        Guest::mode(&guest.state(name), 0o644);
    }
    // Somebody else made the log first: nothing is written into it, and nothing is granted.
    chown(&own, Some(12_346), None).unwrap();
    Guest::mode(&own, 0o666);
    let ran = run(&guest);
    assert!(ran.err.starts_with("[capgate] Stock: log-unwritable: "), "{}", ran.err);
}

#[test]
fn a_library_reached_by_another_way_means_stock() {
    let guest = Plan::default().make();
    let library = guest.library();
    let link = guest.folder.join("link.so");
    symlink(&library, &link).unwrap();
    let elsewhere = guest.folder.join("libcapgate.so");
    fs::copy(&library, &elsewhere).unwrap();
    let folder = guest.folder.join("linked");
    symlink(guest.prefix(), &folder).unwrap();
    let dotted = format!("{}/lib/../lib/libcapgate.so", guest.prefix().display());
    let doubled = format!("{}/lib//libcapgate.so", guest.prefix().display());
    let through = format!("{}/lib/libcapgate.so", folder.display());
    let ways = [
        "./prefix/lib/libcapgate.so",
        &link.display().to_string(),
        &elsewhere.display().to_string(),
        &through,
        &dotted,
        &doubled,
    ];
    for way in ways {
        let ran = guest.finish(guest.command_with(&built().ask, way).arg(DEVICE).current_dir(&guest.folder));
        assert_eq!((ran.status, ran.out), (Some(0), format!("{DEVICE} {STOCK}\n")), "{way}");
        assert!(ran.err.starts_with("[capgate] Stock: registry-"), "{way}: {}", ran.err);
    }
}

#[test]
fn a_registry_cut_at_every_4_kib_means_stock() {
    let guest = with_seen();
    for name in files(&guest) {
        let path = guest.state(&name);
        let whole = fs::read(&path).unwrap();
        for length in (0..whole.len()).step_by(4096).chain([whole.len() - 1]) {
            fs::write(&path, &whole[..length]).unwrap();
            // An empty site policy lacks its `schema`; everything else is signed, or needs what was cut off.
            never_granted(&guest, &format!("{name} cut at {length}"));
        }
        fs::write(&path, &whole).unwrap();
    }
    guest.ask(&[DEVICE]);
}

#[test]
fn hostile_variables_switch_nothing_on_and_break_nothing() {
    let long = "x".repeat(100_000);
    let guest = Plan { statement: None, ..Plan::default() }.make();
    let names = [
        "CAPGATE_SHIM",
        "CAPGATE_QUIET",
        "CAPGATE_DISABLE",
        "LUME_METAL_APPLE_FAMILY_MAX",
        "CAPGATE_ROOT",
        "CAPGATE_REGISTRY",
        "CAPGATE_LOG",
        "CAPGATE_PREFIX",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "TZ",
        "HOME",
        "TMPDIR",
    ];
    for name in names {
        for value in ["", "1", "1009", "\u{202e}\u{1b}[2J", "%n%s", "../../..", &long] {
            let ran = guest.finish(guest.command(&built().ask).arg(DEVICE).env(name, value));
            assert_eq!((ran.status, ran.out), (Some(0), format!("{DEVICE} {STOCK}\n")), "{name}={value:.20}");
        }
    }
    for extra in ["", " ", ":::", " : : ", &format!(" {long}"), " /nowhere.so", " /"] {
        let preload = format!("{}{extra}", guest.library().display());
        let ran = guest.finish(guest.command_with(&built().ask, &preload).arg(DEVICE));
        assert_eq!((ran.status, ran.out), (Some(0), format!("{DEVICE} {STOCK}\n")), "{extra:.20}");
    }
}

#[test]
fn hostile_answers_of_the_system_mean_stock() {
    let long = "x".repeat(1_500);
    for value in ["", " ", "Apple M1 Ultra (Virtual) (Virtual)", "Apple\u{202e}M1", &long] {
        let guest = Plan::default().edit_sysctl("Apple M1 Ultra (Virtual)", value).make();
        never_granted(&guest, value);
    }
    let guest = Plan::default().standin("cdhash", "0".repeat(40)).make();
    never_granted(&guest, "a cdhash of zeros").is_refused("fact-workload-missing");
}

#[test]
fn two_hundred_processes_at_once_are_granted_and_logged_line_by_line() {
    let guest = Plan::default().make();
    let children: Vec<_> = (0..200)
        .map(|_| {
            let mut command = guest.command(&built().ask);
            command.arg(DEVICE).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{DEVICE} {GRANTED}\n"));
        assert!(output.status.success());
    }
    let lines = guest.lines();
    assert_eq!(lines.len(), 400);
    let ids: std::collections::BTreeSet<&str> =
        lines.iter().map(|line| line["decision"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 200);
}

#[test]
fn state_that_is_replaced_during_the_start_is_the_old_or_the_new_one() {
    // Two registries with the same keys; only in one of them the program is tested.
    let guest = Plan::default().make();
    let other = Plan { profiles: Vec::new(), ..Plan::default() }.make();
    let (one, two) = (guest.state("registry"), guest.folder.join("second"));
    fs::rename(other.state("registry"), &two).unwrap();
    let done = AtomicBool::new(false);
    let (mut granted, mut stock) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let away = guest.folder.join("away");
            while !done.load(Ordering::Relaxed) {
                fs::rename(&one, &away).unwrap();
                fs::rename(&two, &one).unwrap();
                fs::rename(&away, &two).unwrap();
            }
        });
        for _ in 0..300 {
            let ran = guest.finish(guest.command(&built().ask).arg(DEVICE));
            assert_eq!(ran.status, Some(0), "{ran:?}");
            match ran.out.as_str() {
                out if out == format!("{DEVICE} {GRANTED}\n") => granted += 1,
                out => {
                    assert_eq!(out, format!("{DEVICE} {STOCK}\n"));
                    let reasons = ["no-profile", "registry-", "host-"];
                    let said = reasons
                        .iter()
                        .any(|reason| ran.err.starts_with(&format!("[capgate] Stock: {reason}")));
                    assert!(said, "{}", ran.err);
                    stock += 1;
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(granted > 0 && stock > 0, "{granted} granted, {stock} stock");
}

#[test]
fn a_full_disk_means_stock_and_nothing_else() {
    if user() != 0 {
        eprintln!("not tested: only root can mount a small file system");
        return;
    }
    let guest = Plan::default().make();
    let folder = guest.log().parent().unwrap().to_owned();
    // In a mount namespace of the shell's own, so that nothing of it outlives the test.
    let script = format!(
        "mount -t tmpfs -o size=4k,mode=700 none '{0}' && head -c 4096 /dev/zero > '{0}/fill' && exec \"$@\"",
        folder.display()
    );
    let mut command = guest.command(Path::new("/usr/bin/unshare"));
    let preload = format!("{} {}", built().standin.display(), guest.library().display());
    command.env_remove("LD_PRELOAD").args(["--mount", "sh", "-c", &script, "sh", "env"]);
    command.arg(format!("LD_PRELOAD={preload}")).arg(&built().ask).arg(DEVICE);
    let ran = guest.finish(&mut command);
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), format!("{DEVICE} {STOCK}\n").as_str()), "{ran:?}");
    let last = ran.err.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("[capgate] Stock: log-unwritable: ") && last.contains("No space left"),
        "{}",
        ran.err
    );
}

#[test]
fn closed_streams_break_nothing() {
    let guest = Plan::default().make();
    let script = "exec 0<&- 2>&-; exec \"$@\"";
    let preload = format!("LD_PRELOAD={} {}", built().standin.display(), guest.library().display());
    let mut command = guest.command(Path::new("/bin/sh"));
    command
        .env_remove("LD_PRELOAD")
        .args(["-c", script, "sh", "env"])
        .arg(preload)
        .arg(&built().ask)
        .arg(DEVICE);
    let ran = guest.finish(&mut command);
    assert_eq!(
        (ran.status, ran.out.as_str()),
        (Some(0), format!("{DEVICE} {GRANTED}\n").as_str()),
        "{ran:?}"
    );
    assert_eq!(ran.log.len(), 2);
}

#[test]
fn nothing_is_printed_on_standard_output_and_no_descriptor_is_left_open() {
    let guest = Plan::default().make();
    let list = Path::new("/bin/ls");
    let without = guest.finish(guest.command_with(list, "").arg("/proc/self/fd"));
    let with = guest.finish(guest.command(list).arg("/proc/self/fd"));
    // By its file it is another program; the stand-in's kernel says that it is the tested one.
    assert!(with.err.starts_with("[capgate] Granted "), "{}", with.err);
    assert_eq!(with.out, without.out);
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(b"through\n").unwrap();
    let mut command = guest.command(Path::new("/bin/echo"));
    assert_eq!(guest.finish(command.arg("through")).out, "through\n");
}
