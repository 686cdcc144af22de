//! Installing and uninstalling a prefix through the real command.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use capgate_guest::prefix::Prefix;
use capgate_guest::session::State;
use support::mac::Mac;
use support::{NOW, ORIGIN, Run, World, run_on};

/// A registry, a library, a host key, and a place for a prefix that nobody else can write.
struct Site {
    world: World,
    place: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { world: World::published(), place: support::private_folder() };
        site.world.put("libcapgate.so", "a library");
        let host = site.world.run("keygen host-7 --out host.key").ok();
        site.world.put("host.pub", &host.out);
        site
    }

    fn prefix(&self) -> PathBuf {
        self.place.path().join("prefix")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.prefix().join(name)
    }

    fn run(&self, line: &str) -> Run {
        let mut command = self.world.command();
        Run::of(command.env("HOME", self.place.path()).args(support::words(line)))
    }

    /// Installs in the prefix, with the library.
    fn install(&self, rest: &str) -> Run {
        self.install_in(&self.prefix(), rest)
    }

    fn install_in(&self, prefix: &Path, rest: &str) -> Run {
        self.run(&format!("install '{}' --library libcapgate.so --now {NOW} {rest}", prefix.display()))
    }

    fn uninstall(&self, rest: &str) -> Run {
        self.run(&format!("uninstall {} {rest}", self.prefix().display()))
    }

    /// Every file below the prefix with its content, and every folder with nothing.
    fn tree(&self) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut tree = BTreeMap::new();
        if self.prefix().exists() {
            add(&self.prefix(), "", &mut tree);
        }
        tree
    }
}

fn add(folder: &Path, prefix: &str, tree: &mut BTreeMap<String, (u32, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        let metadata = fs::symlink_metadata(entry.path()).unwrap();
        let mode = metadata.mode() & 0o7777;
        if metadata.is_dir() {
            tree.insert(format!("{name}/"), (mode, Vec::new()));
            add(&entry.path(), &format!("{name}/"), tree);
        } else if metadata.is_file() {
            tree.insert(name, (mode, fs::read(entry.path()).unwrap()));
        } else {
            tree.insert(name, (mode, b"special".to_vec()));
        }
    }
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

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
    assert!(parts.iter().all(|part| part["state"] == "new") && parts.len() == 5, "{json}");
    assert!(!site.prefix().exists());
    site.install("").ok();
    let before = site.tree();
    let run = site.uninstall("--dry-run").ok();
    assert!(run.out.starts_with("would be removed: 4 files from "), "{}", run.out);
    assert_eq!(site.tree(), before);
}

#[test]
fn nothing_that_differs_is_overwritten() {
    for (name, said) in [
        ("bin/capgate", "is there and differs, and nothing is overwritten"),
        ("lib/libcapgate.so", "is there and differs, and nothing is overwritten"),
        ("etc/capgate/root.note", "pins another root, and a pin is never overwritten"),
    ] {
        let site = Site::new();
        site.install("").ok();
        fs::write(site.file(name), "another").unwrap();
        let before = site.tree();
        let run = site.install("--registry registry");
        let said = format!("error: `{}` {said}\nhelp: ", site.file(name).display());
        assert!(run.exit == 1 && run.err.starts_with(&said), "{}", run.err);
        assert_eq!(site.tree(), before);
    }
}

