//! Which program it is: by the kernel's hash of the running one, and by the bytes of its file.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use capgate_macho::{Cpu, cdhash};
use capgate_policy::facts::{Fact, Program, Sha256Trust};
use capgate_registry::combination::{CdHash, Hex, Sha256Digest};
use sha2::{Digest, Sha256};

use crate::slices::{Contents, SliceError};
use crate::{slices, system};

/// Largest executable file that is hashed, in bytes. A larger one is known by its cdhash alone.
pub const MAX_PROGRAM: u64 = 1 << 30;
const PIECE: usize = 1 << 17;

/// What the bytes of one file say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIdentity {
    /// Its SHA-256.
    pub sha256: Sha256Digest,
    /// The cdhash of each slice that is signed.
    pub cdhashes: Vec<(Cpu, CdHash)>,
}

impl FileIdentity {
    /// The cdhash of the slice that this machine would run.
    pub fn own_cdhash(&self) -> Option<CdHash> {
        let own =
            if cfg!(target_arch = "x86_64") && cfg!(target_os = "macos") { Cpu::X86_64 } else { Cpu::Arm64 };
        let of = |cpu| self.cdhashes.iter().find(|(other, _)| *other == cpu).map(|(_, hash)| *hash);
        of(own).or_else(|| of(Cpu::Arm64e))
    }
}

/// The program that runs as this process, and the path it was started by.
///
/// The SHA-256 counts only where the same bytes give the cdhash that the kernel knows: the file may have been replaced
/// since, and then it says nothing about what runs.
pub fn of_process() -> (Program, Option<PathBuf>) {
    let running = system::own_cdhash().map(Hex);
    let path = system::executable_path();
    let file = path.as_deref().and_then(|path| of_file(path).ok());
    let same = file
        .as_ref()
        .zip(running)
        .is_some_and(|(file, running)| file.cdhashes.iter().any(|(_, hash)| *hash == running));
    let program = Program {
        sha256: file.map_or(Fact::Missing, |file| Fact::Known(file.sha256)),
        sha256_trust: if same { Sha256Trust::SameBytes } else { Sha256Trust::Unproven },
        cdhash: running.map_or(Fact::Missing, Fact::Known),
    };
    (program, path)
}

/// The same without its file, where nothing is going to be looked up.
pub fn of_process_unread() -> (Program, Option<PathBuf>) {
    let cdhash = system::own_cdhash().map_or(Fact::Missing, |hash| Fact::Known(Hex(hash)));
    let program = Program { sha256: Fact::Missing, sha256_trust: Sha256Trust::Unproven, cdhash };
    (program, system::executable_path())
}

/// The program that a file would run as.
pub fn of_program(path: &Path) -> io::Result<Program> {
    of_program_with(path, &mut |_| {})
}

/// The same; `progress` is told the bytes hashed so far.
pub fn of_program_with(path: &Path, progress: &mut dyn FnMut(u64)) -> io::Result<Program> {
    let file = read_file(path, progress)?;
    Ok(Program {
        sha256: Fact::Known(file.sha256),
        sha256_trust: Sha256Trust::Asked,
        cdhash: file.own_cdhash().map_or(Fact::Missing, Fact::Known),
    })
}

/// Opens a file once and reads all of it through that descriptor.
///
/// Errors: what the system says; a file that is no regular one, too large, or changed while it was read. A file that is
/// no Mach-O, or not a signed one, has no cdhash, which is no error.
pub fn of_file(path: &Path) -> io::Result<FileIdentity> {
    read_file(path, &mut |_| {})
}

fn read_file(path: &Path, progress: &mut dyn FnMut(u64)) -> io::Result<FileIdentity> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    let before = file.metadata()?;
    if !before.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    if before.len() > MAX_PROGRAM {
        return Err(io::Error::other(format!("has more than the {MAX_PROGRAM} bytes that are hashed")));
    }
    let cdhashes = cdhashes(&file, before.len())?;
    let sha256 = sha256(&file, before.len(), progress)?;
    if stamp(&before) != stamp(&file.metadata()?) {
        return Err(io::Error::other("changed while it was read"));
    }
    Ok(FileIdentity { sha256, cdhashes })
}

/// What differs once a file was written to.
fn stamp(of: &Metadata) -> (u64, i64, i64, i64, i64) {
    (of.len(), of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec())
}

fn sha256(file: &File, size: u64, progress: &mut dyn FnMut(u64)) -> io::Result<Sha256Digest> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0u8; PIECE];
    let mut at = 0;
    while at < size {
        let count = file.read_at(&mut piece, at)?;
        if count == 0 {
            return Err(io::Error::other("became shorter while it was read"));
        }
        hasher.update(piece.get(..count).unwrap_or_default());
        at += count as u64;
        progress(at);
    }
    Ok(Hex(hasher.finalize().into()))
}

/// The cdhash of each slice that has one.
fn cdhashes(file: &File, size: u64) -> io::Result<Vec<(Cpu, CdHash)>> {
    let slices = match slices::of(file, size) {
        Ok(slices) => slices,
        Err(SliceError::Io(e)) => return Err(e),
        Err(SliceError::Macho(_)) => return Ok(Vec::new()),
    };
    let mut found = Vec::new();
    for slice in slices {
        match Contents::read(file, &slice) {
            Ok(Contents { signature: Some(signature), .. }) => {
                found.extend(cdhash(&signature).ok().map(|hash| (slice.cpu, Hex(hash))));
            }
            Ok(_) | Err(SliceError::Macho(_)) => {}
            Err(SliceError::Io(e)) => return Err(e),
        }
    }
    Ok(found)
}
