//! What the tests run: the library itself, and the C parts around it, each built once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Everything that was built, in one folder.
pub struct Built {
    /// The library under test.
    pub library: PathBuf,
    /// What a Mac's libSystem would give.
    pub standin: PathBuf,
    /// What Metal would be.
    pub metal: PathBuf,
    /// A program that links Metal.
    pub ask: PathBuf,
    /// The same program, which opens Metal late.
    pub ask_late: PathBuf,
}

/// Builds what is not there, or is older than its source.
pub fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("shim");
        std::fs::create_dir_all(&folder).unwrap();
        let library = library();
        let lock = std::fs::File::create(folder.join(".lock")).unwrap();
        // Tests are processes of their own, and all of them come here at once.
        lock.lock().unwrap();
        let c = |name: &str, sources: &[&str], options: &str| compile(&folder.join(name), sources, options);
        let standin = c("standin.so", &["tests/standin/standin.c"], "-fPIC -shared -Wextra");
        let metal = c(
            "libMetal.so",
            &["tests/metal/Metal.m"],
            "-fPIC -shared -fobjc-exceptions -Wl,-soname,libMetal.so -x objective-c SOURCES -x none -lobjc",
        );
        let link = format!("-Wextra SOURCES -L{0} -lMetal -lpthread -Wl,-rpath,{0}", folder.display());
        let ask = c("ask", &["tests/metal/ask.c"], &link);
        let ask_late = c("ask-late", &["tests/metal/ask.c"], "-Wextra -DLATE SOURCES -lpthread");
        Built { library, standin, metal, ask, ask_late }
    })
}

/// The library, as cargo builds it for development; `CAPGATE_SHIM_LIBRARY` names another build of it.
fn library() -> PathBuf {
    if let Some(path) = std::env::var_os("CAPGATE_SHIM_LIBRARY") {
        return PathBuf::from(path);
    }
    let target = Path::new(env!("CARGO_BIN_EXE_capgate")).parent().unwrap().parent().unwrap();
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "capgate-shim", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success(), "the library does not build");
    target.join("debug/libcapgate.so")
}

/// Compiles C or Objective-C; `SOURCES` in the options stands for the sources.
pub fn compile(output: &Path, sources: &[&str], options: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources: Vec<PathBuf> = sources.iter().map(|source| root.join(source)).collect();
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let headers = [root.join("tests/metal/Metal.h"), root.join("include/capgate.h")];
    let newest = sources.iter().chain(&headers).filter_map(|source| modified(source)).max();
    if modified(output).is_some_and(|made| Some(made) > newest) {
        return output.to_owned();
    }
    let temporary = output.with_extension("new");
    let mut command = Command::new("gcc");
    command.args(["-std=gnu11", "-Wall", "-Werror", "-O1", "-o"]).arg(&temporary).current_dir(root);
    let options = if options.contains("SOURCES") { options.to_owned() } else { format!("{options} SOURCES") };
    for word in options.split_whitespace() {
        match word {
            "SOURCES" => command.args(&sources),
            word => command.arg(word),
        };
    }
    let made = command.output().unwrap_or_else(|e| panic!("gcc: {e}"));
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "gcc with Objective-C is needed (Debian: gcc gobjc):\n{said}");
    std::fs::rename(&temporary, output).unwrap();
    output.to_owned()
}
