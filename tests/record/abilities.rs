//! What a machine lets tests do: control groups and mounts of their own. Where it does not, a line says `left out: …`, which
//! `cargo xtask test` shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A control group that limits processor time; removed when it is dropped.
pub struct HalfGroup(PathBuf);

impl HalfGroup {
    /// One that allows `quota` of every 100,000 microseconds, in whichever version this machine has.
    pub fn new(quota: u32) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("capgate-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let root = Path::new("/sys/fs/cgroup");
        let made = if root.join("cgroup.controllers").exists() {
            // May fail where it is on already, or where it may not be switched on: the limit below says.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
            Self::limited(root.join(name), "cpu.max", &format!("{quota} 100000"))
        } else {
            Self::limited(root.join("cpu").join(name), "cpu.cfs_quota_us", &quota.to_string())
        };
        match made {
            Ok(group) => Some(group),
            Err(why) => {
                println!("left out: a control group with a limit: this user may not make one here ({why})");
                None
            }
        }
    }

    fn limited(folder: PathBuf, file: &str, limit: &str) -> Result<Self, String> {
        fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let group = Self(folder);
        let file = group.0.join(file);
        fs::write(&file, limit).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(group)
    }

    /// The same command, begun inside the group.
    pub fn holds(&self, command: &Command) -> Command {
        through(
            &["sh", "-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"", self.0.to_str().unwrap()],
            command,
        )
    }
}

impl Drop for HalfGroup {
    fn drop(&mut self) {
        // What ran in it has been waited for.
        fs::remove_dir(&self.0).unwrap();
    }
}

/// Whether this user may make mounts that only its own children see.
pub fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]).output();
    match tried {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
            println!("left out: mounts of its own: this user may not make any here ({why})");
            false
        }
        Err(e) => {
            println!("left out: mounts of its own: `unshare` cannot be run ({e})");
            false
        }
    }
}

/// The same command, after shell lines that mount what only it sees; `$0` in them is `argument`.
pub fn mounted(lines: &str, argument: &Path, command: &Command) -> Command {
    let lines = format!("{lines} && exec \"$@\"");
    through(&["unshare", "-m", "sh", "-c", &lines, argument.to_str().unwrap()], command)
}

fn through(words: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(words[0]);
    outer.args(&words[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        outer.current_dir(folder);
    }
    outer
}
