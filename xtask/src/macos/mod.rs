//! `cargo xtask macos`: the library and the command line for Macs, made on Linux, and what the tests do with them.

mod archive;
mod compile;
mod sysroot;
mod zig;

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Run, target};
use crate::machine;

/// Where the result goes; git ignores it.
const DIST: &str = "dist";

/// Brings what the linker must know; says what was fetched.
pub fn prepare(verbose: bool) -> Result<String, String> {
    sysroot::prepare(verbose)
}

/// Builds everything into `dist/` and says what is there.
pub fn build(options: &[&str]) -> Result<String, String> {
    let verbose = match options {
        [] => false,
        ["--verbose"] => true,
        _ => return Err("usage: cargo xtask macos [--verbose]".to_owned()),
    };
    let installed = machine::prepare_macos(verbose)?;
    let made = dist(verbose)?;
    Ok(format!("{}; {installed}", archive::describe(&made)?))
}

fn dist(verbose: bool) -> Result<PathBuf, String> {
    let built = compile::compile(Path::new("."), &target().join("macos"), verbose)?;
    archive::pack(&built, Path::new(DIST), verbose)
}

/// The step `macos`: built twice, in two folders with two names, and read back.
pub fn twice_and_read_back(verbose: bool) -> Result<String, String> {
    machine::prepare_macos(verbose)?;
    let folder = target().join("macos-again");
    let sources = folder.join("built elsewhere");
    copy_sources(&sources, verbose)?;
    let first = dist(verbose)?;
    let again = archive::pack(&compile::compile(&sources, &folder, verbose)?, &folder.join(DIST), verbose)?;
    let read = |path: &Path| fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
    if read(&first)? != read(&again)? {
        return Err(format!("{} and {} differ", first.display(), again.display()));
    }
    let said = Run::new(machine::python())
        .arg("tests/macos/read_back.py")
        .arg(archive::unpacked(Path::new(DIST)))
        .output("macos", verbose)?;
    Ok(format!("twice the same bytes; {}", said.trim()))
}

/// The step `macos-run`: the library executed by an emulated processor.
pub fn execute(verbose: bool) -> Result<String, String> {
    machine::prepare_macos(verbose)?;
    dist(verbose)?;
    let folder = archive::unpacked(Path::new(DIST));
    let line = "build --locked --quiet --workspace --example guest-state";
    Run::new("cargo").args(line).output("macos-run", verbose)?;
    let said = Run::new(machine::python())
        .arg("tests/macos/run.py")
        .arg(folder.join("lib/libcapgate.dylib"))
        .arg(folder.join("bin/capgate"))
        .arg(target().join("debug/examples/guest-state"))
        .output("macos-run", verbose)?;
    let last = said.lines().rev().find(|line| line.contains(" cases"));
    last.map(str::to_owned).ok_or_else(|| format!("the harness never said how many cases it ran:\n{said}"))
}

/// Everything that git would take along, at another path: no path of the build may show in its result.
fn copy_sources(to: &Path, verbose: bool) -> Result<(), String> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    fs::create_dir_all(to).map_err(|e| format!("{}: {e}", to.display()))?;
    let script = "git ls-files -z --cached --others --exclude-standard \
                  | while IFS= read -r -d '' f; do [ -e \"$f\" ] && printf '%s\\0' \"$f\"; done \
                  | tar --null -T - -cf - | tar -C \"$0\" -xf -";
    Run::new("bash").arg("-c").arg(script).arg(to).output("macos", verbose).map(drop)
}
