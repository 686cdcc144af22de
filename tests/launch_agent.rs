//! Launch agents through the real command, read back with the plist crate and with Python's plistlib.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use plist::Value;
use support::{ORIGIN, Run};

/// A home folder, a prefix with a command, and a program.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["prefix/bin", "prefix/etc/capgate", "Library"] {
            fs::create_dir_all(home.path(folder)).unwrap();
        }
        for program in ["prefix/bin/capgate", "server"] {
            fs::write(home.path(program), "#!/bin/sh\n").unwrap();
            fs::set_permissions(home.path(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn agent(&self, label: &str) -> PathBuf {
        self.path(&format!("Library/LaunchAgents/{label}.plist"))
    }

    fn run(&self, args: &[&str]) -> Run {
        let mut command = support::capgate(self.folder.path());
        Run::of(command.env("HOME", self.folder.path()).arg("launch-agent").args(args))
    }

    /// Writes an agent that starts the server with these arguments.
    fn write(&self, options: &[&str], args: &[&str]) -> Run {
        let (prefix, server) = (self.text("prefix"), self.text("server"));
        let mut all = vec!["write", "--prefix", &prefix];
        all.extend(options);
        all.extend(["--", &server]);
        all.extend(args);
        self.run(&all)
    }
}

#[test]
fn an_agent_whose_command_is_in_no_prefix_is_written_with_a_warning() {
    let home = Home::new();
    fs::remove_dir_all(home.path("prefix/etc")).unwrap();
    let run = home.write(&["--name", "llama"], &[]).ok();
    assert!(
        run.err.contains("is in no prefix that `capgate install` made, so nothing can be granted"),
        "{}",
        run.err
    );
}

/// What an independent reader finds, as JSON.
fn read_by_python(path: &Path) -> serde_json::Value {
    let script = "import json, plistlib, sys; print(json.dumps(plistlib.load(open(sys.argv[1], 'rb'))))";
    let output = Command::new("python3").args(["-c", script]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

#[test]
fn an_agent_starts_its_program_through_capgate_run() {
    let home = Home::new();
    let odd = "a b <&>'\"é $HOME ;";
    let run = home.write(&["--name", "llama"], &["--port", "8080", odd, ""]).ok();
    let file = home.agent("org.capgate.llama");
    assert_eq!(run.out, format!("written: {}\n", file.display()));
    let bootstrap = format!("  launchctl bootstrap gui/{} {}\n", user(), file.display());
    assert_eq!(run.err, format!("hint: it starts with the next login, or with:\n{bootstrap}"));
    let logs = home.text("Library/Logs/capgate/org.capgate.llama");
    assert_eq!(
        read_by_python(&file),
        serde_json::json!({
            "Label": "org.capgate.llama",
            "ProgramArguments": [
                home.text("prefix/bin/capgate"), "run", "--wait", "60", "--",
                home.text("server"), "--port", "8080", odd, "",
            ],
            "RunAtLoad": true,
            "KeepAlive": false,
            "ProcessType": "Interactive",
            "StandardOutPath": format!("{logs}.out.log"),
            "StandardErrorPath": format!("{logs}.err.log"),
        })
    );
    let value = Value::from_file(&file).unwrap();
    let words = value.as_dictionary().unwrap()["ProgramArguments"].as_array().unwrap();
    assert_eq!(words.last().and_then(Value::as_string), Some(""));
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("DYLD") && !text.contains("setenv") && !text.contains("EnvironmentVariables"));
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(file), mode(home.path("Library/Logs/capgate"))), (0o644, 0o700));
}

#[test]
fn writing_again_changes_nothing_and_other_words_replace() {
    let home = Home::new();
    let file = home.agent("org.capgate.server");
    home.write(&[], &["a"]).ok();
    let (before, made) = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap().modified().unwrap());
    assert_eq!(home.write(&[], &["a"]).ok().out, format!("unchanged: {}\n", file.display()));
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), made);
    let shown = home.write(&["--dry-run"], &["b"]).ok();
    assert!(shown.out.starts_with("<?xml version=\"1.0\"") && shown.out.contains("<string>b</string>"));
    assert_eq!(fs::read(&file).unwrap(), before);
    let replaced = home.write(&["--keep-alive"], &["b"]).ok();
    assert_eq!(replaced.out, format!("replaced: {}\n", file.display()));
    let bootout = format!("  launchctl bootout gui/{}/org.capgate.server\n", user());
    assert!(replaced.err.contains(&bootout), "{}", replaced.err);
    let now = read_by_python(&file);
    assert_eq!((&now["KeepAlive"], &now["ProgramArguments"][6]), (&true.into(), &"b".into()));
    let names: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file stays");
    // A file that others can write is no longer ours alone.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(home.write(&["--keep-alive"], &["b"]).ok().out.starts_with("replaced: "));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o644);
}

