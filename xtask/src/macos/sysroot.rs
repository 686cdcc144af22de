//! What the linker must know of a Mac's libraries: their names for what is used, never their code.
//!
//! libSystem's list of names is the one that ziglang carries, made from Apple's own: a function that libSystem lacks
//! fails here and not in a process. The few frameworks and libraries of the command line get lists of ours.

use std::fs;
use std::path::{Path, PathBuf};

use super::zig;
use crate::command::scratch;

/// The list of libSystem's names in the package `ziglang`.
const LIST: &str = "lib/libc/darwin/libSystem.tbd";

/// A library that we list ourselves: its path below the root, its install name, and the names that are used.
struct Stub {
    path: &'static str,
    install_name: &'static str,
    symbols: &'static [&'static str],
}

/// rustc's own libc crate names iconv on every Mac; nothing of it is used, and the linker drops it again.
const STUBS: [Stub; 4] = [
    Stub { path: "usr/lib/libiconv.tbd", install_name: "/usr/lib/libiconv.2.dylib", symbols: &[] },
    Stub { path: "usr/lib/libobjc.tbd", install_name: "/usr/lib/libobjc.A.dylib", symbols: &[] },
    Stub {
        path: "System/Library/Frameworks/CoreFoundation.framework/CoreFoundation.tbd",
        install_name: "/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation",
        symbols: &[
            "_CFDataGetBytes",
            "_CFDataGetLength",
            "_CFDataGetTypeID",
            "_CFGetTypeID",
            "_CFRelease",
            "_CFRetain",
            "_CFStringCreateWithBytesNoCopy",
            "_kCFAllocatorDefault",
            "_kCFAllocatorNull",
        ],
    },
    Stub {
        path: "System/Library/Frameworks/IOKit.framework/IOKit.tbd",
        install_name: "/System/Library/Frameworks/IOKit.framework/Versions/A/IOKit",
        symbols: &[
            "_IOIteratorNext",
            "_IOObjectRelease",
            "_IORegistryEntryCreateCFProperty",
            "_IORegistryEntryGetName",
            "_IOServiceGetMatchingServices",
            "_IOServiceMatching",
            "_kIOMasterPortDefault",
        ],
    },
];

/// Where it is.
pub fn root() -> PathBuf {
    scratch().join("macos-sysroot")
}

/// Writes what is missing of it; says what was fetched.
pub fn prepare(verbose: bool) -> Result<String, String> {
    let libraries = root().join("usr/lib");
    let list = libraries.join("libSystem.tbd");
    let said = zig::prepare(verbose)?;
    if !list.is_file() {
        let text = read_list()?;
        // `libc` and `libm` are names of the same library.
        for name in ["libc.tbd", "libm.tbd", "libSystem.tbd"] {
            write(&libraries.join(name), &text)?;
        }
    }
    for stub in &STUBS {
        write(&root().join(stub.path), &stub.text())?;
    }
    Ok(said)
}

fn read_list() -> Result<String, String> {
    let path = zig::file(LIST)?;
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(for_arm64(&text))
}

/// Apple's libraries are arm64e alone, and serve arm64 programs too; this linker wants that said, and does not know the
/// newest of Apple's architectures. A library of the one target has the same names for the other.
fn for_arm64(list: &str) -> String {
    list.replace("arm64e.x1-", "arm64-")
}

impl Stub {
    fn text(&self) -> String {
        let symbols = self.symbols.join(", ");
        format!(
            "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: {}\n\
             exports:\n  - targets: [ arm64-macos ]\n    symbols: [ {symbols} ]\n...\n",
            self.install_name
        )
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let problem = |e: std::io::Error| format!("{}: {e}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(problem)?;
    fs::write(path, text).map_err(problem)
}
