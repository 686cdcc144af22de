//! A folder with files to look at, and what the command says of them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Run, capgate};

pub struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Puts an executable file there.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub fn command(&self) -> Command {
        let mut command = capgate(self.folder.path());
        command.args(["doctor", "--format", "json"]);
        command
    }

    /// What is said of a file by its name.
    pub fn look(&self, name: &str, more: &[&str]) -> Found {
        Found::of(self.command().arg(self.path(name)).args(more))
    }
}

pub struct Found {
    pub run: Run,
    pub json: Value,
}

impl Found {
    pub fn of(command: &mut Command) -> Self {
        let run = Run::of(command);
        let json = run.json();
        Self { run, json }
    }

    fn all(&self, check: &str) -> Vec<&Value> {
        let checks = self.json["checks"].as_array().unwrap().iter();
        checks.filter(|line| line["name"] == check).collect()
    }

    /// The one line of a check.
    #[track_caller]
    pub fn line(&self, check: &str) -> &Value {
        let lines = self.all(check);
        assert_eq!(lines.len(), 1, "{check}: {:#}", self.json["checks"]);
        lines[0]
    }

    pub fn has(&self, check: &str) -> bool {
        !self.all(check).is_empty()
    }

    /// The check ended so and says this.
    #[track_caller]
    pub fn says(&self, check: &str, status: &str, part: &str) -> &Self {
        let fits = |line: &Value| {
            let text = format!("{} {}", line["text"], line["fix"]);
            line["level"] == status && text.contains(part)
        };
        assert!(self.all(check).into_iter().any(fits), "{check} {status} {part}: {:#}", self.json["checks"]);
        self
    }

    #[track_caller]
    pub fn exits(&self, exit: i32) -> &Self {
        assert_eq!(self.run.exit, exit, "{:#}", self.json["checks"]);
        // Whatever is not in order has what mends it, or says that nothing does; nobody is told to sign it again.
        for line in self.json["checks"].as_array().unwrap() {
            assert!(line["level"] == "ok" || line["fix"].is_string(), "{line}");
            assert!(!line.to_string().contains("codesign"), "{line}");
        }
        self
    }

    /// Names of the images that a profile must list, with when they are loaded.
    pub fn images(&self) -> Vec<(&str, &str)> {
        let images = self.json["program"]["images"].as_array().unwrap().iter();
        images.map(|image| (image["name"].as_str().unwrap(), image["loaded"].as_str().unwrap())).collect()
    }
}

pub fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}
