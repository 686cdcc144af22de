//! Whole files that people name: read with a cap, written without ever replacing anything.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

/// Flags under which opening neither follows a link nor waits for the other end of a pipe.
pub(crate) fn careful() -> i32 {
    i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits()).unwrap_or(0)
}

/// Reads a regular file of at most `cap` bytes. Links that the user names are followed.
pub fn read(path: &Path, cap: u64) -> io::Result<Vec<u8>> {
    read_open(open_regular(path)?, cap)
}

/// The same for a file that others may have put there: no link at its end is followed.
pub fn read_shared(path: &Path, cap: u64) -> io::Result<Vec<u8>> {
    let opened = OpenOptions::new().read(true).custom_flags(careful()).open(path);
    let file = opened.map_err(|e| if path.is_symlink() { io::Error::other("is a link") } else { e })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    read_open(file, cap)
}

/// Opens a regular file; anything else, a pipe for example, is an error and is not waited for.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::CLOEXEC).bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("is not a regular file")) }
}

/// Reads at most `cap` bytes; more are an error.
pub(crate) fn read_open(file: File, cap: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(cap.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > cap {
        return Err(io::Error::other(format!("has more than the {cap} bytes that are accepted")));
    }
    Ok(bytes)
}

/// Files of a folder with that extension, sorted; none where it cannot be read.
pub fn in_folder(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    paths.sort();
    paths
}

/// Makes a file that did not exist, with that mode, and sees that it survives a crash.
pub fn create_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// SHA-256 of a file of any size; `progress` is told the bytes read so far.
pub fn sha256(path: &Path, progress: &mut dyn FnMut(u64)) -> io::Result<[u8; 32]> {
    let mut file = open_regular(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0u8; 1 << 20];
    let mut total = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
        total += count as u64;
        progress(total);
    }
}

/// Random bytes from the operating system.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).map_err(|e| io::Error::other(e.to_string()))?;
    Ok(bytes)
}
