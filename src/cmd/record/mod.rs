//! `capgate record`: runs a command unchanged and writes down what the run was, shows such records, compares them.

mod diff;
mod environment;
mod files;
mod loaded;
mod metal;
pub mod recorder;
mod show;
pub mod surroundings;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use capgate_registry::evidence::run_record::{self, Exit as Ended, RunRecord};
use jiff::Timestamp;

pub use self::recorder::{Options, Recorder, Recording};
use crate::cli::RecordArgs;
use crate::cmd::run::program;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::file;
use crate::world::forwarded::Forwarded;
use crate::world::place::Place;

pub use diff::run as diff;
pub use show::run as show;

pub fn run(ui: &Ui, args: &RecordArgs) -> Outcome {
    let Some((name, words)) = args.program.split_first() else {
        return Err(Failure::usage("no program was given"));
    };
    let found = program::find(name)?;
    let mut command = Command::new(&found.path);
    command.arg0(name).args(words);
    let options = Options {
        name: Some(name.clone()),
        probe: args.probe.clone(),
        prefix: args.prefix.clone(),
        vm_image: args.vm_image.clone(),
        samples: args.samples.clone(),
    };
    let recorder = Recorder::new(&command, &options);
    let out = Out::create(args.out.as_deref(), &recorder.so_far())?;
    let unrecorded = |e| not_recorded(format!("the program cannot be watched: {e}"));
    let mut signals = Forwarded::listen().map_err(unrecorded)?;
    let mut recording = recorder.start(&mut command).map_err(|e| {
        out.remove();
        program::not_started(name, &e)
    })?;
    recording.wait(&mut signals).map_err(unrecorded)?;
    // What was asked of the program is no wish to leave the record without digests.
    signals.forget();
    let record = recording.finish(&mut || signals.was_asked());
    let exit = exit_of(&record);
    match out.replace(&record) {
        Ok(()) => ui.details(&format!("capgate: recorded in {}\n", out.path.display())),
        Err(failure) if exit == Exit::Program(0) => return Err(failure),
        Err(failure) => ui.failure(&failure),
    }
    Ok(exit)
}

/// What scripts see.
fn exit_of(record: &RunRecord) -> Exit {
    match record.run.exit {
        Some(Ended::Code(code)) => Exit::Program(code),
        Some(Ended::Signal(signal)) => Exit::Program(signal.saturating_add(128)),
        None => Exit::NotStarted,
    }
}

fn not_recorded(message: String) -> Failure {
    Failure { exit: Exit::NotStarted, ..Failure::failed(message) }
}

/// The file of the record: there from before the start, so that nothing runs for hours that cannot be recorded.
struct Out {
    place: Place,
    name: OsString,
    path: PathBuf,
}

impl Out {
    /// Makes the file; one that is there already is never touched.
    fn create(named: Option<&Path>, record: &RunRecord) -> Result<Self, Failure> {
        let path = named.map_or_else(default_name, Path::to_owned);
        let shown = path.display().to_string();
        let failure = |why: String| not_recorded(format!("`{shown}` cannot be written: {why}"));
        let name = path.file_name().ok_or_else(|| failure("it names no file".to_owned()))?.to_owned();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().map_err(|e| failure(e.to_string()))?;
        let place = Place::open(&folder).map_err(|e| failure(e.to_string()))?;
        match place.create(&name, &mut record.to_json().as_bytes(), 0o600) {
            Ok(_) => Ok(Self { place, name, path }),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(not_recorded(format!("`{shown}` exists, and a record is never overwritten")))
            }
            Err(e) => Err(failure(e.to_string())),
        }
    }

    fn replace(&self, record: &RunRecord) -> Result<(), Failure> {
        let written = self.place.replace(&self.name, record.to_json().as_bytes(), 0o600);
        written.map_err(|e| {
            not_recorded(format!("`{}` cannot be written: {e}", self.path.display()))
                .help("what stands there was written before the program started, and says so")
        })
    }

    fn remove(&self) {
        // The failure that follows is what matters.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn default_name() -> PathBuf {
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    PathBuf::from(format!("capgate-record-{now}-{}.json", std::process::id()))
}

/// Reads a record that somebody named.
fn read(path: &Path) -> Result<RunRecord, Failure> {
    let shown = path.display();
    let bytes = file::read(path, run_record::MOST_BYTES as u64)
        .map_err(|e| Failure::failed(format!("`{shown}` cannot be read: {e}")))?;
    run_record::read(&bytes).map_err(|e| {
        Failure::invalid(format!("`{shown}` is no record that this version reads: {e}"))
            .help("docs/record.md says what one holds")
    })
}