#[test]
fn the_operators_own_policy_stays() {
    let site = Site::new();
    site.install("").ok();
    let policy = site.file("etc/capgate/site.toml");
    let edited = "schema = \"1.0.0\"\nmode = \"observe\"\n";
    fs::write(&policy, edited).unwrap();
    let again = site.install("").ok();
    assert!(again.out.contains("kept:     etc/capgate/site.toml\n"), "{}", again.out);
    let unknown = site.install("--host-key host.pub");
    assert!(
        unknown.err.contains("does not name the host key `host-7`\nhelp: add \"host-7+"),
        "{}",
        unknown.err
    );
    fs::write(&policy, "mode = 1\n").unwrap();
    let broken = site.install("").ok();
    assert!(broken.err.starts_with("warning: `"), "{}", broken.err);
    fs::write(&policy, edited).unwrap();
    let gone = site.uninstall("").ok();
    let kept = "kept: etc/capgate/site.toml: it was changed since it was installed\n";
    assert!(gone.out.ends_with(kept), "{}", gone.out);
    assert_eq!(
        site.tree().into_keys().collect::<Vec<_>>(),
        ["etc/", "etc/capgate/", "etc/capgate/site.toml"]
    );
    // And it is taken up by the next installation, which does not call it its own.
    site.install("").ok();
    assert!(!fs::read_to_string(site.file("etc/capgate/installed")).unwrap().contains("site.toml"));
    assert_eq!(fs::read_to_string(&policy).unwrap(), edited);
}

#[test]
fn folders_that_others_can_write_are_refused() {
    let site = Site::new();
    let open = site.place.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for prefix in [open.clone(), open.join("deep/prefix")] {
        let run = site.install_in(&prefix, "");
        let said = format!(
            "error: `{0}` can be written by others (mode 777)\nhelp: chmod go-w {0}, or choose another place\n",
            open.display()
        );
        run.fails(1, &said);
    }
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
    let sticky = site.install_in(&open.join("x"), "");
    assert!(sticky.exit == 1 && sticky.err.contains("help: choose another place: "), "{}", sticky.err);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o775)).unwrap();
    assert_eq!(site.install_in(&open.join("x"), "").exit, 1, "its group");
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0);

    // The same below the prefix.
    site.install("").ok();
    fs::set_permissions(site.file("etc"), fs::Permissions::from_mode(0o777)).unwrap();
    let run = site.install("");
    assert!(
        run.exit == 1 && run.err.contains("/prefix/etc` can be written by others (mode 777)"),
        "{}",
        run.err
    );
    fs::set_permissions(site.file("etc"), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, mode) in [("bin/capgate", 0o777), ("etc/capgate/site.toml", 0o600), ("var/log/capgate", 0o755)]
    {
        let right = fs::metadata(site.file(name)).unwrap().permissions();
        fs::set_permissions(site.file(name), fs::Permissions::from_mode(mode)).unwrap();
        let run = site.install("");
        assert!(
            run.exit == 1 && run.err.contains(&format!("has mode {mode:o}, and ")),
            "{name}: {}",
            run.err
        );
        assert!(run.err.contains("help: chmod "), "{}", run.err);
        fs::set_permissions(site.file(name), right).unwrap();
    }
    site.install("").ok();
}

#[test]
fn links_and_odd_paths_are_refused() {
    let site = Site::new();
    let real = site.place.path().join("real");
    fs::create_dir(&real).unwrap();
    symlink(&real, site.place.path().join("link")).unwrap();
    symlink("/nowhere/at/all", site.place.path().join("dangling")).unwrap();
    let link = site.install_in(&site.place.path().join("link/prefix"), "");
    let said = format!(
        "error: `{0}/link` is a link\nhelp: give the path that the link leads to, `{0}/real`, in its place\n",
        site.place.path().display()
    );
    link.fails(1, &said);
    for (path, exit) in
        [("link", 1), ("dangling", 1), ("dangling/x", 1), ("a/../b", 2), ("a:b", 2), ("a\u{1b}b", 2)]
    {
        let run = site.install_in(&site.place.path().join(path), "");
        assert_eq!(run.exit, exit, "{path} {}", run.err);
    }
    assert_eq!(site.run("install / --library libcapgate.so").exit, 2);
    let file = site.place.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(site.install_in(&file, "").exit, 1);
    assert_eq!(site.install_in(&file.join("prefix"), "").exit, 1);
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);

    // A link, a pipe or a folder where a file should be.
    site.install("").ok();
    let pin = site.file("etc/capgate/root.note");
    fs::rename(&pin, site.file("pin")).unwrap();
    symlink(site.file("pin"), &pin).unwrap();
    assert!(site.install("").err.contains("root.note` is a link"));
    fs::remove_file(&pin).unwrap();
    fs::create_dir(&pin).unwrap();
    assert!(site.install("").err.contains("root.note` is not a regular file"));
    fs::remove_dir(&pin).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pin).status().unwrap().success());
    assert!(site.install("").err.contains("root.note` is not a regular file"));
}

