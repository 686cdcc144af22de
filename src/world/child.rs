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
    ending: Option<Ending>,
}

/// A process that can be waited for without waiting, and ended with its whole group.
pub trait Running {
    /// The number of its group, which is its own.
    fn group(&self) -> u32;
    /// How it ended, if it did. What it left running ends with it: nothing of it may disturb what is measured next.
    fn ended(&mut self) -> io::Result<Option<Ending>>;
    /// Ends the whole group, and waits.
    fn kill(&mut self) -> io::Result<Ending>;
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
        let child = prepared(command, output, log).spawn()?;
        Ok(Self { child, ending: None })
    }
}

/// The command as its process will be measured: in a group of its own, without an input, its words in files.
pub fn prepared(command: &mut Command, output: File, log: File) -> &mut Command {
    command.process_group(0).stdin(Stdio::null()).stdout(output).stderr(log)
}

/// Tells whether the first process of a group ended. It is not waited for: until it is, nobody else gets its number.
pub fn is_over(group: u32) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid(group)?), options)?.is_some())
}

/// Ends every process of a group.
pub fn end_group(group: u32) -> io::Result<()> {
    match kill_process_group(pid(group)?, Signal::KILL) {
        // Nobody of it is left.
        Ok(()) | Err(rustix::io::Errno::SRCH | rustix::io::Errno::PERM) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

fn pid(group: u32) -> io::Result<Pid> {
    let number = i32::try_from(group).ok().and_then(Pid::from_raw);
    number.ok_or_else(|| io::Error::other("has no number"))
}

impl Running for Started {
    fn group(&self) -> u32 {
        self.child.id()
    }

    fn ended(&mut self) -> io::Result<Option<Ending>> {
        if self.ending.is_none() && !is_over(self.group())? {
            return Ok(None);
        }
        self.kill().map(Some)
    }

    fn kill(&mut self) -> io::Result<Ending> {
        if let Some(ending) = self.ending {
            return Ok(ending);
        }
        end_group(self.group())?;
        let ending = Ending::of(self.child.wait()?);
        self.ending = Some(ending);
        Ok(ending)
    }
}

impl Ending {
    /// What the system says of it.
    pub fn of(status: ExitStatus) -> Self {
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
