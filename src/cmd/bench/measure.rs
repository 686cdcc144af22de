//! One process, from its start to its end: its time, its size and the machine are watched all through it.

use std::io::{self, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use capgate_registry::evidence::bench::contention::Reading;
use capgate_registry::evidence::bench::state::Ran;
use capgate_registry::evidence::llama_bench::MOST_BYTES;
use capgate_registry::evidence::run_record::RunRecord;
use jiff::Timestamp;

use super::folder::Bundle;
use crate::cmd::record::{Options, Recorder, Recording};
use crate::exit::Failure;
use crate::world::child::{Ending, Running, Started, end_group, is_over, prepared};
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
        let (out, err) = (bundle.new_file(&output)?, bundle.new_file(&log)?);
        let (began, clock) = (Timestamp::now(), Instant::now());
        let mut started = Started::start(command, out, err).map_err(|e| not_started(command, &e))?;
        let ended = self.attend(&mut started, bundle, [&output, &log], &clock, until)?;
        ran(bundle, Ran { output, log, ..empty(arm, began, &clock) }, ended)
    }

    /// The same, with a record of the run. Only what is no sample is recorded: looking at a process disturbs it.
    pub fn run_recorded(
        &mut self,
        bundle: &Bundle,
        arm: &str,
        end: &str,
        command: &mut Command,
        options: &Options,
    ) -> Result<Ran, Halt> {
        let (output, log, record) =
            (format!("{arm}.{end}"), format!("{arm}.log"), format!("{arm}.record.json"));
        let (out, err) = (bundle.new_file(&output)?, bundle.new_file(&log)?);
        let recorder = Recorder::new(command, options);
        let (began, clock) = (Timestamp::now(), Instant::now());
        let recording = recorder.start(prepared(command, out, err));
        let mut recorded = Recorded::new(recording.map_err(|e| not_started(command, &e))?);
        let ended = self.attend(&mut recorded, bundle, [&output, &log], &clock, &mut || false)?;
        let seen = Ran { output, log, record: Some(record.clone()), ..empty(arm, began, &clock) };
        let ran = ran(bundle, seen, ended)?;
        let stop = self.stop;
        let is_asked = || !matches!(stop.pause(Duration::ZERO), Ok(Woken::Time));
        if let Some(made) = recorded.finish(&mut || is_asked()) {
            let written = bundle.new_file(&record)?.write_all(made.to_json().as_bytes());
            written.map_err(|e| super::folder::not_written(&bundle.current(&record), &e))?;
        }
        Ok(ran)
    }

    fn attend(
        &mut self,
        started: &mut dyn Running,
        bundle: &Bundle,
        names: [&str; 2],
        clock: &Instant,
        until: &mut dyn FnMut() -> bool,
    ) -> Result<(Ending, Option<Early>), Halt> {
        let lost =
            |e: std::io::Error| Failure::failed(format!("a started program cannot be waited for: {e}"));
        let files = names.map(|name| bundle.current(name));
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
                let ending = started.kill().map_err(lost)?;
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

/// A process whose run is recorded. Its group is ended when this is dropped.
struct Recorded {
    recording: Option<Recording>,
    group: u32,
    ending: Option<Ending>,
}

impl Recorded {
    fn new(mut recording: Recording) -> Self {
        let group = recording.child().id();
        Self { recording: Some(recording), group, ending: None }
    }

    /// The record of a run that ended.
    fn finish(mut self, stop: &mut dyn FnMut() -> bool) -> Option<RunRecord> {
        Some(self.recording.take()?.finish(stop))
    }

    fn look(&mut self) -> io::Result<Option<Ending>> {
        let Some(recording) = &mut self.recording else { return Ok(None) };
        Ok(recording.look()?.map(Ending::of))
    }
}

impl Running for Recorded {
    fn group(&self) -> u32 {
        self.group
    }

    fn ended(&mut self) -> io::Result<Option<Ending>> {
        if is_over(self.group)? {
            return self.kill().map(Some);
        }
        // What is loaded is looked at; there is no ending yet.
        self.look()
    }

    fn kill(&mut self) -> io::Result<Ending> {
        // Once it was waited for, its number may be another's.
        if let Some(ending) = self.ending {
            return Ok(ending);
        }
        end_group(self.group)?;
        if let Some(recording) = &mut self.recording {
            recording.child().wait()?;
        }
        self.ending = self.look()?;
        self.ending.ok_or_else(|| io::Error::other("was waited for, and did not end"))
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // Once its record was made there is nothing left to end.
        if self.recording.is_some() {
            let _ = self.kill();
        }
    }
}

fn not_started(command: &Command, error: &io::Error) -> Failure {
    let program = command.get_program().to_string_lossy();
    Failure::failed(format!("`{program}` cannot be started: {error}"))
}

fn empty(arm: &str, began: Timestamp, clock: &Instant) -> Ran {
    Ran {
        arm: arm.to_owned(),
        output: String::new(),
        log: String::new(),
        record: None,
        began,
        seconds: clock.elapsed().as_secs_f64(),
        status: None,
        signal: None,
        timed_out: false,
    }
}

/// What is known of a process, with how it ended.
fn ran(bundle: &Bundle, mut ran: Ran, (ending, early): (Ending, Option<Early>)) -> Result<Ran, Halt> {
    ran.status = ending.status;
    ran.signal = ending.signal;
    ran.timed_out = early == Some(Early::Late);
    if let Some(line) = said_of(&ran, early) {
        say(bundle, &ran, &line)?;
    }
    Ok(ran)
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