#[test]
fn only_a_verified_registry_is_copied() {
    let site = Site::new();
    let refused = |rest: &str, exit: i32, said: &str| {
        let run = site.install(rest);
        assert_eq!(run.exit, exit, "{}{}", run.out, run.err);
        assert!(run.err.contains(said), "{}", run.err);
        assert!(!site.prefix().exists());
    };
    let other = format!("--registry registry --root sha256:{}", "1".repeat(64));
    refused(&other, 4, "compare the digest given with `--root`");
    refused("--registry nodir", 1, "there is no registry folder `nodir`");
    let late = site.run(&format!(
        "install {} --library libcapgate.so --registry registry --now 2027-06-01T00:00:00Z",
        site.prefix().display()
    ));
    assert!(late.exit == 4 && late.err.contains("ended"), "{}", late.err);
    // A tile that the log does not bear out is found although no lookup would read it.
    let tile = site.world.path("registry/log/tile/0");
    let tile = first_file(&tile);
    let mut bytes = fs::read(&tile).unwrap();
    bytes[0] ^= 1;
    fs::write(&tile, bytes).unwrap();
    refused("--registry registry", 4, "the registry has ");
    assert_eq!(site.run("install p --library nofile").exit, 1);
    let run = site.run(&format!("install {}", site.prefix().display()));
    run.fails(
        1,
        "error: there is no `../lib/libcapgate.so` beside this program\n\
         help: name the library with `--library FILE`\n",
    );
}

