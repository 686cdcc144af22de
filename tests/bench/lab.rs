//! A guest with an installed prefix, a program to measure and a model, and the real command in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::built::{built, compile};
use crate::guest::{Guest, Plan};

/// The sets under test.
pub const NAMED: &str = "override-1009-65536";

pub struct Lab {
    pub guest: Guest,
    pub environment: Vec<(String, String)>,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    #[track_caller]
    pub fn exits(self, exit: i32) -> Self {
        assert_eq!(self.exit, exit, "{}{}", self.out, self.err);
        self
    }
}

/// llama-bench's stand-in, linked to Metal's.
pub fn llama() -> PathBuf {
    let metal = built().metal.parent().unwrap().to_owned();
    let link = format!("-Wextra -Itests/metal SOURCES -L{0} -lMetal -Wl,-rpath,{0}", metal.display());
    let lock = fs::File::create(metal.join(".lock-llama")).unwrap();
    lock.lock().unwrap();
    compile(&metal.join("llama-bench"), &["tests/bench/llama.c"], &link)
}

impl Lab {
    pub fn new() -> Self {
        Self::of(Plan::default())
    }

    pub fn of(plan: Plan) -> Self {
        let plan = plan.edit_sysctl("kern.osversion", "kern.osproductversion=26.5.2\nkern.osversion");
        let guest = plan.make();
        fs::write(guest.folder.join("tiny.gguf"), "a model\n").unwrap();
        fs::create_dir(guest.folder.join("counts")).unwrap();
        let lab = Self { guest, environment: Vec::new() };
        lab.quiet();
        lab
    }

    /// A machine on which nothing else runs, whatever runs on the one that the tests are on.
    pub fn quiet(&self) {
        fs::create_dir_all(self.path("readings/proc")).unwrap();
        fs::write(
            self.path("readings/proc/stat"),
            "cpu 0 0 0 1000 0 0 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\n",
        )
        .unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.guest.folder.join(name)
    }

    /// What the program does in an arm.
    pub fn does(mut self, what: &str, when: &str) -> Self {
        self.environment.push(("DO".to_owned(), what.to_owned()));
        self.environment.push(("WHEN".to_owned(), when.to_owned()));
        self
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A command of capgate in this guest.
    pub fn capgate(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capgate"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1").current_dir(&self.guest.folder);
        command.env("LD_PRELOAD", &built().standin).env("STANDIN", self.path("standin"));
        command.env("XDG_STATE_HOME", self.path("state"));
        command.env("COUNT", self.path("counts")).env("STAT", self.path("readings/proc/stat"));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// `capgate bench` with the options of a line, and the program with the words of another.
    pub fn bench_with(&self, options: &str, words: &str) -> Command {
        let mut command = self.capgate();
        command.args(["bench", "--readings", "readings", "--prefix"]).arg(self.guest.prefix());
        command.arg("--library").arg(&built().library).args(options.split_whitespace());
        command.arg("--").arg(llama()).args(words.split_whitespace());
        command
    }

    pub fn bench(&self, options: &str) -> Ran {
        run(&mut self.bench_with(options, "-m tiny.gguf -p 64 -n 16 -r 2"))
    }

    pub fn run(&self, line: &str) -> Ran {
        run(self.capgate().args(line.split_whitespace()))
    }

    /// What a bundle says of itself.
    pub fn state(&self, bundle: &str) -> Value {
        let text = fs::read_to_string(self.path(bundle).join("bench.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Codes of refusals that `evidence check` names.
    pub fn refusals(&self, bundle: &str) -> Vec<String> {
        let judged = self.run(&format!("evidence check {bundle} --format json")).json();
        let codes = judged["refusals"].as_array().unwrap().iter();
        let mut codes: Vec<String> = codes.map(|found| found["code"].as_str().unwrap().to_owned()).collect();
        codes.sort();
        codes.dedup();
        codes
    }

    /// No trial is left, nor anything in it.
    #[track_caller]
    pub fn has_no_trial(&self) {
        assert_eq!(self.trials(), Vec::<PathBuf>::new());
    }

    pub fn trials(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("state/capgate/trials")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

pub fn run(command: &mut Command) -> Ran {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Ran {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Starts a command and waits until something is so.
pub fn start_until(command: &mut Command, is_so: impl Fn() -> bool) -> Child {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..3000 {
        if is_so() {
            return child;
        }
        if let Some(status) = child.try_wait().unwrap() {
            let mut said = String::new();
            std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
            panic!("it ended too early: {status}: {said}");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(child.kill());
    panic!("nothing happened in 30 s");
}

/// Every file below a folder, by its path in it.
pub fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}
