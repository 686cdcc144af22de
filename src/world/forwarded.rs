//! Signals while a child runs: its end is noticed at once, and what this process is sent reaches the child.
//!
//! A terminal sends Ctrl-C to both, so there it is not sent again: some programs take the second one as "at once". What
//! was ignored as this process started, as under `nohup`, is left alone, for the child inherits that.

use std::io::{self, PipeReader, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Listens from when it is made on.
#[derive(Debug)]
pub struct Forwarded {
    ended: PipeReader,
    /// Each signal that is passed on, with the pipe that says it came.
    pipes: Vec<(Signal, PipeReader)>,
    asked: bool,
}

impl Forwarded {
    /// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT do not end this process.
    pub fn listen() -> io::Result<Self> {
        let ended = pipe(SIGCHLD)?;
        let ignored = ignored();
        let mut pipes = Vec::new();
        for (number, signal) in
            [(SIGINT, Signal::INT), (SIGTERM, Signal::TERM), (SIGHUP, Signal::HUP), (SIGQUIT, Signal::QUIT)]
        {
            if ignored & (1 << (number - 1)) == 0 {
                pipes.push((signal, pipe(number)?));
            }
        }
        Ok(Self { ended, pipes, asked: false })
    }

    /// Forgets what came until now.
    pub fn forget(&mut self) {
        self.take();
        self.asked = false;
    }

    /// Tells whether this process was asked to end since.
    pub fn was_asked(&mut self) -> bool {
        self.take();
        self.asked
    }

    /// Waits until a child ended, a signal came, or the time is over, and passes signals on to `child`, which must not
    /// have been waited for.
    pub fn wait(&mut self, child: u32, most: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(most).map_err(io::Error::other)?;
        let mut all: Vec<PollFd<'_>> = vec![PollFd::new(&self.ended, PollFlags::IN)];
        all.extend(self.pipes.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)));
        match poll(&mut all, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        drop(all);
        drain(&self.ended);
        let child = i32::try_from(child).ok().and_then(Pid::from_raw);
        for signal in self.take() {
            let from_terminal = [Signal::INT, Signal::QUIT].contains(&signal) && is_in_foreground();
            if let Some(child) = child.filter(|_| !from_terminal) {
                // It may have ended just now, and then there is nobody to tell.
                let _ = kill_process(child, signal);
            }
        }
        Ok(())
    }

    /// The signals that came since.
    fn take(&mut self) -> Vec<Signal> {
        let came = self.pipes.iter().filter(|(_, pipe)| drain(pipe)).map(|(signal, _)| *signal);
        let came: Vec<Signal> = came.collect();
        self.asked |= !came.is_empty();
        came
    }
}

/// A pipe that holds a byte once the signal came.
fn pipe(signal: i32) -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK)?;
    signal_hook::low_level::pipe::register(signal, writer)?;
    Ok(reader)
}

/// Empties a pipe; tells whether there was anything in it.
fn drain(mut pipe: &PipeReader) -> bool {
    let mut bytes = [0u8; 64];
    let mut came = false;
    while pipe.read(&mut bytes).is_ok_and(|count| count > 0) {
        came = true;
    }
    came
}

/// The signals that this process ignores, one bit each; none where the system does not say.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Tells whether this process is of those that its terminal sends Ctrl-C to.
fn is_in_foreground() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}