#[test]
fn a_dry_run_makes_nothing() {
    let home = Home::new();
    let json = home.write(&["--dry-run", "--format", "json"], &[]).ok().json();
    assert_eq!((&json["state"], &json["dry_run"]), (&"written".into(), &true.into()));
    assert!(json["property_list"].as_str().unwrap().contains("<key>Label</key>"));
    assert!(!home.path("Library/LaunchAgents").exists() && !home.path("Library/Logs").exists());
}

#[test]
fn those_that_watch_are_written_too() {
    let home = Home::new();
    let prefix = home.text("prefix");
    const URL: &str = "https://registry.example.org/gpu";
    let wrong = home.run(&["write", "--sync", "--prefix", &prefix]);
    assert!(
        wrong.exit == 2 && wrong.err.contains("`capgate sync` would refuse its arguments"),
        "{}",
        wrong.err
    );
    let relative = home.run(&["write", "--sync", "--prefix", &prefix, "--", "registry"]);
    assert!(
        relative.exit == 2 && relative.err.contains("neither a URL nor an absolute path"),
        "{}",
        relative.err
    );
    home.run(&["write", "--sync", "--prefix", &prefix, "--", URL, "--every", "5m"]).ok();
    let sync = read_by_python(&home.agent("org.capgate.sync"));
    let command = home.text("prefix/bin/capgate");
    assert_eq!(
        sync["ProgramArguments"],
        serde_json::json!([command, "sync", "--watch", URL, "--every", "5m", "--prefix", prefix])
    );
    assert_eq!((&sync["KeepAlive"], &sync["ProcessType"]), (&true.into(), &"Background".into()));

    let made = support::run_in(home.folder.path(), "keygen host-7 --out host.key");
    made.ok();
    let (key, out) = (home.text("host.key"), home.text("shared"));
    let words = ["--key", &key, "--origin", ORIGIN, "--out", &out];
    let attest =
        |words: &[&str]| home.run(&[&["write", "--host-attest", "--prefix", &prefix, "--"], words].concat());
    attest(&words).ok();
    let written = read_by_python(&home.agent("org.capgate.host-attest"));
    let expected = [&[command.as_str(), "host", "attest", "--watch"], &words[..]].concat();
    assert_eq!(written["ProgramArguments"], serde_json::json!(expected));
    home.run(&["check", "--name", "host-attest"]).ok();

    for (words, said) in [
        (&["--key", &key, "--origin", ORIGIN][..], "--out <FILE|DIR>"),
        (
            &["--key", "host.key", "--origin", ORIGIN, "--out", &out],
            "`--key host.key` is not an absolute path",
        ),
        (&["--key", &key, "--origin", ORIGIN, "--out", "shared"], "`--out shared` is not an absolute path"),
        (&["--key", &key, "--origin", "NO", "--out", &out], "`NO` is no origin"),
        (&["--key", &out, "--origin", ORIGIN, "--out", &out], "cannot be read"),
    ] {
        let run = attest(words);
        assert!(run.exit > 0 && run.err.contains(said), "{words:?}: {}", run.err);
    }
}

#[test]
fn what_cannot_be_started_is_refused() {
    let home = Home::new();
    let prefix = home.text("prefix");
    let plain = home.text("Library/plain");
    fs::write(&plain, "").unwrap();
    let write = |words: &[&str]| home.run(&[&["write", "--prefix", &prefix, "--"], words].concat());
    write(&["server"]).fails(
        2,
        "error: the program `server` is not an absolute path\n\
         help: launchd knows neither this folder nor your PATH; give the path from `/` on\n",
    );
    for (program, why) in [
        ("/no/such/program", "No such file or directory (os error 2)"),
        (plain.as_str(), "it is no executable file"),
        (prefix.as_str(), "it is no executable file"),
    ] {
        write(&[program]).fails(1, &format!("error: the program `{program}` cannot be started: {why}\n"));
    }
    let server = home.text("server");
    let control = write(&[&server, "a\u{1}b"]);
    assert!(control.exit == 2 && control.err.contains("a character that a property list cannot hold"));
    let empty = home.text("Library");
    let run = home.run(&["write", "--prefix", &empty, "--", &server]);
    assert!(run.exit == 1 && run.err.contains("/Library/bin/capgate` cannot be started"), "{}", run.err);
    assert_eq!(home.run(&["write", "--prefix", &prefix]).exit, 2);
    assert_eq!(home.run(&["write", "--sync", "--host-attest"]).exit, 2);
    for name in ["../x", ".x", "a/b", "", "a b"] {
        assert_eq!(home.write(&["--name", name], &[]).exit, 2, "{name}");
    }
    assert!(!home.path("Library/LaunchAgents").exists());
}

