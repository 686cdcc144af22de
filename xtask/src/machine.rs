//! What the tests need on a machine, and how it gets there.

use crate::command::{Run, scratch, target};

/// Something that must be there: how to find out, and the Debian package that brings it.
struct Need {
    what: &'static str,
    probe: &'static [&'static str],
    package: &'static str,
}

const NEEDS: [Need; 11] = [
    Need { what: "git", probe: &["git", "--version"], package: "git" },
    Need {
        what: "python3.11 or newer with venv",
        probe: &["python3", "-c", "import ensurepip, venv, tomllib"],
        package: "python3-venv",
    },
    Need { what: "Go", probe: &["go", "version"], package: "golang-go" },
    Need {
        what: "Go's note and tlog packages",
        probe: &["test", "-d", "/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog"],
        package: "golang-golang-x-mod-dev",
    },
    Need {
        what: "OpenSSH's agent and key tools",
        // The agent ends with the command that it is given.
        probe: &["ssh-agent", "sh", "-c", "command -v ssh-add && command -v ssh-keygen"],
        package: "openssh-client",
    },
    Need { what: "openssl", probe: &["openssl", "version"], package: "openssl" },
    Need { what: "strace", probe: &["strace", "-V"], package: "strace" },
    Need { what: "a C++ compiler", probe: &["c++", "--version"], package: "g++" },
    Need { what: "nginx", probe: &["/usr/sbin/nginx", "-v"], package: "nginx-light" },
    Need { what: "npm", probe: &["npm", "--version"], package: "npm" },
    Need {
        what: "GNU's Objective-C compiler and runtime",
        probe: &["sh", "-c", "echo | gcc -x objective-c -include objc/runtime.h -fsyntax-only -"],
        package: "gobjc",
    },
];

/// What builds for Macs needs beyond that. Debian's Rust comes with the sources of its standard library.
const MACOS_NEEDS: [Need; 3] = [
    Need { what: "Debian's Rust 1.96", probe: &["/usr/bin/cargo", "--version"], package: "cargo-web" },
    Need {
        what: "the sources of its standard library",
        probe: &["test", "-d", "/usr/lib/rustlib/src/rust/library/std"],
        package: "rust-web-src",
    },
    Need { what: "LLVM's linker", probe: &["ld64.lld-22", "--version"], package: "lld-22" },
];

/// Versions of the schema validator and of the Ed25519 library that are installed.
const PYTHON_PACKAGES: &str = "jsonschema==4.26.0 cryptography==50.0.2";
/// Version of cargo-fuzz that is installed where there is none.
const CARGO_FUZZ: &str = "0.13.2";
/// Version of the S3 server that buckets are tested with.
const S3S_FS: &str = "0.14.1";

impl Need {
    fn is_met(&self) -> bool {
        let mut words = self.probe.iter();
        let program = words.next().copied().unwrap_or_default();
        words.fold(Run::new(program), Run::arg).succeeds()
    }
}

/// Makes sure that everything is there; says what was installed.
pub fn prepare(verbose: bool) -> Result<String, String> {
    let done = vec![
        system(&NEEDS, verbose)?,
        components(verbose)?,
        python_packages(verbose)?,
        macos_packages(verbose)?,
        cargo_fuzz(verbose)?,
    ];
    Ok(told(done))
}

/// Makes sure that everything is there to build for Macs, and to run what was built; says what was installed.
pub fn prepare_macos(verbose: bool) -> Result<String, String> {
    let python = |need: &&Need| need.package == "python3-venv";
    let python = NEEDS.iter().find(python).map_or(&[][..], std::slice::from_ref);
    let done = vec![system(python, verbose)?, macos_packages(verbose)?];
    Ok(told(done))
}

fn told(mut done: Vec<String>) -> String {
    done.retain(|said| !said.is_empty());
    if done.is_empty() { "nothing was missing".to_owned() } else { done.join("; ") }
}

fn macos_packages(verbose: bool) -> Result<String, String> {
    let done = [system(&MACOS_NEEDS, verbose)?, emulator(verbose)?, crate::macos::prepare(verbose)?];
    let said: Vec<&str> = done.iter().map(String::as_str).filter(|said| !said.is_empty()).collect();
    Ok(said.join("; "))
}

