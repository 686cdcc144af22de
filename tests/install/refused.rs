//! What an installation refuses, and what it leaves alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::site::Site;

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
    site.world.put("README.md", "# capgate\n");
    let run = site.run(&format!("install {} --library README.md", site.prefix().display()));
    assert!(run.exit == 1 && run.err.contains("`README.md` is not a library"), "{}", run.err);
    assert!(!site.prefix().exists());
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
