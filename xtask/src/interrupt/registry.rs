//! A small registry, its keys and the commands that are run on it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::Run;

const ORIGIN: &str = "registry.test/capgate";
const NOW: &str = "2026-12-01T12:00:00Z";
const IDS: [&str; 3] = [
    "m1-ultra-25g76-25f84-llama-bench-b10167",
    "m1-ultra-25g76-25f84-llama-bench-b10359",
    "m1-ultra-25g76-25f84-mlx-lm-0-31-3",
];

/// Commands that are stopped, one after the other on the same registry.
pub const STEPS: [&str; 3] = [
    "publish m1-ultra-25g76-25f84-llama-bench-b10359 m1-ultra-25g76-25f84-mlx-lm-0-31-3 --key KEYS/publisher.key",
    "revoke m1-ultra-25g76-25f84-llama-bench-b10167 --reason wrong --severity harmful --key KEYS/publisher.key",
    "renew",
];

/// A registry in a folder.
pub struct Registry {
    program: PathBuf,
    keys: PathBuf,
    folder: PathBuf,
    root: String,
}

/// What a registry is to those who use it.
#[derive(Debug, PartialEq)]
pub struct State {
    /// The commit point.
    pub latest: Vec<u8>,
    /// What a lookup of each profile's combination says.
    pub answers: Vec<String>,
    /// Every file of it.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Registry {
    /// Makes keys and a registry with one profile in it.
    pub fn found(program: &Path, scratch: &Path) -> Result<Self, String> {
        let keys = scratch.join("keys");
        fs::create_dir_all(&keys).map_err(|e| format!("{}: {e}", keys.display()))?;
        let folder = scratch.join("registry");
        let mut registry = Self { program: program.to_owned(), keys, folder, root: String::new() };
        for (name, file) in [("root.test", "root"), ("publisher.test", "publisher"), (ORIGIN, "registry")] {
            registry.plain(&format!("keygen {name} --out KEYS/{file}.key")).output("interrupt", false)?;
        }
        let init = format!(
            "init DIR --origin {ORIGIN} --root-key KEYS/root.key --publisher KEYS/publisher.key \
             --registry-key KEYS/registry.key --now 2026-12-01T00:00:00Z --format json"
        );
        let said = registry.plain(&init).output("interrupt", false)?;
        let root = json(&said)?.get("root").and_then(Value::as_str).map(str::to_owned);
        registry.root = root.ok_or("`init` names no root")?;
        let [first, ..] = IDS;
        registry.run(&format!("publish {first} --key KEYS/publisher.key"))?;
        Ok(registry)
    }

    /// Its folder, and the digest of its first root.
    pub fn place(&self) -> (&Path, &str) {
        (&self.folder, &self.root)
    }

    /// The command line of a step, ready to run.
    pub fn command(&self, step: &str) -> Vec<String> {
        let line = format!(
            "{step} --registry-key KEYS/registry.key --registry DIR --root {} --now {NOW}",
            self.root
        );
        let program = self.program.display().to_string();
        std::iter::once(program).chain(line.split(' ').map(|word| self.fill(word))).collect()
    }

    /// Runs a step to its end.
    pub fn run(&self, step: &str) -> Result<String, String> {
        let mut words = self.command(step).into_iter();
        let program = words.next().unwrap_or_default();
        // Many folders of one registry are no restored backups.
        words.fold(Run::new(program).env("HOME", ""), Run::arg).output("interrupt", false)
    }

    fn plain(&self, line: &str) -> Run {
        line.split(' ').fold(Run::new(&self.program), |run, word| run.arg(self.fill(word)))
    }

    fn fill(&self, word: &str) -> String {
        word.replace("KEYS", &self.keys.display().to_string())
            .replace("DIR", &self.folder.display().to_string())
    }

    /// The same registry in another folder beside it, which is replaced.
    pub fn copy(&self, name: &str) -> Result<Self, String> {
        let folder = self.folder.with_file_name(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        copy_folder(&self.folder, &folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Self { program: self.program.clone(), keys: self.keys.clone(), root: self.root.clone(), folder })
    }

    /// Reads and asks everything.
    pub fn state(&self) -> Result<State, String> {
        let mut files = BTreeMap::new();
        read_folder(&self.folder, "", &mut files).map_err(|e| format!("{}: {e}", self.folder.display()))?;
        let latest = files.get("snapshot/latest.note").cloned().unwrap_or_default();
        let answers = IDS.iter().map(|id| self.ask(id)).collect::<Result<_, _>>()?;
        Ok(State { latest, answers, files })
    }

    fn ask(&self, id: &str) -> Result<String, String> {
        let toml = fs::read_to_string(format!("profiles.d/{id}.toml")).map_err(|e| format!("{id}: {e}"))?;
        let sha256 = toml.lines().find_map(|line| line.strip_prefix("sha256 = \"")?.strip_suffix('"'));
        let workload = format!("sha256:{}", sha256.unwrap_or(&"1".repeat(64)));
        let facts = self.keys.join("facts.toml");
        let text = "host_chip = \"Apple M1 Ultra\"\nhost_os_build = \"25G76\"\nguest_os_build = \"25F84\"\n";
        fs::write(&facts, text).map_err(|e| format!("{}: {e}", facts.display()))?;
        let line = format!(
            "lookup --facts KEYS/facts.toml --workload {workload} --registry DIR --root {} --now 2026-12-01T13:00:00Z \
             --format json",
            self.root
        );
        let (_, said) = self.plain(&line).any_end("interrupt")?;
        let answer = json(&said)?;
        let part = |key: &str| answer.get(key).map_or_else(String::new, Value::to_string);
        Ok(["outcome", "reason", "apple_family_max", "profile"].map(part).join(" "))
    }

    /// Verifies the whole; `leftovers` allows files that no part of the registry names.
    pub fn verify(&self, leftovers: bool) -> Result<(), String> {
        let line = format!("verify DIR --root {} --now 2026-12-01T13:00:00Z --format json", self.root);
        let (good, said) = self.plain(&line).any_end("interrupt")?;
        let report = json(&said)?;
        let faults = report.get("faults").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_leftover =
            |fault: &Value| fault.get("what").and_then(Value::as_str) == Some("is no part of this registry");
        let sound = if leftovers { faults.iter().all(is_leftover) } else { good && faults.is_empty() };
        if sound { Ok(()) } else { Err(format!("`verify` finds {faults:?}")) }
    }
}

/// The object that a command printed; hints stand before it in what was kept.
fn json(said: &str) -> Result<Value, String> {
    let start = said.lines().scan(0, |at, line| {
        let here = *at;
        *at += line.len() + 1;
        Some((here, line))
    });
    let begin = start.filter(|(_, line)| line.starts_with('{')).map(|(at, _)| at).next().unwrap_or(0);
    let text = said.get(begin..).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values.next().and_then(Result::ok).ok_or_else(|| format!("no JSON in: {said}"))
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Every file but those whose name begins with a dot, which are no part of a registry.
fn read_folder(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            read_folder(&entry.path(), &format!("{path}/"), files)?;
        } else {
            files.insert(path, fs::read(entry.path())?);
        }
    }
    Ok(())
}
