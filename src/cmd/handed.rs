//! Files that go from one key holder to the next until enough have signed: written, and how far they are.

use std::fmt::Write;
use std::path::Path;

use capgate_registry::trust::Role;

use crate::exit::Failure;
use crate::world::place::Place;

/// Writes such a file in place of the one before it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::failed(format!("`{}` cannot be written: {e}", path.display()));
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or_else(|| failed(std::io::Error::other("has no name")))?;
    Place::open(folder).and_then(|place| place.replace(name, bytes, 0o644)).map_err(failed)
}

/// `2 of 3 (alice, bob)`: who signed, and how many must.
pub fn progress(signers: &[String], role: &Role) -> String {
    let mut text = format!("{} of {}", signers.len(), role.threshold);
    if !signers.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(text, " ({})", signers.join(", "));
    }
    text
}

/// The keys that have not signed, by name, in backticks.
pub fn missing(signers: &[String], role: &Role) -> Vec<String> {
    let waits = role.keys.iter().filter(|key| !signers.iter().any(|name| name == key.name()));
    waits.map(|key| format!("`{}`", key.name())).collect()
}
