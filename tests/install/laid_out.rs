//! What an installation leaves, and that it leaves it once.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use capgate_guest::prefix::Prefix;
use capgate_guest::session::State;

use crate::site::{Site, is_root};
use crate::support::{self, NOW, ORIGIN, Run};

#[test]
fn a_prefix_is_laid_out_with_its_modes_and_taken_away_again() {
    let site = Site::new();
    let run = site.install("--registry registry --host-key host.pub").ok();
    assert!(run.out.ends_with(&format!("installed in {}\n", site.prefix().display())), "{}", run.out);
    assert_eq!(run.err, "");
    let tree = site.tree();
    let modes: Vec<(&str, u32)> = tree
        .iter()
        .filter(|(name, _)| !name.starts_with("etc/capgate/registry/"))
        .map(|(name, (mode, _))| (name.as_str(), *mode))
        .collect();
    let log_mode = if is_root() { 0o1777 } else { 0o700 };
    assert_eq!(
        modes,
        [
            ("bin/", 0o755),
            ("bin/capgate", 0o755),
            ("etc/", 0o755),
            ("etc/capgate/", 0o755),
            ("etc/capgate/installed", 0o644),
            ("etc/capgate/root.note", 0o644),
            ("etc/capgate/site.toml", 0o644),
            ("include/", 0o755),
            ("include/capgate.h", 0o644),
            ("lib/", 0o755),
            ("lib/libcapgate.so", 0o755),
            ("var/", 0o755),
            ("var/log/", 0o755),
            ("var/log/capgate/", log_mode),
        ]
    );
    assert_eq!(tree["etc/capgate/root.note"].1, format!("{}\n", site.world.root).as_bytes());
    assert_eq!(tree["bin/capgate"].1, fs::read(env!("CARGO_BIN_EXE_capgate")).unwrap());
    let policy = fs::read_to_string(site.file("etc/capgate/site.toml")).unwrap();
    assert!(policy.contains(site.world.read("host.pub").trim()) && policy.contains("# statement ="));

    // The copied registry is the registry, and the guest's own reader believes it.
    let copied: BTreeMap<_, _> =
        tree.iter().filter(|(name, _)| name.starts_with("etc/capgate/registry/")).collect();
    for (name, (mode, bytes)) in &copied {
        assert_eq!(*mode, if name.ends_with('/') { 0o755 } else { 0o644 }, "{name}");
        let source = site.world.path(&name.replace("etc/capgate/", ""));
        assert!(name.ends_with('/') || fs::read(source).unwrap() == *bytes, "{name}");
    }
    assert!(copied.len() > 5, "{}", copied.len());
    let prefix = Prefix::at(&site.prefix()).unwrap();
    let state = State::read(Ok(&prefix), NOW.parse().unwrap());
    assert_eq!(state.registry.unwrap().chain().origin().as_str(), ORIGIN);
    assert_eq!(state.site.unwrap().unwrap().host_keys.len(), 1);
    assert!(state.log.is_ok());
    Prefix::of_library(&site.file("lib/libcapgate.so")).unwrap();

    let gone = site.uninstall("").ok();
    assert!(gone.out.starts_with("removed: ") && !gone.out.contains("kept"), "{}", gone.out);
    assert!(!site.prefix().exists());
}

#[test]
fn installing_again_changes_nothing() {
    let site = Site::new();
    let line = "--registry registry --host-key host.pub";
    site.install(line).ok();
    let before = site.tree();
    let again = site.install(line).ok();
    assert!(
        again.out.ends_with(&format!("already installed in {}\n", site.prefix().display())),
        "{}",
        again.out
    );
    assert!(!again.out.contains("written"), "{}", again.out);
    assert_eq!(site.tree(), before);
    // From the prefix itself too, where the library is found beside the command.
    let mut own = std::process::Command::new(site.file("bin/capgate"));
    own.current_dir(site.world.folder.path()).args(["install", site.prefix().to_str().unwrap()]);
    let own = Run::of(own.args(["--root", &site.world.root])).ok();
    assert!(own.out.contains("already installed in "), "{}", own.out);
    assert_eq!(site.tree(), before);
}

#[test]
fn a_dry_run_writes_nothing() {
    let site = Site::new();
    let json = site.install("--dry-run --registry registry --format json").ok().json();
    let parts = json["parts"].as_array().unwrap();
    assert!(parts.iter().all(|part| part["state"] == "new") && parts.len() == 6, "{json}");
    assert!(!site.prefix().exists());
    site.install("").ok();
    let before = site.tree();
    let run = site.uninstall("--dry-run").ok();
    assert!(run.out.starts_with("would be removed: 5 files from "), "{}", run.out);
    assert_eq!(site.tree(), before);
}

