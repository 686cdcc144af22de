//! What the started program's loader reads: the libraries to insert, and what another shim is told.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use capgate_registry::profile::{ShimName, Values};

use super::foreign::Other;

/// The variable that inserts libraries.
const INSERT: &str = if cfg!(target_os = "macos") { "DYLD_INSERT_LIBRARIES" } else { "LD_PRELOAD" };
/// What stands between its entries.
const SEPARATORS: &[u8] = if cfg!(target_os = "macos") { b":" } else { b": " };

/// What each known shim reads: its ceiling of Apple families, and its threadgroup memory.
const VARIABLES: [(ShimName, &str, &str); 4] = [
    (ShimName::Lume, "LUME_METAL_APPLE_FAMILY_MAX", "LUME_METAL_MAX_THREADGROUP_MEMORY"),
    (ShimName::Tart, "TART_METAL_APPLE_FAMILY_MAX", "TART_METAL_MAX_THREADGROUP_MEMORY"),
    (ShimName::Anka, "VEERTU_ANKA_GPU_APPLE_FAMILY_MAX", "VEERTU_ANKA_GPU_THREADGROUP_MEMORY_MIN"),
    (ShimName::Lunchpail, "LUNCHPAIL_METAL_APPLE_FAMILY_MAX", "LUNCHPAIL_METAL_MAX_THREADGROUP_MEMORY"),
];

/// Takes every value out that somebody else left for a known shim, and names those that were there.
pub fn remove_stray(command: &mut Command) -> Vec<&'static str> {
    let names = VARIABLES.iter().flat_map(|(_, family, memory)| [*family, *memory]).chain(["CAPGATE_SHIM"]);
    let stray: Vec<&'static str> = names.filter(|name| std::env::var_os(name).is_some()).collect();
    for name in &stray {
        command.env_remove(name);
    }
    stray
}

/// What is set here for a known shim, and libraries of known shims that are inserted.
pub fn active() -> Vec<String> {
    let names = VARIABLES.iter().flat_map(|(_, family, memory)| [*family, *memory]);
    let set = names.filter(|name| std::env::var_os(name).is_some()).map(str::to_owned);
    let inserted = std::env::var_os(INSERT).unwrap_or_default();
    let known = |entry: &OsString| {
        let name = Path::new(entry).file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.contains("MetalCapabilities"))
    };
    let libraries = split(&inserted, SEPARATORS).into_iter().filter(known);
    set.chain(libraries.map(|entry| entry.to_string_lossy().into_owned())).collect()
}

/// The libraries to insert, in order, and variables to set.
#[derive(Debug)]
pub struct Insertion {
    libraries: Vec<PathBuf>,
    variables: Vec<(&'static str, OsString)>,
}

impl Insertion {
    /// capgate's own library, which decides for itself.
    pub fn own(library: PathBuf) -> Self {
        Self { libraries: vec![library], variables: Vec::new() }
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
        let libraries =
            if cfg!(target_os = "macos") { vec![other.library, own] } else { vec![own, other.library] };
        Self { libraries, variables }
    }

    /// Adds it to what others insert. A library of ours that stands there already is not inserted twice.
    pub fn apply(self, command: &mut Command) {
        let inserted = std::env::var_os(INSERT).unwrap_or_default();
        let mut all: Vec<OsString> = split(&inserted, SEPARATORS);
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