fn first_file(folder: &Path) -> PathBuf {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    match paths.iter().find(|path| path.is_file()) {
        Some(file) => file.clone(),
        None => first_file(&paths[0]),
    }
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
fn what_others_added_or_changed_stays() {
    let site = Site::new();
    site.install("--registry registry").ok();
    for (name, text) in [
        ("bin/tool", "theirs"),
        ("etc/other.conf", "theirs"),
        ("etc/capgate/registry/notes.txt", "theirs"),
        ("lib/libcapgate.so", "patched"),
        ("var/log/capgate/501.jsonl", "{}\n"),
        ("var/log/capgate/notes.txt", "theirs"),
    ] {
        fs::write(site.file(name), text).unwrap();
    }
    fs::write(site.file("etc/capgate/seen"), "capgate's own").unwrap();
    fs::remove_file(site.file("bin/capgate")).unwrap();
    let json = site.uninstall("--format json").ok().json();
    let kept: Vec<&str> =
        json["kept"].as_array().unwrap().iter().map(|kept| kept["path"].as_str().unwrap()).collect();
    let expected = [
        "lib/libcapgate.so",
        "bin/tool",
        "etc/other.conf",
        "etc/capgate/registry/notes.txt",
        "var/log/capgate/501.jsonl",
        "var/log/capgate/notes.txt",
    ];
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(sorted(kept), sorted(expected.to_vec()));
    let left: Vec<String> = site.tree().into_keys().filter(|name| !name.ends_with('/')).collect();
    assert_eq!(left, sorted(expected.to_vec()));
    // The list is gone: nothing more is capgate's.
    let again = site.uninstall("");
    assert!(again.exit == 1 && again.err.contains("holds nothing that `capgate install` put there"));
}

#[test]
fn logs_go_only_when_they_are_meant() {
    let site = Site::new();
    site.install("").ok();
    fs::write(site.file("var/log/capgate/501.jsonl"), "{}\n").unwrap();
    fs::write(site.file("precious"), "kept").unwrap();
    symlink(site.file("precious"), site.file("var/log/capgate/502.jsonl")).unwrap();
    let shown = site.uninstall("--dry-run").ok();
    assert!(shown.out.contains("kept: var/log/capgate/501.jsonl: it is a decision log\n"), "{}", shown.out);
    assert!(shown.err.contains("`--logs` removes"), "{}", shown.err);
    site.uninstall("--logs").ok();
    let left: Vec<String> = site.tree().into_keys().collect();
    assert_eq!(left, ["precious", "var/", "var/log/", "var/log/capgate/", "var/log/capgate/502.jsonl"]);
}

#[test]
fn a_list_that_leads_out_is_refused() {
    let site = Site::new();
    site.install("").ok();
    let list = site.file("etc/capgate/installed");
    let good = fs::read_to_string(&list).unwrap();
    fs::write(site.place.path().join("precious"), "kept").unwrap();
    let digest = "1".repeat(64);
    for line in [format!("file sha256:{digest} ../precious"), "folder /tmp".to_owned(), "nonsense".to_owned()]
    {
        fs::write(&list, format!("{good}{line}\n")).unwrap();
        let run = site.uninstall("");
        assert!(run.exit == 4 && run.err.contains("is no list of what was installed: line "), "{}", run.err);
        assert_eq!(site.install("").exit, 4);
    }
    // A folder that became a link is left alone with all behind it.
    fs::write(&list, good).unwrap();
    fs::rename(site.file("lib"), site.place.path().join("elsewhere")).unwrap();
    symlink(site.place.path().join("elsewhere"), site.file("lib")).unwrap();
    let run = site.uninstall("").ok();
    assert!(run.out.contains("kept: lib/libcapgate.so: ") && run.out.contains("kept: lib: "), "{}", run.out);
    assert!(site.place.path().join("elsewhere/libcapgate.so").exists());
    let huge = Site::new();
    huge.install("").ok();
    fs::File::create(huge.file("etc/capgate/installed")).unwrap().set_len(2 << 30).unwrap();
    assert_eq!(huge.uninstall("").exit, 1);
}

#[test]
fn an_agent_that_names_the_prefix_goes_first() {
    let site = Site::new();
    site.install("").ok();
    let before = site.tree();
    let server = site.place.path().join("server");
    fs::copy("/bin/true", &server).unwrap();
    let written =
        site.run(&format!("launch-agent write --prefix {} -- {}", site.prefix().display(), server.display()));
    written.ok();
    let agents = site.place.path().join("Library/LaunchAgents");
    let refused = |rest: &str, name: &str| {
        let run = site.uninstall(rest);
        let said = format!("error: the launch agent `{}` names a file of `", agents.join(name).display());
        assert!(run.exit == 1 && run.err.starts_with(&said), "{}{}", run.out, run.err);
        assert!(run.err.contains("\nhelp: capgate launch-agent remove --label "), "{}", run.err);
        assert_eq!(site.tree(), before);
    };
    refused("", "org.capgate.server.plist");
    site.run("launch-agent remove --name server").ok();
    // Somebody's own agent with the library in a variable, as XML, as a binary list, and as a file too large to parse.
    let library = site.file("lib/libcapgate.so");
    let mut variables = plist::Dictionary::new();
    let both = format!("/x.dylib:{}", library.display().to_string().to_uppercase());
    variables.insert("DYLD_INSERT_LIBRARIES".into(), both.into());
    let mut list = plist::Dictionary::new();
    list.insert("Label".into(), "own".into());
    list.insert("EnvironmentVariables".into(), variables.into());
    let value = plist::Value::Dictionary(list);
    let own = agents.join("own.plist");
    value.to_file_xml(&own).unwrap();
    refused("", "own.plist");
    value.to_file_binary(&own).unwrap();
    refused("", "own.plist");
    let padded = format!("{}<!--{}-->", library.display(), " ".repeat(70_000));
    fs::write(&own, padded).unwrap();
    refused(&format!("--agents {}", agents.display()), "own.plist");
    fs::write(&own, "<plist/>").unwrap();
    fs::create_dir(agents.join("folder.plist")).unwrap();
    site.uninstall(&format!("--agents {}", agents.display())).ok();
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
