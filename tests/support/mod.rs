//! What the tests of the command share: a folder, the real binary, a registry.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

pub mod agent;
pub mod mac;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const ORIGIN: &str = "test.example/gpu";
/// The profile that the demonstration grants.
pub const B10167: &str = "m1-ultra-25g76-25f84-llama-bench-b10167";
pub const B10359: &str = "m1-ultra-25g76-25f84-llama-bench-b10359";
pub const NOW: &str = "2026-12-01T00:00:00Z";

/// A folder with keys, profiles and a registry.
pub struct World {
    pub folder: tempfile::TempDir,
    pub root: String,
}

/// How a command ended.
#[derive(Debug)]
pub struct Run {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    fn new(output: &Output) -> Self {
        Self {
            exit: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    pub fn of(command: &mut Command) -> Self {
        Self::new(&command.output().unwrap())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.exit, 0, "{}{}", self.out, self.err);
        self
    }

    /// The command failed with this code and said exactly this.
    #[track_caller]
    pub fn fails(&self, exit: i32, err: &str) {
        assert_eq!((self.exit, self.err.as_str()), (exit, err), "{}", self.out);
    }
}

pub fn capgate(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capgate"));
    command.current_dir(folder);
    for name in ["CAPGATE_DISABLE", "CAPGATE_PROFILES", "CAPGATE_REGISTRY", "CAPGATE_ROOT", "CAPGATE_LOG"] {
        command.env_remove(name);
    }
    // What this user published is nothing for a test to remember.
    for name in ["HOME", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1");
    command
}

pub fn run_in(folder: &Path, line: &str) -> Run {
    Run::new(&capgate(folder).args(words(line)).output().unwrap())
}

/// The same on a stand-in for a Mac.
pub fn run_on(mac: &mac::Mac, folder: &Path, line: &str) -> Run {
    Run::of(mac.runs(&mut capgate(folder)).args(words(line)))
}

/// A folder whose every parent only root and this user can write, unlike those in `/tmp`, and which [`as_somebody_else`] can
/// enter.
pub fn private_folder() -> tempfile::TempDir {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let home = std::env::var_os("HOME").map(PathBuf::from);
    // A clone in `/tmp`, with root's own home closed to others: what every system has.
    let system = rustix::process::getuid().is_root().then(|| PathBuf::from("/var/lib"));
    let candidates = [Some(target), home, system].into_iter().flatten();
    let fits =
        |folder: &PathBuf| is_open_to_others(folder) && capgate_guest::prefix::Prefix::at(folder).is_ok();
    let found = candidates.filter_map(|folder| folder.canonicalize().ok()).find(fits);
    let folder =
        found.unwrap_or_else(|| panic!("others can write above the target folder and the home folder"));
    tempfile::tempdir_in(folder).unwrap()
}

/// Whether whoever the tests may become gets there; they become nobody else unless they are root.
fn is_open_to_others(folder: &Path) -> bool {
    let enters = |folder: &Path| folder.metadata().unwrap().permissions().mode() & 0o001 != 0;
    !rustix::process::getuid().is_root() || folder.ancestors().all(enters)
}

/// A command of a user who is neither root nor the owner of what the tests made, where the tests may become one.
pub fn as_somebody_else(folder: &Path) -> Command {
    if !rustix::process::getuid().is_root() {
        return capgate(folder);
    }
    // The tests' own program may lie in a folder that only root can enter.
    let program = folder.join("capgate");
    std::fs::copy(env!("CARGO_BIN_EXE_capgate"), &program).unwrap();
    let mut command = Command::new(program);
    command.current_dir(folder).env_clear().env("NO_COLOR", "1");
    std::os::unix::process::CommandExt::uid(&mut command, 65534);
    std::os::unix::process::CommandExt::gid(&mut command, 65534);
    command
}

/// Words apart by spaces; single quotes keep some together.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in line.split('\'').enumerate() {
        if i % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

impl World {
    /// Keys and profiles, and no registry yet.
    pub fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = Self { folder, root: String::new() };
        world.run("keygen root.test --out root.key").ok();
        world.run("keygen alice.test --out alice.key").ok();
        world.run(&format!("keygen {ORIGIN} --out registry.key")).ok();
        world.copy_profiles();
        world
    }

    /// With an empty registry.
    pub fn new() -> Self {
        let mut world = Self::bare();
        let made = world.run(&format!(
            "init registry --origin {ORIGIN} --root-key root.key --publisher alice.key --registry-key registry.key \
             --now {NOW}"
        ));
        made.ok().out.trim().clone_into(&mut world.root);
        world
    }

    /// With every shipped profile in force.
    pub fn published() -> Self {
        let world = Self::new();
        world.publish("--all").ok();
        world
    }

    fn copy_profiles(&self) {
        let to = self.path("profiles.d");
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles.d")).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn put(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Changes a text file.
    pub fn edit(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert!(text.contains(from), "{from}");
        self.put(name, &text.replace(from, to));
    }

    pub fn command(&self) -> Command {
        let mut command = capgate(self.folder.path());
        command.env("CAPGATE_REGISTRY", "registry");
        if !self.root.is_empty() {
            command.env("CAPGATE_ROOT", &self.root);
        }
        command
    }

    pub fn run(&self, line: &str) -> Run {
        Run::new(&self.command().args(words(line)).output().unwrap())
    }

    pub fn publish(&self, what: &str) -> Run {
        self.run(&format!("publish {what} --key alice.key --registry-key registry.key --now {NOW}"))
    }

    /// A facts file about the combination of a shipped profile, with some keys replaced.
    pub fn facts(&self, name: &str, id: &str, change: &[(&str, Option<&str>)]) {
        let digest = match id {
            B10167 => "28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7",
            _ => "8a0ea51a40658436b4ec34a3f3ada1085f5feaa1d049e87ee7205f725a689f69",
        };
        let workload = format!("sha256:{digest}");
        let facts = [
            ("host_chip", "Apple M1 Ultra"),
            ("host_os_build", "25G76"),
            ("guest_os_build", "25F84"),
            ("workload", workload.as_str()),
        ];
        let mut text = String::new();
        for (key, value) in facts {
            let changed = change.iter().find(|(changed, _)| *changed == key);
            if let Some(value) = changed.map_or(Some(value), |(_, value)| *value) {
                text += &format!("{key} = \"{value}\"\n");
            }
        }
        self.put(name, &text);
    }
}

/// Profiles of programs that nobody has, each under an id of its own.
pub fn profiles(world: &World, folder: &str, ids: &[String]) {
    std::fs::create_dir(world.path(folder)).unwrap();
    let text = world.read(&format!("profiles.d/{B10167}.toml"));
    let digest = text.lines().find_map(|line| line.strip_prefix("sha256 = ")).unwrap().to_owned();
    for (n, id) in ids.iter().enumerate() {
        let own = format!(
            "\"{:0>32}{:032x}\"",
            folder.bytes().map(|b| format!("{b:02x}")).collect::<String>(),
            n + 1
        );
        let text = text.replace(B10167, id).replace(&digest, &own);
        world.put(&format!("{folder}/{id}.toml"), &text);
    }
}
