//! The program that is started: where it is, what runs in the end, and what a library for it must be.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use capgate_guest::binary::{Binary, chain};
use capgate_macho::Cpu;

use crate::cmd::doctor::injection;
use crate::exit::{Exit, Failure};

/// A program that was found.
#[derive(Debug)]
pub struct Program {
    /// The file that is started.
    pub path: PathBuf,
    /// The file whose code runs in the end: the interpreter, for a script.
    pub identified: PathBuf,
    /// Every file that is started on the way, and what it is.
    started: Vec<(PathBuf, Binary)>,
}

/// Finds a program as a shell would: a name with a slash is a path, any other is looked up in `PATH`.
pub fn find(name: &OsStr) -> Result<Program, Failure> {
    let path = if name.as_bytes().contains(&b'/') { Some(PathBuf::from(name)) } else { look_up(name) };
    let shown = name.to_string_lossy();
    let Some(path) = path.filter(|path| path.exists()) else {
        let failure =
            Failure { exit: Exit::NotFound, ..Failure::failed(format!("there is no program `{shown}`")) };
        return Err(failure.help("give its path, or a name that is in PATH"));
    };
    let search = |name: &str| look_up(OsStr::new(name));
    // What cannot be looked into is left to the system to start or to refuse.
    let started = chain(&path, &search).unwrap_or_default();
    let identified = started.last().map_or_else(|| path.clone(), |(path, _)| path.clone());
    Ok(Program { path, identified, started })
}

/// The first executable file of that name in `PATH`.
pub fn look_up(name: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}

/// Why it did not start.
pub fn not_started(name: &OsStr, error: &io::Error) -> Failure {
    let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::NotExecutable };
    Failure { exit, ..Failure::failed(format!("`{}` cannot be started: {error}", name.to_string_lossy())) }
}

impl Program {
    /// Why the library would not reach the program: `env` starts it, and the library ends where it was loaded, so that
    /// children see nothing of it.
    pub fn cut_off(&self) -> Option<String> {
        let (_, before) = self.started.split_last()?;
        let (starter, _) = before.iter().find(|(_, binary)| !matches!(binary, Binary::Script(..)))?;
        Some(format!(
            "`{}` would start `{}` without the library; start that itself, with the script as its first argument",
            starter.display(),
            self.identified.display()
        ))
    }

    /// The loader ignores inserted libraries of some programs, and takes the variable away for those behind them.
    pub fn takes_libraries(&self) -> Result<(), String> {
        let files = self.started.iter().filter(|(_, binary)| matches!(binary, Binary::MachO(_)));
        match files.map(|(path, _)| injection::refused(path)).find(Option::is_some).flatten() {
            None => Ok(()),
            Some(why) => Err(format!("{why}; `capgate doctor` says more")),
        }
    }

    /// The loader ends a program whose inserted library it cannot load, so the library must have code for every
    /// processor that a file on the way is for.
    pub fn can_load(&self, library: &Path) -> Result<(), String> {
        let offered = Binary::of_file(library).map_err(|e| format!("`{}` {e}", library.display()))?;
        for (path, binary) in &self.started {
            let wanted = match (binary, &offered) {
                (Binary::Script(..), _) => continue,
                (Binary::Elf(wanted), Binary::Elf(offered)) if wanted == offered => continue,
                (Binary::MachO(slices), Binary::MachO(offered)) => match missing(path, slices, offered) {
                    None => continue,
                    Some(cpu) => format!("code for {cpu}"),
                },
                _ => "another kind of library".to_owned(),
            };
            return Err(format!(
                "`{}` needs {wanted}, which `{}` has not",
                path.display(),
                library.display()
            ));
        }
        Ok(())
    }
}

/// The processor that a file runs on here and that the library has no code for.
fn missing(path: &Path, slices: &[Cpu], offered: &[Cpu]) -> Option<Cpu> {
    runs_as(path, slices).filter(|runs| !offered.contains(runs))
}

/// The processor whose code of a file runs on a Mac with Apple's own chip.
pub fn runs_as(path: &Path, slices: &[Cpu]) -> Option<Cpu> {
    // Of a universal file the system's own runs with pointer authentication, anybody else's without.
    let order = if is_systems_own(path) {
        [Cpu::Arm64e, Cpu::Arm64, Cpu::X86_64]
    } else {
        [Cpu::Arm64, Cpu::Arm64e, Cpu::X86_64]
    };
    order.into_iter().find(|cpu| slices.contains(cpu)).or_else(|| slices.first().copied())
}

/// Tells whether macOS keeps its own programs there.
pub fn is_systems_own(path: &Path) -> bool {
    const FOLDERS: [&str; 6] = ["/usr/bin", "/usr/sbin", "/usr/libexec", "/bin", "/sbin", "/System"];
    FOLDERS.iter().any(|folder| path.starts_with(folder))
}