/// The packages of tests/macos, in the same virtual environment.
fn emulator(verbose: bool) -> Result<String, String> {
    const LIST: &str = "tests/macos/requirements.txt";
    if Run::new(python()).arg("-c").arg("import lief, unicorn").succeeds() {
        return Ok(String::new());
    }
    if !python().is_file() {
        Run::new("python3").args("-m venv").arg(scratch().join("venv")).output("machine", verbose)?;
    }
    Run::new(python())
        .args("-m pip install --quiet --disable-pip-version-check -r")
        .arg(LIST)
        .output("machine", verbose)?;
    Ok(format!("installed what {LIST} names in a virtual environment"))
}

fn system(needs: &[Need], verbose: bool) -> Result<String, String> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !need.is_met()).collect();
    if missing.is_empty() {
        return Ok(String::new());
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let packages = packages.join(" ");
    let names: Vec<&str> = missing.iter().map(|need| need.what).collect();
    let names = names.join(", ");
    let Some(sudo) = may_install() else {
        return Err(format!(
            "this machine lacks {names}; install it and try again:\n    sudo apt-get update && sudo apt-get install -y {packages}"
        ));
    };
    let apt = |line: &str| {
        let run = if sudo { Run::new("sudo").args("-n env") } else { Run::new("env") };
        run.args("DEBIAN_FRONTEND=noninteractive apt-get").args(line).output("machine", verbose)
    };
    apt("update")?;
    apt(&format!("install -y --no-install-recommends {packages}"))?;
    let still: Vec<&str> = missing.iter().filter(|need| !need.is_met()).map(|need| need.what).collect();
    if still.is_empty() {
        Ok(format!("installed {packages}"))
    } else {
        Err(format!("{} is still missing after `apt-get install {packages}`", still.join(", ")))
    }
}

/// Tells whether apt-get needs sudo; `None` where this user may not use it, or there is none.
fn may_install() -> Option<bool> {
    if !Run::new("apt-get").arg("--version").succeeds() {
        return None;
    }
    if Run::new("sh").arg("-c").arg("test \"$(id -u)\" = 0").succeeds() {
        return Some(false);
    }
    Run::new("sudo").args("-n true").succeeds().then_some(true)
}

fn components(verbose: bool) -> Result<String, String> {
    if Run::new("cargo").args("clippy --version").succeeds()
        && Run::new("cargo").args("fmt --version").succeeds()
    {
        return Ok(String::new());
    }
    Run::new("rustup").args("component add clippy rustfmt").output("machine", verbose)?;
    Ok("installed clippy and rustfmt".to_owned())
}

/// The python of a virtual environment under the target folder.
pub fn python() -> std::path::PathBuf {
    scratch().join("venv/bin/python")
}

fn python_packages(verbose: bool) -> Result<String, String> {
    let check = || Run::new(python()).arg("-c").arg("import jsonschema, cryptography").succeeds();
    if check() {
        return Ok(String::new());
    }
    Run::new("python3").args("-m venv --clear").arg(scratch().join("venv")).output("machine", verbose)?;
    Run::new(python())
        .args("-m pip install --quiet --disable-pip-version-check")
        .args(PYTHON_PACKAGES)
        .output("machine", verbose)?;
    Ok(format!("installed {PYTHON_PACKAGES} in a virtual environment"))
}

/// Where tools that cargo installs for the tests go.
pub fn tools() -> std::path::PathBuf {
    target().join("gate/tools")
}

fn cargo_fuzz(verbose: bool) -> Result<String, String> {
    if crate::fuzz::cargo().args("fuzz --version").succeeds() {
        return Ok(String::new());
    }
    Run::new("cargo")
        .args(&format!("install cargo-fuzz --locked --version {CARGO_FUZZ} --root"))
        .arg(tools())
        .output("machine", verbose)?;
    Ok(format!("installed cargo-fuzz {CARGO_FUZZ}"))
}

/// The S3 server that buckets are tested with; installed where there is none.
pub fn s3s_fs(verbose: bool) -> Result<std::path::PathBuf, String> {
    let program = tools().join("bin/s3s-fs");
    if !Run::new(&program).arg("--version").succeeds() {
        // It is built once and serves some thousand requests: quickly made is better than quick.
        Run::new("cargo")
            .args(&format!("install s3s-fs --debug --locked --version {S3S_FS} --features binary --root"))
            .arg(tools())
            .output("machine", verbose)?;
    }
    std::fs::canonicalize(&program).map_err(|e| format!("{}: {e}", program.display()))
}
