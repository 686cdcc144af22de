//! One process, from its start to its end: its time, its size and the machine are watched all through it.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use capgate_registry::evidence::bench::contention::Reading;
use capgate_registry::evidence::bench::state::Ran;
use capgate_registry::evidence::llama_bench::MOST_BYTES;
use jiff::Timestamp;

use super::folder::Bundle;
use crate::exit::Failure;
use crate::world::child::{Ending, Started};
use crate::world::load::Watch;
use crate::world::signals::{Stop, Woken};

/// How long between two looks at the process.
const LOOK: Duration = Duration::from_millis(20);
/// How long between two readings of the machine.
const READ: Duration = Duration::from_millis(250);
/// What a shell says of a program that `timeout` ended.
const TIMED_OUT: i32 = 124;

/// Why measuring stopped.
#[derive(Debug)]
pub enum Halt {
    /// It could not go on.
    Failure(Failure),
    /// Somebody asked it to.
    Interrupted,
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// What watches a process.
pub struct Eyes<'a> {
    /// Whether somebody wants it to end.
    pub stop: &'a Stop,
    /// What else the machine does.
    pub watch: &'a mut Watch,
    /// The readings so far.
    pub readings: Vec<Reading>,
    /// How long a process may take.
    pub timeout: Duration,
}

impl Eyes<'_> {
    /// Waits, with one reading in the middle of each part.
    pub fn rest(&mut self, parts: u32, part: Duration) -> Result<(), Halt> {
        self.read(None);
        for _ in 0..parts {
            self.pause(part)?;
            self.read(None);
        }
        Ok(())
    }

    /// Runs a command as a process of an arm, by which its files in the round that runs are named; `until` ends it early.
    pub fn run(
        &mut self,
        bundle: &Bundle,
        arm: &str,
        end: &str,
        command: &mut Command,
        until: &mut dyn FnMut() -> bool,
    ) -> Result<Ran, Halt> {
        let (output, log) = (format!("{arm}.{end}"), format!("{arm}.log"));
        let files = [bundle.current(&output), bundle.current(&log)];
        let (out, err) = (bundle.new_file(&output)?, bundle.new_file(&log)?);
        let began = Timestamp::now();
        let clock = Instant::now();
        let program = command.get_program().to_string_lossy().into_owned();
        let not_started = |e: std::io::Error| Failure::failed(format!("`{program}` cannot be started: {e}"));
        let mut started = Started::start(command, out, err).map_err(not_started)?;
        let ending = self.attend(&mut started, &files, &clock, until)?;
        let (ending, why) = ending;
        let ran = Ran {
            arm: arm.to_owned(),
            output,
            log,
            began,
            seconds: clock.elapsed().as_secs_f64(),
            status: ending.status,
            signal: ending.signal,
            timed_out: matches!(why, Some(Early::Late)),
        };
        if let Some(line) = said_of(&ran, why) {
            say(bundle, &ran, &line)?;
        }
        Ok(ran)
    }

    fn attend(
        &mut self,
        started: &mut Started,
        files: &[PathBuf; 2],
        clock: &Instant,
        until: &mut dyn FnMut() -> bool,
    ) -> Result<(Ending, Option<Early>), Halt> {
        let lost =
            |e: std::io::Error| Failure::failed(format!("a started program cannot be waited for: {e}"));
        let mut read_at = Instant::now();
        self.read(Some(started.group()));
        loop {
            if let Some(ending) = started.ended().map_err(lost)? {
                self.read(None);
                return Ok((ending, None));
            }
            let large =
                files.iter().any(|file| file.metadata().is_ok_and(|file| file.len() > MOST_BYTES as u64));
            let early = match (clock.elapsed() > self.timeout, large, until()) {
                (true, ..) => Some(Early::Late),
                (_, true, _) => Some(Early::Large),
                (.., true) => Some(Early::Enough),
                _ => None,
            };
            if let Some(early) = early {
                let ending = started.kill().map_err(lost)?.unwrap_or(Ending { status: None, signal: None });
                self.read(None);
                return Ok((ending, Some(early)));
            }
            if read_at.elapsed() >= READ {
                read_at = Instant::now();
                self.read(Some(started.group()));
            }
            self.pause(LOOK)?;
        }
    }

    fn read(&mut self, group: Option<u32>) {
        self.readings.push(self.watch.read(group));
    }

    /// Waits a little; what runs is ended with whoever drops it.
    pub fn pause(&self, time: Duration) -> Result<(), Halt> {
        match self.stop.pause(time) {
            Ok(Woken::Time) => Ok(()),
            Ok(Woken::Stopped) => Err(Halt::Interrupted),
            Err(e) => Err(Failure::failed(format!("signals cannot be waited for: {e}")).into()),
        }
    }
}

/// Why a process was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Early {
    /// It took too long.
    Late,
    /// It wrote too much.
    Large,
    /// What was wanted of it was there.
    Enough,
}

/// A line that says how a process came to no good, in words that the judge of logs knows. A program that is killed says
/// nothing of it itself.
fn said_of(ran: &Ran, early: Option<Early>) -> Option<String> {
    let status = match early {
        Some(Early::Enough) => return None,
        Some(Early::Late) => {
            return Some(format!("exit status {TIMED_OUT}: it was ended after {:.0} s", ran.seconds));
        }
        Some(Early::Large) => {
            return Some(format!(
                "exit status 125: it was ended, having written more than {MOST_BYTES} bytes"
            ));
        }
        None => ran.signal.map_or(ran.status, |signal| Some(128 + signal)),
    };
    let signal = ran.signal.map_or_else(String::new, |signal| format!(", signal {signal}"));
    status.filter(|status| *status != 0).map(|status| format!("exit status {status}{signal}"))
}

fn say(bundle: &Bundle, ran: &Ran, line: &str) -> Result<(), Failure> {
    let path = bundle.current(&ran.log);
    let written = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut log| log.write_all(format!("\n[capgate bench] {line}\n").as_bytes()));
    written.map_err(|e| super::folder::not_written(&path, &e))
}
