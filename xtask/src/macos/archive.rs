//! Lays out what goes to a Mac, and packs it so that the same sources give the same bytes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::compile::Built;
use crate::command::{Run, target};

fn name() -> String {
    format!("capgate-{}-macos-arm64", env!("CARGO_PKG_VERSION"))
}

/// The folder of the files themselves.
pub fn unpacked(dist: &Path) -> PathBuf {
    dist.join(name())
}

/// Fills `dist` anew; returns the path of the archive.
pub fn pack(built: &Built, dist: &Path, verbose: bool) -> Result<PathBuf, String> {
    if dist.exists() {
        fs::remove_dir_all(dist).map_err(|e| format!("{}: {e}", dist.display()))?;
    }
    let folder = unpacked(dist);
    let put = |from: &Path, to: &str| {
        let to = folder.join(to);
        fs::create_dir_all(to.parent().unwrap_or(&folder))
            .and_then(|()| fs::copy(from, &to))
            .map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
    };
    put(&built.program, "bin/capgate")?;
    put(&built.library, "lib/libcapgate.dylib")?;
    put(Path::new("include/capgate.h"), "include/capgate.h")?;
    for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
        put(Path::new(license), &format!("share/doc/capgate/{license}"))?;
    }
    Run::new("cargo").args("build --quiet --locked --workspace").output("macos", verbose)?;
    Run::new(target().join("debug/capgate"))
        .arg("man")
        .arg(folder.join("share/man/man1"))
        .output("macos", verbose)?;
    let time = time(verbose)?;
    let script = "set -euo pipefail; umask 022; cd \"$0\"\n\
                  tar --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
                  --mtime=\"@$1\" -cf - \"$2\" | gzip -9n > \"$2.tar.gz\"\n\
                  find \"$2\" \"$2.tar.gz\" -type f | LC_ALL=C sort | xargs -d '\\n' sha256sum > SHA256SUMS";
    Run::new("bash").arg("-c").arg(script).arg(dist).arg(time).arg(name()).output("macos", verbose)?;
    Ok(dist.join(format!("{}.tar.gz", name())))
}

/// Seconds since 1970 that every file is given: the last commit's, unless `SOURCE_DATE_EPOCH` says another.
fn time(verbose: bool) -> Result<String, String> {
    if let Ok(time) = env::var("SOURCE_DATE_EPOCH") {
        return Ok(time);
    }
    Run::new("git").args("log -1 --format=%ct").output("macos", verbose).map(|said| said.trim().to_owned())
}

/// Names the archive and the sizes in it.
pub fn describe(archive: &Path) -> Result<String, String> {
    let size = |path: &Path| {
        let length = fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?.len();
        Ok::<_, String>(length.div_ceil(1024))
    };
    let folder = archive.parent().map(unpacked).unwrap_or_default();
    Ok(format!(
        "{} ({} KiB: library {} KiB, command {} KiB)",
        archive.display(),
        size(archive)?,
        size(&folder.join("lib/libcapgate.dylib"))?,
        size(&folder.join("bin/capgate"))?
    ))
}
