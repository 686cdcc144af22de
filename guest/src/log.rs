//! Appends to the decision log: a line is there as a whole, or it is not there and nothing is granted.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use capgate_policy::line::Line;

use crate::system;

/// Appends a line in one write to this user's own regular file with one name; made for its owner alone.
pub fn append(path: &Path, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
    text.push(b'\n');
    let careful = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let mut file =
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(careful).open(path)?;
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
    let written = file.write(&text)?;
    if written == text.len() {
        Ok(())
    } else {
        Err(io::Error::other("only a part of the line could be written"))
    }
}
