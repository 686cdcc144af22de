//! Which program it is: by the kernel's hash of the running one, and by the bytes of its file.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use capgate_macho::{Commands, Cpu, MAX_SIGNATURE, MachoError, Slice, cdhash, header_length, slices};
use capgate_policy::facts::{Fact, Program, Sha256Trust};
use capgate_registry::combination::{CdHash, Hex, Sha256Digest};
use sha2::{Digest, Sha256};

use crate::system;

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
    of_program_watched(path, &mut |_| {})
}

/// The same; `progress` is told the bytes hashed so far.
pub fn of_program_watched(path: &Path, progress: &mut dyn FnMut(u64)) -> io::Result<Program> {
    let file = read_whole(path, progress)?;
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
    read_whole(path, &mut |_| {})
}

fn read_whole(path: &Path, progress: &mut dyn FnMut(u64)) -> io::Result<FileIdentity> {
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
    let start = read(file, 0, size.min(4096))?;
    let Ok(slices) = slices(&start, size) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for slice in slices {
        let signature = slice_parts(file, &slice)?.ok().and_then(|(_, signature)| signature);
        if let Some(Ok(hash)) = signature.map(|signature| cdhash(&signature)) {
            found.push((slice.cpu, Hex(hash)));
        }
    }
    Ok(found)
}

/// Load commands of a slice, and the bytes of its signature where it has one.
pub type Parts = (Commands, Option<Vec<u8>>);

/// Each slice of a Mach-O file with what it holds, or why it is none.
pub fn parts_of_file(path: &Path) -> io::Result<Result<Vec<(Slice, Parts)>, MachoError>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let found = match slices(&read(&file, 0, metadata.len().min(4096))?, metadata.len()) {
        Ok(found) => found,
        Err(e) => return Ok(Err(e)),
    };
    let mut all = Vec::new();
    for slice in found {
        match slice_parts(&file, &slice)? {
            Ok(parts) => all.push((slice, parts)),
            Err(e) => return Ok(Err(e)),
        }
    }
    Ok(Ok(all))
}

fn slice_parts(file: &File, slice: &Slice) -> io::Result<Result<Parts, MachoError>> {
    let within = |offset: u64, length: u64| offset.checked_add(length).is_some_and(|end| end <= slice.size);
    let length = match header_length(&read(file, slice.offset, slice.size.min(32))?) {
        Ok(length) if within(0, length as u64) => length as u64,
        Ok(_) => return Ok(Err(MachoError::Truncated("the load commands"))),
        Err(e) => return Ok(Err(e)),
    };
    let commands = match Commands::parse(&read(file, slice.offset, length)?) {
        Ok(commands) => commands,
        Err(e) => return Ok(Err(e)),
    };
    let Some(range) = commands.signature else { return Ok(Ok((commands, None))) };
    if range.size > MAX_SIGNATURE || !within(range.offset.into(), range.size.into()) {
        return Ok(Err(MachoError::Truncated("the code signature")));
    }
    let signature = read(file, slice.offset + u64::from(range.offset), range.size.into())?;
    Ok(Ok((commands, Some(signature))))
}

fn read(file: &File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
