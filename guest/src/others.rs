//! What other shims are called and read, so that neither reaches a process or its children unasked.

use std::ffi::OsStr;
use std::path::Path;

/// How the variables of known shims begin: ceilings, memory, working sets, and whatever comes next.
const VARIABLES: [&str; 4] = ["LUME_METAL_", "TART_METAL_", "VEERTU_ANKA_GPU_", "LUNCHPAIL_METAL_"];

/// How the file names of their libraries begin, in lower case and without `lib`.
const LIBRARIES: [&str; 6] = [
    "lumemetalcapabilities",
    "tartmetalcapabilities",
    "ankametalcapabilities",
    "ankagpufamilyboost",
    "lunchpailmetalcapabilities",
    "lunchpailmetalshim",
];

/// Tells whether a variable is one that a known shim reads.
pub fn is_variable(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    VARIABLES.iter().any(|start| name.starts_with(start))
}

/// Tells whether a library is a known shim's, by its file name.
pub fn is_library(path: &OsStr) -> bool {
    let name = Path::new(path).file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
    name.is_some_and(|name| {
        let name = name.strip_prefix("lib").unwrap_or(&name);
        LIBRARIES.iter().any(|start| name.starts_with(start))
    })
}

/// Where Apple's own images are: read-only, and sealed with the system whose build the combination names.
const SYSTEM: [&str; 6] = [
    "/usr/lib",
    "/System/Library",
    "/System/iOSSupport",
    "/System/DriverKit",
    "/System/Cryptexes",
    "/System/Volumes/Preboot/Cryptexes",
];

/// Tells whether an image is Apple's own, by a path without detours. `/System/Volumes/Data` is everybody's.
pub fn is_systems(path: &Path) -> bool {
    let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    plain && SYSTEM.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shims_are_known_by_their_real_names() {
        for name in [
            "/opt/LumeMetalCapabilities-arm64.dylib",
            "libAnkaGpuFamilyBoost-arm64.dylib",
            "/x/libLunchpailMetalShim.dylib",
            "libTartMetalCapabilities.dylib",
        ] {
            assert!(is_library(OsStr::new(name)), "{name}");
        }
        assert!(!is_library(OsStr::new("/opt/lume/libother.dylib")));
        for name in ["LUME_METAL_RECOMMENDED_WORKING_SET_SIZE", "VEERTU_ANKA_GPU_WORKING_SET_MIN"] {
            assert!(is_variable(OsStr::new(name)), "{name}");
        }
        assert!(!is_variable(OsStr::new("LUME_OTHER")));
    }

    #[test]
    fn attack_a_path_that_only_begins_as_the_systems_is_not() {
        assert!(is_systems(Path::new("/System/Library/Frameworks/Metal.framework/Metal")));
        assert!(is_systems(Path::new("/usr/lib/libSystem.B.dylib")));
        for path in [
            "/System/Volumes/Data/Users/me/x.dylib",
            "/usr/lib/../../Users/me/x.dylib",
            "/System/Library/../../Users/me/x.dylib",
            "/usr/library/x.dylib",
            "/Users/me/x.dylib",
        ] {
            assert!(!is_systems(Path::new(path)), "{path}");
        }
    }
}
