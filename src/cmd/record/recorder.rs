//! Records what a run was: for `record`, which runs one command, and for whatever starts many.
//!
//! ```text
//! let mut command = Command::new(program.path);        // arguments, variables and folder as the child gets them
//! let recorder = Recorder::new(&command, &options);    // machine, systems, capabilities, variables; nothing runs yet
//! let mut recording = recorder.start(&mut command)?;   // spawns; streams are the command's own business
//! let status = recording.wait(&mut signals)?;          // or `look` from a loop of one's own until it gives a status
//! let record = recording.finish(&mut || false);        // digests; asked now and then whether to stop hashing
//! ```
//!
//! Variables are those of this process with the changes of `command`; a command whose environment was cleared as a whole
//! (`env_clear`) cannot be told from one that inherits all, so set and remove variables one by one. Files are hashed after the
//! run: reading a model first would warm the page cache, and the run would not be the one that was asked for.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use capgate_registry::evidence::run_record::{Capabilities, Exit, Run, RunRecord, Unknown, mask};
use jiff::Timestamp;

use super::files::Files;
use super::loaded::Loaded;
use super::surroundings::of_this_machine;
use super::{environment, metal};
use crate::world::forwarded::Forwarded;

/// What wrote a record.
const RECORDER: &str = concat!("capgate ", env!("CARGO_PKG_VERSION"));
/// The first pause between two looks at a running process, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(500));

/// What is recorded beside the command.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What the program is called, where that is not the path that it is started from.
    pub name: Option<OsString>,
    /// A program that asks the Metal device and prints its answers.
    pub probe: Option<PathBuf>,
    /// The prefix that holds the host statement; without it, the one that this program stands in.
    pub prefix: Option<PathBuf>,
    /// The image of the virtual machine that this is.
    pub vm_image: Option<PathBuf>,
    /// Files that the command writes its raw samples to.
    pub samples: Vec<PathBuf>,
}

/// A run that is about to start.
#[derive(Debug)]
pub struct Recorder {
    record: RunRecord,
    files: Files,
    loaded: Loaded,
    samples: Vec<PathBuf>,
}

/// A run that has started.
#[derive(Debug)]
pub struct Recording {
    recorder: Recorder,
    child: Child,
    begun: Instant,
    seconds: Option<f64>,
    next_look: Instant,
    pause: Duration,
}

impl Recorder {
    /// Reads everything that is known before the program runs. What cannot be known stands in the record as unknown.
    pub fn new(command: &Command, options: &Options) -> Self {
        let around = of_this_machine(options.prefix.as_deref());
        let variables = environment::of(command);
        let name = options.name.as_deref().unwrap_or(command.get_program());
        let words: Vec<String> = std::iter::once(name)
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let (shown, masks) = mask::arguments(&words);
        let directory = command.get_current_dir().map(std::path::absolute);
        let directory = directory.unwrap_or_else(std::env::current_dir).unwrap_or_default();
        let mut record = RunRecord {
            recorder: RECORDER.to_owned(),
            complete: false,
            machine: around.machine,
            os: around.os,
            capabilities: Capabilities { linux: around.linux, ..Capabilities::default() },
            files: Vec::new(),
            run: Run {
                command: shown,
                directory: directory.to_string_lossy().into_owned(),
                environment: variables.recorded,
                other_variables: variables.others,
                masked: [masks, variables.masks].concat(),
                started: Timestamp::now(),
                seconds: None,
                exit: None,
                samples: Vec::new(),
                rollback: variables.rollback,
            },
            unknown: around.unknown,
            notes: around.notes,
        };
        if let Some(linux) = &mut record.capabilities.linux {
            linux.cpu_masked = variables.cpu_masked;
        }
        match metal::ask(command, options.probe.as_deref()) {
            Ok(answers) => record.capabilities.metal = answers,
            Err(why) => record.unknown.push(unknown("capabilities.metal", why)),
        }
        let files = Files::new(command, &directory, options, &mut record.notes);
        let (loaded, why) = Loaded::new(command);
        record.unknown.extend(why.map(|why| unknown("capabilities.libraries", why)));
        let samples = options.samples.iter().map(|path| directory.join(path)).collect();
        Self { record, files, loaded, samples }
    }

    /// The record as far as it is known: it says itself that it is not complete.
    pub fn so_far(&self) -> RunRecord {
        let mut record = self.record.clone();
        record.clean();
        record
    }

    /// Starts the program.
    pub fn start(mut self, command: &mut Command) -> io::Result<Recording> {
        self.record.run.started = Timestamp::now();
        let begun = Instant::now();
        let child = command.spawn()?;
        Ok(Recording { recorder: self, child, begun, seconds: None, next_look: begun, pause: PAUSES.0 })
    }
}

impl Recording {
    /// The process that runs.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Looks at the process if it is time to, and tells how it ended once it has. Never waits.
    pub fn look(&mut self) -> io::Result<Option<ExitStatus>> {
        if let Some(status) = self.child.try_wait()? {
            self.seconds.get_or_insert_with(|| self.begun.elapsed().as_secs_f64());
            self.recorder.record.run.exit = Some(exit_of(status));
            return Ok(Some(status));
        }
        if Instant::now() >= self.next_look {
            let id = self.child().id();
            self.recorder.loaded.look(id);
            self.next_look = Instant::now() + self.pause;
            self.pause = PAUSES.1.min(self.pause * 2);
        }
        Ok(None)
    }

    /// Waits for the end, looks on the way at what is loaded, and passes signals on.
    pub fn wait(&mut self, signals: &mut Forwarded) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.look()? {
                return Ok(status);
            }
            let left = self.next_look.saturating_duration_since(Instant::now());
            signals.wait(self.child().id(), left.max(PAUSES.0))?;
        }
    }

    /// Hashes what the run was made of, reads its samples, and completes the record.
    ///
    /// `stop` is asked now and then whether to leave the rest unhashed, which the record then says.
    pub fn finish(self, stop: &mut dyn FnMut() -> bool) -> RunRecord {
        let Recorder { mut record, mut files, loaded, samples } = self.recorder;
        record.run.seconds = self.seconds;
        record.complete = record.run.exit.is_some();
        loaded.into_record(&mut record, &mut files);
        files.read_samples(&samples, &mut record);
        files.into_record(&mut record, stop);
        environment::add_shims_that_were_loaded(&mut record);
        record.clean();
        record
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    let number = |number: i32| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(number(code)),
        (None, signal) => Exit::Signal(number(signal.unwrap_or_default())),
    }
}

/// Something that is not known, and why.
pub(super) fn unknown(what: impl Into<String>, why: impl Into<String>) -> Unknown {
    Unknown { what: what.into(), why: why.into() }
}
