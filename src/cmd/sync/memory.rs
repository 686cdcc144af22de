//! `seen`: the newest state that was ever verified here, so that nobody can turn time back.

use std::io;
use std::path::Path;

use capgate_guest::prefix::Prefix;
use capgate_registry::document::{Problem, position};
use capgate_registry::reader::Seen;
use capgate_registry::seen::MAX_BYTES;

use crate::cmd::prefix;
use crate::exit::Failure;
use crate::world::file;
use crate::world::place::Place;

/// Its name in a prefix.
pub const NAME: &str = "seen";
/// Its name in a copy, of which it is no part.
pub const HIDDEN: &str = ".seen";

/// Of a prefix.
pub fn of_prefix(prefix: &Prefix) -> Result<Seen, Failure> {
    match prefix.read(NAME, MAX_BYTES as u64) {
        Ok(bytes) => parse(&prefix.state(NAME), &bytes),
        Err(e) if e.missing => Ok(Seen::default()),
        Err(e) => Err(prefix::unusable(&e)),
    }
}

/// Of a copy.
pub fn of_folder(folder: &Path) -> Result<Seen, Failure> {
    of_file(&folder.join(HIDDEN))
}

/// Of a file, which there may not be yet.
pub fn of_file(path: &Path) -> Result<Seen, Failure> {
    match file::read_shared(path, MAX_BYTES as u64) {
        Ok(bytes) => parse(path, &bytes),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Seen::default()),
        Err(e) => Err(Failure::failed(format!("`{}` cannot be read: {e}", path.display()))),
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Seen, Failure> {
    Seen::parse(bytes).map_err(|problems: Vec<Problem>| {
        let what = problems.first().map_or_else(String::new, |problem| {
            format!("line {}: {}", position(bytes, problem.span.start).0, problem.message)
        });
        Failure::invalid(format!("`{}` is malformed: {what}", path.display()))
            .help("it says what was verified here before; remove it only if you know why it is damaged")
    })
}

/// Puts it in place of the one before.
pub fn write(path: &Path, seen: &Seen) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::failed(format!("`{}` cannot be written: {e}", path.display()));
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(io::Error::other("has no name")));
    };
    Place::open(folder)
        .and_then(|place| place.replace(name, seen.to_toml().as_bytes(), 0o644))
        .map_err(failed)
}
