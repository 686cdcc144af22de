//! python-tuf in a virtual environment, and its side of the comparison.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Side, Size, said, support};

const SCRIPT: &str = "benches/tuf/follow.py";
const PACKAGES: &str = "benches/tuf/requirements.txt";

/// The python of the virtual environment that the tests use, too; makes it and installs what is missing.
pub fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap_or(Path::new("target"));
    let venv = target.join("gate/venv");
    let python = venv.join("bin/python");
    if !python.is_file() {
        must(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", PACKAGES];
    must(Command::new(&python).args(pip));
    python
}

/// The jobs of `capgate`, on a repository of `count` targets that is built once.
pub fn run(python: &Path, size: Size) -> Side {
    let (count, rounds) = (size.count, size.publications);
    let built = support::data().join(format!("tuf-{count}"));
    if !built.join("done").exists() {
        drop(fs::remove_dir_all(&built));
        eprintln!("building {}", built.display());
        must(&mut job(python, "build", &built, &[&count.to_string()]));
        fs::write(built.join("done"), "").unwrap_or_else(|e| panic!("{e}"));
    }
    let work = support::data().join("follow-tuf");
    let repository = super::linked(&built, &work.join("repository"));
    let verified: super::Verified = said(&mut job(python, "verify", &repository, &[]));
    assert_eq!(verified.count, count, "every target is verified");
    let client = work.join("client");
    let rest = [&count.to_string(), &rounds.to_string(), &client.to_string_lossy().into_owned()];
    let followed = said(&mut job(python, "publish", &repository, &rest.map(String::as_str)));
    drop(fs::remove_dir_all(&work));
    Side { followed, verified }
}

fn job(python: &Path, name: &str, repository: &Path, rest: &[&str]) -> Command {
    let mut command = Command::new(python);
    command.arg(SCRIPT).arg(name).arg(repository).args(rest);
    command
}

fn must(command: &mut Command) {
    let status = command.stdout(std::process::Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?} failed");
}
