//! What the started program's loader reads: the libraries to insert, and what another shim is told.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use capgate_guest::others;
use capgate_registry::profile::{ShimName, Values};

use super::foreign::Other;

/// The variable that inserts libraries.
pub const INSERT: &str = if cfg!(target_os = "macos") { "DYLD_INSERT_LIBRARIES" } else { "LD_PRELOAD" };
/// What stands between its entries.
const SEPARATORS: &[u8] = if cfg!(target_os = "macos") { b":" } else { b": " };

/// What each known shim reads: its ceiling of Apple families, and its threadgroup memory.
const VARIABLES: [(ShimName, &str, &str); 4] = [
    (ShimName::Lume, "LUME_METAL_APPLE_FAMILY_MAX", "LUME_METAL_MAX_THREADGROUP_MEMORY"),
    (ShimName::Tart, "TART_METAL_APPLE_FAMILY_MAX", "TART_METAL_MAX_THREADGROUP_MEMORY"),
    (ShimName::Anka, "VEERTU_ANKA_GPU_APPLE_FAMILY_MAX", "VEERTU_ANKA_GPU_THREADGROUP_MEMORY_MIN"),
    (ShimName::Lunchpail, "LUNCHPAIL_METAL_APPLE_FAMILY_MAX", "LUNCHPAIL_METAL_MAX_THREADGROUP_MEMORY"),
];

/// Variables that are set although only a decision may set them.
pub fn stray() -> Vec<String> {
    let known = |name: &OsString| others::is_variable(name) || name == "CAPGATE_SHIM";
    let found = std::env::vars_os().map(|(name, _)| name).filter(known);
    found.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// The libraries that somebody inserts already.
pub fn inserted() -> Vec<OsString> {
    split(&std::env::var_os(INSERT).unwrap_or_default(), SEPARATORS)
}

/// Takes every value out that somebody else left for a known shim, and names those that were there.
pub fn remove_stray(command: &mut Command) -> Vec<String> {
    let stray = stray();
    for name in &stray {
        command.env_remove(name);
    }
    stray
}

/// The libraries to insert, in order, and variables to set.
#[derive(Debug)]
pub struct Insertion {
    libraries: Vec<PathBuf>,
    variables: Vec<(&'static str, OsString)>,
    /// The other shim, which asks nobody and logs nothing.
    pub through: Option<PathBuf>,
}

impl Insertion {
    /// capgate's own library, which decides for itself.
    pub fn own(library: PathBuf) -> Self {
        Self { libraries: vec![library], variables: Vec::new(), through: None }
    }

    /// Another shim with the granted values, and capgate's library behind it, which keeps its children clean once the
    /// other one has read them.
    pub fn other(own: PathBuf, other: Other, values: Values) -> Self {
        let mut variables = vec![("CAPGATE_SHIM", other.library.clone().into_os_string())];
        for (_, family, memory) in VARIABLES.iter().filter(|(name, ..)| *name == other.name) {
            variables.push((family, values.apple_family_max.to_string().into()));
            variables.push((memory, values.max_threadgroup_memory.to_string().into()));
        }
        // dyld starts inserted libraries in the order in which they stand, glibc in the opposite one.
        let libraries = if cfg!(target_os = "macos") {
            vec![other.library.clone(), own]
        } else {
            vec![own, other.library.clone()]
        };
        Self { libraries, variables, through: Some(other.library) }
    }

    /// Adds it to what others insert. A library of ours that stands there already is not inserted twice.
    pub fn apply(self, command: &mut Command) {
        let mut all = inserted();
        all.retain(|entry| !self.libraries.iter().any(|library| library == Path::new(entry)));
        all.extend(self.libraries.into_iter().map(PathBuf::into_os_string));
        command.env(INSERT, all.join(OsStr::new(":")));
        for (name, value) in self.variables {
            command.env(name, value);
        }
    }
}

fn split(text: &OsStr, separators: &[u8]) -> Vec<OsString> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let entries = text.as_bytes().split(|byte| separators.contains(byte)).filter(|entry| !entry.is_empty());
    entries.map(|entry| OsString::from_vec(entry.to_vec())).collect()
}