#[test]
fn what_is_somebody_elses_is_not_touched() {
    let home = Home::new();
    home.write(&[], &[]).ok();
    let (ours, theirs) = (home.agent("org.capgate.server"), home.agent("com.example.tool"));
    // Another file has the label.
    fs::rename(&ours, &theirs).unwrap();
    let double = format!("error: the label `org.capgate.server` is already used by `{}`\n", theirs.display());
    let run = home.write(&[], &[]);
    assert!(run.exit == 1 && run.err.starts_with(&double), "{}", run.err);
    // The file has another label, another program, or is something else altogether.
    fs::rename(&theirs, &ours).unwrap();
    let text = fs::read_to_string(&ours).unwrap();
    let foreign = [
        text.replace("<string>org.capgate.server</string>", "<string>other</string>"),
        text.replace("/bin/capgate</string>", "/bin/other</string>"),
        text.replace("<string>--wait</string>", ""),
        "not a list".to_owned(),
        String::new(),
    ];
    for text in foreign {
        fs::write(&ours, &text).unwrap();
        for args in [&["remove", "--name", "server"][..], &["check", "--name", "server"]] {
            let run = home.run(args);
            assert!(
                run.exit == 1 && run.err.contains("so it is not touched"),
                "{args:?} {}{}",
                run.out,
                run.err
            );
        }
        assert_eq!(home.write(&[], &[]).exit, 1);
        assert_eq!(fs::read_to_string(&ours).unwrap(), text);
    }
    // Links, pipes and giants are not opened.
    fs::remove_file(&ours).unwrap();
    symlink(home.path("server"), &ours).unwrap();
    assert!(home.write(&[], &[]).err.contains("is a link, so it is not touched"));
    fs::remove_file(&ours).unwrap();
    assert!(Command::new("mkfifo").arg(&ours).status().unwrap().success());
    assert!(home.write(&[], &[]).err.contains("is not a regular file, so it is not touched"));
    fs::remove_file(&ours).unwrap();
    fs::File::create(&ours).unwrap().set_len(2 << 30).unwrap();
    assert!(home.write(&[], &[]).err.contains("has more than the 65536 bytes"));
}

#[test]
fn a_check_says_what_differs() {
    let home = Home::new();
    home.write(&["--name", "llama"], &["a"]).ok();
    let file = home.agent("org.capgate.llama");
    let check = |rest: &[&str]| home.run(&[&["check", "--name", "llama"], rest].concat());
    let good = format!("`{}` is as it should be\n", file.display());
    assert_eq!(check(&[]).ok().out, good);
    let (prefix, server) = (home.text("prefix"), home.text("server"));
    assert_eq!(check(&["--prefix", &prefix, "--", &server, "a"]).ok().out, good);
    let other = check(&["--prefix", &prefix, "--format", "json", "--", &server, "b"]);
    assert_eq!(other.exit, 4);
    let said = other.json()["differences"][0].as_str().unwrap().to_owned();
    assert!(said.starts_with("`ProgramArguments` is [`") && said.ends_with("`, `b`]"), "{said}");

    let text = fs::read_to_string(&file).unwrap();
    let variables = "<key>EnvironmentVariables</key><dict><key>DYLD_INSERT_LIBRARIES</key>\
                     <string>/x.dylib</string></dict></dict>";
    fs::write(&file, text.replace("</dict>", variables)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
    fs::remove_file(home.path("server")).unwrap();
    fs::remove_dir(home.path("Library/Logs/capgate")).unwrap();
    let run = check(&[]);
    assert_eq!(run.exit, 4);
    for said in [
        "differs: `EnvironmentVariables` is {DYLD_INSERT_LIBRARIES = `/x.dylib`}, it should not be there\n",
        "differs: others can write it (mode 664), and launchd refuses it\n",
        "/server` cannot be started: No such file or directory (os error 2)\n",
        "org.capgate.llama.out.log` does not exist\n",
    ] {
        assert!(run.out.contains(said), "{said}{}", run.out);
    }
    fs::remove_file(file).unwrap();
    assert_eq!(check(&[]).exit, 1);
    assert_eq!(home.run(&["check"]).exit, 2);
}

#[test]
fn an_agent_is_removed_and_its_logs_stay() {
    let home = Home::new();
    home.write(&["--label", "com.example.llama"], &[]).ok();
    let file = home.agent("com.example.llama");
    let log = home.path("Library/Logs/capgate/com.example.llama.out.log");
    fs::write(&log, "said\n").unwrap();
    let remove = |rest: &[&str]| home.run(&[&["remove", "--label", "com.example.llama"], rest].concat()).ok();
    assert_eq!(remove(&["--dry-run"]).out, format!("would be removed: {}\n", file.display()));
    assert!(file.exists());
    let removed = remove(&[]);
    assert_eq!(removed.out, format!("removed: {}\n", file.display()));
    assert!(removed.err.contains(&format!("  launchctl bootout gui/{}/com.example.llama\n", user())));
    assert!(!file.exists() && log.exists());
    assert_eq!(remove(&["--format", "json"]).json()["state"], "absent");
}

#[test]
fn a_daemon_of_the_system_gets_its_own_domain() {
    let home = Home::new();
    let folder = home.text("LaunchDaemons");
    let run = home.write(&["--agents", &folder], &[]).ok();
    assert!(run.err.contains("  sudo launchctl bootstrap system "), "{}", run.err);
}
