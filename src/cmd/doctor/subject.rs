//! The program that is asked about: what runs when it is started, through scripts and launchers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use capgate_guest::binary::{Binary, chain};
use capgate_guest::slices::SliceError;
use capgate_macho::{Cpu, FileType};

use super::findings::Findings;
use super::macho::{MachO, name, signed};
use super::report::{Fix, Report};
use crate::cmd::prefix::quoted;
use crate::cmd::run::program::{look_up, runs_as};
use crate::exit::Failure;

/// A program, or a library that was named in its place.
#[derive(Debug)]
pub struct Subject {
    /// The file that was named.
    pub named: PathBuf,
    /// The file whose code runs in the end.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
}

/// What a file is.
#[derive(Debug)]
pub enum Kind {
    /// A program of a Mac, and the processor that it runs on.
    Program(MachO, Cpu),
    /// A library of a Mac, which some program loads.
    Library(MachO, Cpu),
    /// A program of another system.
    Elf,
}

/// Finds it, and says in `report` what stands between the name and the code that runs.
pub fn find(named: &OsStr, report: &mut Report) -> Result<Subject, Failure> {
    let path = if named.as_bytes().contains(&b'/') {
        PathBuf::from(named)
    } else {
        look_up(named).unwrap_or_else(|| PathBuf::from(named))
    };
    let help = "give its path, or a name that is in PATH";
    let unreadable = |e| Failure::failed(format!("the program cannot be read: {e}")).help(help);
    let search = |name: &str| look_up(OsStr::new(name));
    let started = chain(&path, &search).map_err(unreadable)?;
    let runs = started.last().map_or_else(|| path.clone(), |(path, _)| path.clone());
    between(&path, &started, report);
    let runs = launched(&runs, &path, report).unwrap_or(runs);
    let kind = kind(&runs)?;
    let subject = Subject { named: path, path: runs, kind };
    subject.say(report);
    Ok(subject)
}

fn kind(path: &Path) -> Result<Kind, Failure> {
    let shown = path.display();
    let help = "get it again from where it is published";
    let read = MachO::read(path).map_err(|e| match e {
        SliceError::Io(e) => Failure::failed(format!("`{shown}` cannot be read: {e}")),
        SliceError::Macho(e) => Failure::invalid(format!("`{shown}` {e}")).help(help),
    })?;
    let Some(macho) = read else {
        let binary = Binary::of_file(path).map_err(|e| Failure::failed(format!("`{shown}` {e}")))?;
        return match binary {
            Binary::Elf(_) => Ok(Kind::Elf),
            _ => Err(Failure::invalid(format!("`{shown}` is neither a Mach-O file nor a script")).help(help)),
        };
    };
    let Some(cpu) = runs_as(&macho.path, &macho.cpus()) else {
        return Err(Failure::invalid(format!("`{shown}` has no code")).help(help));
    };
    for (_, contents) in &macho.slices {
        signed(contents).map_err(|what| Failure::invalid(format!("`{shown}` {what}")).help(help))?;
    }
    let program = macho.slice(cpu).is_some_and(|slice| slice.commands.file_type == FileType::Program);
    Ok(if program { Kind::Program(macho, cpu) } else { Kind::Library(macho, cpu) })
}

/// Scripts, `env` and shells: what is started on the way takes the library out of the environment, or is never given it.
fn between(path: &Path, started: &[(PathBuf, Binary)], report: &mut Report) {
    const SHELLS: [&str; 7] = ["sh", "bash", "zsh", "dash", "ksh", "csh", "fish"];
    let Some(((last, _), before)) = started.split_last() else { return };
    if !matches!(started.first(), Some((_, Binary::Script(..)))) {
        return;
    }
    let (script, interpreter) = (quoted(path), quoted(last));
    // A shell at the end comes first: whatever `env` starts on the way, the program is none of these files.
    if SHELLS.contains(&name(last).as_str()) {
        let message = format!(
            "`{}` is run by `{}`, and what a shell starts are children, which stay stock",
            path.display(),
            last.display()
        );
        let fix =
            "start the program that the script starts: `capgate doctor PROGRAM`, `capgate run -- PROGRAM`";
        return report.fail("launcher", message, Fix::Do(fix.to_owned()));
    }
    if before.iter().any(|(path, binary)| name(path) == "env" && !matches!(binary, Binary::Script(..))) {
        let message = format!(
            "`{}` starts `{}` through `env`, and the library ends there: what `env` starts is stock",
            path.display(),
            last.display()
        );
        let fix = format!("capgate run -- {interpreter} {script}");
        return report.fail("launcher", message, Fix::Do(fix));
    }
    report.ok("launcher", format!("`{}` is a script; `{}` runs it", path.display(), last.display()));
}

/// The program behind the stub of a framework's Python, which only starts `Python.app`.
fn launched(runs: &Path, named: &Path, report: &mut Report) -> Option<PathBuf> {
    let stub = runs.canonicalize().ok()?;
    let version = stub.parent().filter(|folder| name(folder) == "bin")?.parent()?;
    let framework = version.parent()?.parent()?;
    let is_python = name(&stub).starts_with("python") && name(framework).ends_with(".framework");
    let program = version.join("Resources/Python.app/Contents/MacOS/Python");
    if !is_python || !program.is_file() {
        return None;
    }
    let message = format!(
        "`{}` only starts `{}`, and the library ends there; the checks below are about what it starts",
        named.display(),
        program.display()
    );
    let fix = format!("__PYVENV_LAUNCHER__={} capgate run -- {}", quoted(runs), quoted(&program));
    report.fail("launcher", message, Fix::Do(fix));
    Some(program)
}

impl Subject {
    fn say(&self, report: &mut Report) {
        let shown = self.path.display();
        let (kind, macho) = match &self.kind {
            Kind::Program(macho, cpu) => {
                let minimum = macho.slice(*cpu).and_then(|slice| slice.commands.minimum_macos);
                let from = minimum.map_or_else(String::new, |version| format!(", from macOS {version} on"));
                report.ok("program", format!("`{shown}` is a program for {}{from}", cpus(macho)));
                ("program", Some((macho, *cpu)))
            }
            Kind::Library(macho, cpu) => {
                let text = format!("`{shown}` is a library for {}, and no program", cpus(macho));
                let fix = "whether it is loaded where answers are granted depends on the program; look at that, too";
                report.warn("program", text, Fix::Do(fix.to_owned()));
                ("library", Some((macho, *cpu)))
            }
            Kind::Elf => {
                let text = format!("`{shown}` is a program for Linux, where there is no Metal");
                let fix = "look at the program on the guest where it runs";
                report.warn("program", text, Fix::Do(fix.to_owned()));
                ("elf", None)
            }
        };
        report.program = Some(Findings::new(&self.named, &self.path, kind, macho));
    }
}

fn cpus(macho: &MachO) -> String {
    let names: Vec<String> = macho.cpus().iter().map(ToString::to_string).collect();
    names.join(", ")
}
