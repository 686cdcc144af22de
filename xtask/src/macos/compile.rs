//! Compiles and links for Macs: Debian's Rust, which carries the standard library's sources, and LLVM's linker.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::{sysroot, zig};
use crate::command::Run;

const TARGET: &str = "aarch64-apple-darwin";
/// The oldest macOS that Virtualization.framework's Metal is seen in, and the oldest that is built for.
const OLDEST: &str = "13.0";
/// Where Debian puts its Rust; whatever else is first in `PATH` has no sources to build `std` from.
pub const CARGO: &str = "/usr/bin/cargo";
pub const RUSTC: &str = "/usr/bin/rustc";
pub const RUST_SOURCES: &str = "/usr/lib/rustlib/src/rust";
pub const LINKER: &str = "ld64.lld-22";

/// What was built.
pub struct Built {
    pub library: PathBuf,
    pub program: PathBuf,
}

/// Builds the workspace that stands at `sources`; cargo keeps what it makes in `target`.
pub fn compile(sources: &Path, target: &Path, verbose: bool) -> Result<Built, String> {
    sysroot::prepare(verbose)?;
    let absolute = |path: &Path| fs::canonicalize(path).map_err(|e| format!("{}: {e}", path.display()));
    let sources = absolute(sources)?;
    fs::create_dir_all(target).map_err(|e| format!("{}: {e}", target.display()))?;
    let target = absolute(target)?;
    let root = absolute(&sysroot::root())?;
    let zig = zig::programs(OLDEST)?;
    let cargo = |what: &str, rest: &[&str]| {
        let mut run = Run::new(CARGO)
            .arg("rustc")
            .arg("--manifest-path")
            .arg(sources.join("Cargo.toml"))
            .args("--locked --profile macos -Zbuild-std=std,panic_unwind")
            // Without `backtrace`: a tenth of the library, and nothing of it could ever be shown.
            .args("-Zbuild-std-features=panic-unwind --target")
            .arg(TARGET)
            .args(what);
        for arg in rest {
            run = run.arg(arg);
        }
        let path = |path: &Path| path.to_string_lossy().into_owned();
        run.env("CARGO_TARGET_DIR", &path(&target))
            .env("CARGO_ENCODED_RUSTFLAGS", &flags(&sources)?.join("\u{1f}"))
            .env("RUSTC", RUSTC)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("MACOSX_DEPLOYMENT_TARGET", OLDEST)
            .env("SDKROOT", &path(&root))
            .env("CC_aarch64_apple_darwin", &path(&zig.compiler))
            .env("AR_aarch64_apple_darwin", &path(&zig.archiver))
            .env(
                "CFLAGS_aarch64_apple_darwin",
                &format!("-ffile-prefix-map={}=crates", registry()?.display()),
            )
            // `cargo xtask` points it at another Rust's libraries.
            .env("LD_LIBRARY_PATH", "")
            .output("macos", verbose)
    };
    let name = ["--", "-Clink-arg=-install_name", "-Clink-arg=@rpath/libcapgate.dylib"];
    cargo("--package capgate-shim --lib --crate-type cdylib", &name)?;
    cargo("--package capgate --bin capgate", &[])?;
    let folder = target.join(TARGET).join("macos");
    Ok(Built { library: folder.join("libcapgate.dylib"), program: folder.join("capgate") })
}

fn flags(sources: &Path) -> Result<Vec<String>, String> {
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    Ok(vec![
        "-Zunstable-options".to_owned(),
        format!("-Clinker={LINKER}"),
        "-Clinker-flavor=ld64.lld".to_owned(),
        "-Clink-arg=-dead_strip_dylibs".to_owned(),
        // Neither debug nor local symbols.
        "-Clink-arg=-S".to_owned(),
        "-Clink-arg=-x".to_owned(),
        // The last that fits wins, so the more special ones come later.
        remap(Path::new(RUST_SOURCES), "rust"),
        remap(&registry()?, "crates"),
        remap(sources, "capgate"),
    ])
}

/// Where cargo keeps the sources of crates.
fn registry() -> Result<PathBuf, String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    Ok(home.ok_or("neither CARGO_HOME nor HOME is set")?.join("registry/src"))
}
