//! The program that is started: where it is, what runs in the end, and what a library for it must be.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use capgate_guest::binary::{Binary, chain};
use capgate_guest::identity;
use capgate_macho::{Cpu, Signature};

use crate::cmd::doctor::check::Level;
use crate::cmd::doctor::inject;
use crate::cmd::doctor::program::running;
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
fn look_up(name: &OsStr) -> Option<PathBuf> {
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
    /// The files that are started before the program itself.
    pub fn before(&self) -> &[(PathBuf, Binary)] {
        self.started.split_last().map_or(&[], |(_, before)| before)
    }

    /// The loader ignores inserted libraries of some programs, and takes the variable away for those behind them.
    pub fn takes_libraries(&self) -> Result<(), String> {
        for (path, binary) in &self.started {
            if !matches!(binary, Binary::MachO(_)) {
                continue;
            }
            let shown = path.display();
            let slices = identity::parts_of_file(path).map_err(|e| format!("`{shown}` {e}"))?;
            let slices = slices.map_err(|e| format!("`{shown}` {e}"))?;
            let Some((_, (commands, signature))) = running(&slices) else { continue };
            let signature = signature.as_deref().map(Signature::parse).transpose();
            let signature = signature.map_err(|e| format!("`{shown}` {e}"))?;
            let check = inject::check(path, commands, signature.as_ref());
            if check.level == Level::Failed {
                return Err(format!("`{shown}`: {}; `capgate doctor` says more", check.text));
            }
        }
        Ok(())
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
    let is_system = ["/usr/bin", "/usr/sbin", "/usr/libexec", "/bin", "/sbin", "/System"]
        .iter()
        .any(|folder| path.starts_with(folder));
    // Of a universal file the system's own runs with pointer authentication, anybody else's without.
    let order = if is_system {
        [Cpu::Arm64e, Cpu::Arm64, Cpu::X86_64]
    } else {
        [Cpu::Arm64, Cpu::Arm64e, Cpu::X86_64]
    };
    let runs = order.into_iter().find(|cpu| slices.contains(cpu)).or_else(|| slices.first().copied())?;
    (!offered.contains(&runs)).then_some(runs)
}
