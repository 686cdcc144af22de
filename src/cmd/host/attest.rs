//! `capgate host attest`: signs what this host is, and puts it where its guests read it.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use capgate_policy::host::MAX_STATEMENT;
use capgate_registry::keys::SigningKey;
use capgate_registry::note::{self, Kind};
use serde::Serialize;

use super::statement::{Host, Signed};
use super::watch;
use crate::cli::AttestArgs;
use crate::cmd::keys;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::clock;
use crate::world::file;
use crate::world::place::{Place, leftovers};
use crate::world::signals::Stop;

/// Name of the statement where only a folder is given.
const NAME: &str = "host.note";
/// Nobody takes that long to write a file.
const LONG_AGO: Duration = Duration::from_secs(3600);

#[derive(Serialize)]
struct Written<'a> {
    file: String,
    signer: &'a str,
    chip: &'a str,
    os_version: &'a str,
    os_build: &'a str,
    issued: String,
    expires: String,
}

pub fn run(ui: &Ui, args: &AttestArgs) -> Outcome {
    if args.watch && args.every > args.lifetime / 2 {
        let message = format!(
            "a new statement every {:#} is too rare for one that counts {:#}",
            args.every, args.lifetime
        );
        return Err(Failure::usage(message).help("renew at least twice in a lifetime: one write may fail"));
    }
    let job = Job { args, host: Host::read()?, key: keys::read(&args.key, &[])?, target: target(&args.out)? };
    refuse_anything_else(&job.target)?;
    job.sweep();
    // A signal that comes with the first statement must find it whole.
    let stop = args.watch.then(Stop::listen).transpose();
    let stop = stop.map_err(|e| Failure::failed(format!("signals cannot be waited for: {e}")))?;
    job.report(ui, &job.write()?);
    match stop {
        Some(stop) => watch::renew(ui, &job, &stop),
        None => Ok(Exit::Done),
    }
}

/// What is signed, with what, and where it goes.
pub struct Job<'a> {
    pub args: &'a AttestArgs,
    host: Host,
    key: SigningKey,
    target: PathBuf,
}

impl Job<'_> {
    /// Signs the statement of this moment and puts it in place of the one before.
    pub fn write(&self) -> Result<Signed, Failure> {
        let signed = self.host.sign(self.args, &self.key, clock::now(None))?;
        let failed = |path: &Path, e| Failure::failed(format!("`{}` cannot be written: {e}", path.display()));
        let (Some(folder), Some(name)) = (self.target.parent(), self.target.file_name()) else {
            return Err(Failure::usage(format!("`{}` names no file", self.target.display())));
        };
        // The folder is opened anew each time: a share may have been mounted again.
        let place = Place::open(folder).map_err(|e| failed(folder, e))?;
        place.replace(name, &signed.note, 0o644).map_err(|e| failed(&self.target, e))?;
        Ok(signed)
    }

    /// Removes the halves of statements whose writer was killed long ago; a younger one may still be written.
    fn sweep(&self) {
        let (Some(folder), Some(name)) = (self.target.parent(), self.target.file_name()) else { return };
        for half in leftovers(folder, &name.to_string_lossy()) {
            let age = fs::symlink_metadata(&half)
                .and_then(|metadata| metadata.modified())
                .map(|time| time.elapsed());
            if matches!(age, Ok(Ok(age)) if age > LONG_AGO) {
                // One that cannot be removed is in nobody's way.
                let _ = fs::remove_file(half);
            }
        }
    }

    fn report(&self, ui: &Ui, Signed { statement, .. }: &Signed) {
        let file = self.target.display().to_string();
        if ui.is_json() {
            return ui.json(&Written {
                file,
                signer: self.key.verifier().name(),
                chip: statement.chip.as_str(),
                os_version: statement.os.version.as_str(),
                os_build: statement.os.build.as_str(),
                issued: statement.issued.to_string(),
                expires: statement.expires.to_string(),
            });
        }
        let os = &statement.os;
        ui.line(format!(
            "`{file}` says until {} that this is {} with macOS {} ({})",
            statement.expires, statement.chip, os.version, os.build
        ));
    }
}

/// Nothing that somebody may miss is replaced: a slip of the pen in `--out` must not cost a key. Looked at once, since
/// whoever can write the folder could stop every renewal otherwise.
fn refuse_anything_else(target: &Path) -> Result<(), Failure> {
    // What cannot be opened is refused by name when it is written.
    if target.is_symlink() {
        return Ok(());
    }
    let Ok(file) = file::open_regular(target) else { return Ok(()) };
    let mut start = Vec::new();
    file.take(MAX_STATEMENT as u64)
        .read_to_end(&mut start)
        .map_err(|e| Failure::failed(format!("`{}` cannot be read: {e}", target.display())))?;
    let text = String::from_utf8_lossy(&start);
    if text.is_empty() || note::origin_of(&text, Kind::Host).is_ok() {
        return Ok(());
    }
    let message = format!("`{}` is no host statement, and is not replaced", target.display());
    Err(Failure::failed(message).help("name another file with `--out`, or move this one away"))
}

/// The file to write: the one that is named, or `host.note` in a folder.
fn target(out: &Path) -> Result<PathBuf, Failure> {
    let cannot = |e| Failure::failed(format!("`{}` cannot be found: {e}", out.display()));
    let out = std::path::absolute(out).map_err(cannot)?;
    // A link to a folder is no folder here: the open that follows refuses it by name.
    if out.is_dir() { Ok(out.join(NAME)) } else { Ok(out) }.and_then(|file| {
        if file.file_name().and_then(OsStr::to_str).is_some() {
            return Ok(file);
        }
        Err(Failure::usage(format!("`{}` names no file", file.display())))
    })
}
