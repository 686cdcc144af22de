//! A C compiler for Macs: zig's, from PyPI's `ziglang`. The command's TLS library (ring) has a few files of C and assembler.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::command::{Run, scratch};
use crate::machine;

const ZIGLANG: &str = "ziglang==0.17.1";
/// Where the package lies, for Python to say.
const WHERE: &str = "import os, ziglang; print(os.path.dirname(ziglang.__file__))";

/// Compiler and archiver, as the crate `cc` calls them.
pub struct Zig {
    pub compiler: PathBuf,
    pub archiver: PathBuf,
}

/// Installs the package in the virtual environment where it is missing; says so.
pub fn prepare(verbose: bool) -> Result<String, String> {
    if Run::new(machine::python()).arg("-c").arg(WHERE).succeeds() {
        return Ok(String::new());
    }
    Run::new(machine::python())
        .args("-m pip install --quiet --disable-pip-version-check --only-binary :all:")
        .arg(ZIGLANG)
        .output("machine", verbose)?;
    Ok(format!("installed {ZIGLANG} in a virtual environment"))
}

/// A file of the package.
pub fn file(path: &str) -> Result<PathBuf, String> {
    let said = Run::new(machine::python()).arg("-c").arg(WHERE).output("machine", false)?;
    Ok(Path::new(said.trim()).join(path))
}

/// Writes the two programs, for that oldest macOS.
pub fn programs(oldest: &str) -> Result<Zig, String> {
    let folder = scratch().join("macos-zig");
    let absolute = |path: &Path| std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()));
    let zig = absolute(&file("zig")?)?;
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let cache = absolute(&folder.join("cache"))?;
    let head =
        format!("#!/bin/sh\nexport ZIG_GLOBAL_CACHE_DIR='{0}' ZIG_LOCAL_CACHE_DIR='{0}'\n", cache.display());
    // `cc` says the target as Apple's compiler takes it; zig says it in one word, and has the headers itself.
    let compile = format!(
        "{head}skip=\nfor word do\n  shift\n  if [ \"$skip\" ]; then skip=; continue; fi\n  case \"$word\" in\n    \
         -arch|-isysroot) skip=1 ;;\n    --target=*|-mmacosx-version-min=*) ;;\n    *) set -- \"$@\" \"$word\" ;;\n  esac\n\
         done\nexec '{}' cc -target aarch64-macos.{oldest} -fno-sanitize=all \"$@\"\n",
        zig.display()
    );
    let archive = format!("{head}exec '{}' ar \"$@\"\n", zig.display());
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let done = fs::write(&path, text).and_then(|()| {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            fs::canonicalize(&path)
        });
        done.map_err(|e| format!("{}: {e}", path.display()))
    };
    Ok(Zig { compiler: write("clang", &compile)?, archiver: write("ar", &archive)? })
}