#[test]
fn a_registry_that_is_there_is_kept() {
    let site = Site::new();
    let first = site.install("").ok();
    assert!(first.err.starts_with("hint: it holds no registry yet"), "{}", first.err);
    site.install("--registry registry").ok();
    site.world.run(&format!("renew --registry-key registry.key --now {NOW}")).ok();
    let newer = site.install("--registry registry");
    assert!(
        newer.exit == 1 && newer.err.contains("holds another registry, or another version"),
        "{}",
        newer.err
    );
    site.install("").ok();
    // What an interrupted copy left is no obstacle.
    fs::create_dir_all(site.file("etc/capgate/.installing/trust")).unwrap();
    fs::remove_dir_all(site.file("etc/capgate/registry")).unwrap();
    site.install("--registry registry").ok();
    assert!(!site.file("etc/capgate/.installing").exists());
    assert!(site.uninstall("").ok().out.lines().count() == 1);
    assert!(!site.prefix().exists());
}

#[test]
fn a_user_installs_for_itself() {
    if !is_root() {
        return; // The other tests already do.
    }
    let site = Site::new();
    let home = site.place.path().join("home");
    fs::create_dir(&home).unwrap();
    for path in [site.place.path(), site.world.folder.path()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    let mut command = support::as_somebody_else(site.world.folder.path());
    let prefix = home.join("capgate");
    command.arg("install").arg(&prefix).args(["--library", "libcapgate.so", "--registry", "registry"]);
    Run::of(command.args(["--root", &site.world.root, "--now", NOW])).ok();
    let metadata = |name: &str| fs::metadata(prefix.join(name)).unwrap();
    assert_eq!(metadata("var/log/capgate").mode() & 0o7777, 0o700);
    assert_eq!((metadata("bin/capgate").uid(), metadata("etc/capgate/root.note").uid()), (65534, 65534));
    // Where root installed, a user changes nothing.
    site.install("").ok();
    let mut command = support::as_somebody_else(site.world.folder.path());
    command.arg("uninstall").arg(site.prefix()).arg("--agents").arg(&home);
    let run = Run::of(&mut command);
    assert!(
        run.exit == 1 && run.err.contains("cannot be removed: Permission denied"),
        "{}{}",
        run.out,
        run.err
    );
    let mut command = support::as_somebody_else(site.world.folder.path());
    command.arg("install").arg(home.join("../x/y")).args(["--library", "libcapgate.so"]);
    assert_eq!(Run::of(command.args(["--root", &site.world.root])).exit, 2);
    // Another user's folder above is refused to root as well.
    let run = site.install_in(&home.join("for-root"), "");
    assert!(run.exit == 1 && run.err.contains("belongs to user 65534"), "{}", run.err);
    assert!(run.err.contains("help: sudo chown 0 "), "{}", run.err);
}

#[test]
fn two_installations_at_once_leave_a_whole_prefix() {
    let site = Site::new();
    let start = || {
        let mut command = site.world.command();
        let prefix = site.prefix();
        command.arg("install").arg(prefix).args(["--library", "libcapgate.so", "--registry", "registry"]);
        command.args(["--now", NOW]).stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    for child in children {
        child.wait_with_output().unwrap();
    }
    let run = site.install("--registry registry").ok();
    assert!(run.out.contains("installed in"), "{}", run.out);
    let prefix = Prefix::at(&site.prefix()).unwrap();
    assert!(State::read(Ok(&prefix), NOW.parse().unwrap()).registry.is_ok());
    site.uninstall("").ok();
    assert!(!site.prefix().exists(), "{:?}", site.tree().keys());
}

#[test]
fn an_installation_that_was_killed_is_completed_and_taken_away_whole() {
    let site = Site::new();
    for delay in (0..60).step_by(4) {
        let mut command = site.world.command();
        command.arg("install").arg(site.prefix()).args([
            "--library",
            "libcapgate.so",
            "--registry",
            "registry",
        ]);
        command.args(["--now", NOW]).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        if delay % 8 == 0 {
            site.install("--registry registry").ok();
        }
        let run = site.uninstall("");
        // Killed before the list was written, it left at most empty folders.
        let nothing = run.exit == 1
            && site.tree().keys().all(|name| name.ends_with('/') || name.contains(".installing"));
        assert!(run.exit == 0 || nothing, "{delay} {}{}{:?}", run.out, run.err, site.tree().keys());
        assert!(!run.out.contains("kept"), "{delay} {}", run.out);
    }
    site.install("--registry registry").ok();
}
