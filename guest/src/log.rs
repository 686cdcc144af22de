//! Appends to the decision log: a line is there as a whole, or nothing is granted.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use capgate_policy::line::Line;

use crate::system;

/// Appends a line in one write to this user's own regular file with one name; made for its owner alone.
pub fn append(path: &Path, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
    text.push(b'\n');
    let careful = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(careful)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    if metadata.nlink() != 1 {
        return Err(io::Error::other("has more than one name"));
    }
    if metadata.uid() != system::user() {
        return Err(io::Error::other(format!("belongs to user {}, not to this one", metadata.uid())));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("can be written by others"));
    }
    // Whoever stopped within a line must not take this one with it.
    let mut last = [b'\n'];
    if metadata.len() > 0 {
        file.read_exact_at(&mut last, metadata.len() - 1)?;
    }
    if last != *b"\n" {
        text.insert(0, b'\n');
    }
    let written = system::unsignalled(|| file.write(&text))?;
    if written == text.len() {
        return Ok(());
    }
    // The next line begins on its own, if only one more byte fits.
    let _ = system::unsignalled(|| file.write(b"\n"));
    Err(io::Error::other("only a part of the line could be written"))
}
