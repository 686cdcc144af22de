//! A real ssh-agent with keys of ssh-keygen in it, started for one test and ended with it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Run;

/// The agent, its socket, and the key files that it got its keys from.
pub struct SshAgent {
    folder: tempfile::TempDir,
    process: rustix::process::Pid,
}

impl SshAgent {
    /// Starts one without a key.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // It goes into the background once it listens.
        let mut command = Command::new("ssh-agent");
        let started = Run::of(command.arg("-s").arg("-a").arg(folder.path().join("socket"))).ok();
        let id = started.out.split_once("SSH_AGENT_PID=").unwrap().1.split(';').next().unwrap();
        let process = rustix::process::Pid::from_raw(id.parse().unwrap()).unwrap();
        Self { folder, process }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A command that finds this agent.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SSH_AUTH_SOCK", self.socket());
        command
    }

    /// Makes a key with that comment, puts it in, and leaves no file behind.
    pub fn make(&self, comment: &str, kind: &str) {
        let file = keygen(self.folder.path(), comment, kind, "");
        self.add(&file);
        std::fs::remove_file(file).unwrap();
    }

    pub fn add(&self, file: &Path) {
        Run::of(self.command("ssh-add").arg("-q").arg(file)).ok();
    }

    pub fn remove_all(&self) {
        Run::of(self.command("ssh-add").args(["-q", "-D"])).ok();
    }

    /// Locks it (`-x`) or unlocks it (`-X`), with a program that stands in for whoever types the password.
    pub fn lock(&self, option: &str) {
        let asked = self.folder.path().join("askpass");
        std::fs::write(&asked, "#!/bin/sh\necho secret\n").unwrap();
        std::fs::set_permissions(&asked, std::fs::Permissions::from_mode(0o700)).unwrap();
        let mut command = self.command("ssh-add");
        command.env("SSH_ASKPASS", asked).env("SSH_ASKPASS_REQUIRE", "force");
        Run::of(command.arg(option)).ok();
    }
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        // One that is gone already is what is wanted.
        let _ = rustix::process::kill_process(self.process, rustix::process::Signal::TERM);
    }
}

/// Makes a key file, its public half beside it.
pub fn keygen(folder: &Path, comment: &str, kind: &str, passphrase: &str) -> PathBuf {
    let file = folder.join(comment.replace(['@', '/'], "-"));
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", kind, "-N", passphrase, "-C", comment, "-f"]).arg(&file);
    // Bits and rounds are the least that each kind takes, so that nothing here is slow.
    if kind == "rsa" {
        command.args(["-b", "2048"]);
    }
    Run::of(&mut command).ok();
    file
}
