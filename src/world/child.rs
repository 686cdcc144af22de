//! A process that is measured: in a group of its own, so that all of it can be ended.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A started process. Its whole group is killed when this is dropped.
#[derive(Debug)]
pub struct Started {
    child: Child,
    group: Option<Pid>,
    ended: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// Its exit status, where it ended by itself.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Started {
    /// Starts it without an input; what it says goes to the files.
    pub fn start(command: &mut Command, output: File, log: File) -> io::Result<Self> {
        let child = command.process_group(0).stdin(Stdio::null()).stdout(output).stderr(log).spawn()?;
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
        Ok(Self { child, group, ended: false })
    }

    /// The number of its group, which is its own.
    pub fn group(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did. What it left running ends with it: nothing of it may disturb what is measured next.
    pub fn ended(&mut self) -> io::Result<Option<Ending>> {
        let Some(pid) = self.group else { return Err(io::Error::other("has no number")) };
        // While it is not waited for, nobody else can get its number.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pid(pid), options)?.is_none() {
            return Ok(None);
        }
        self.kill()
    }

    /// Ends the whole group, and waits.
    pub fn kill(&mut self) -> io::Result<Option<Ending>> {
        if self.ended {
            return Ok(None);
        }
        if let Some(group) = self.group {
            // Nobody of it may be left.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = self.child.wait()?;
        self.ended = true;
        Ok(Some(Ending::of(status)))
    }
}

impl Ending {
    fn of(status: ExitStatus) -> Self {
        Self { status: status.code(), signal: status.signal() }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Where it cannot be ended, nobody could do more.
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(line: &str) -> Ending {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        let mut command = Command::new("/bin/sh");
        let mut started = Started::start(command.args(["-c", line]), file("out"), file("err")).unwrap();
        loop {
            if let Some(ending) = started.ended().unwrap() {
                return ending;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn every_ending_is_told() {
        assert_eq!(ends("exit 3"), Ending { status: Some(3), signal: None });
        assert_eq!(ends("kill -9 $$"), Ending { status: None, signal: Some(9) });
        // It was already dead, so being killed does not change how it ended.
        assert_eq!(ends("sleep 100 & exit 0"), Ending { status: Some(0), signal: None });
    }

    #[test]
    fn what_is_dropped_is_ended_with_all_of_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        let mut command = Command::new("/bin/sh");
        let line = "sleep 100 & echo $!; wait";
        let started = Started::start(command.args(["-c", line]), file("out"), file("err")).unwrap();
        let sleeper = loop {
            let text = std::fs::read_to_string(folder.path().join("out")).unwrap();
            if let Some(pid) = text.strip_suffix('\n') {
                break pid.parse::<u32>().unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let is_running = |pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        assert!(is_running(sleeper));
        drop(started);
        let gone = (0..400).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            !is_running(sleeper)
        });
        assert!(gone, "the child of the child goes on");
    }
}
