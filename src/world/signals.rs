//! Waiting until a time comes or the process is asked to end.

use std::io;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Longest single wait. A machine that sleeps stops the timer but not the clock, so the clock is looked at again.
const STEP: Duration = Duration::from_secs(20);

/// Remembers that the process was asked to end.
#[derive(Debug)]
pub struct Stop {
    asked: io::PipeReader,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The time has come.
    Time,
    /// The process was asked to end.
    Stopped,
}

impl Stop {
    /// From now on SIGTERM and SIGINT do not end the process by themselves.
    pub fn listen() -> io::Result<Self> {
        let (asked, ask) = io::pipe()?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, ask.try_clone()?)?;
        }
        Ok(Self { asked })
    }

    /// Waits for so long, or until the process is asked to end.
    pub fn pause(&self, time: Duration) -> io::Result<Woken> {
        let timeout = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.asked, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(Woken::Time),
            Ok(_) => Ok(Woken::Stopped),
            Err(e) => Err(e.into()),
        }
    }

    /// Waits until the clock shows `until`, or was set back by more than a day.
    pub fn wait(&self, until: Timestamp) -> io::Result<Woken> {
        loop {
            let left = until.duration_since(Timestamp::now());
            if left <= SignedDuration::ZERO || left > SignedDuration::from_hours(24) {
                return Ok(Woken::Time);
            }
            let step = left.unsigned_abs().min(STEP);
            let timeout = Timespec::try_from(step).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.asked, PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(Woken::Stopped),
                Err(e) => return Err(e.into()),
            }
        }
    }
}
