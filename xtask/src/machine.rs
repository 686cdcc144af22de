//! What the tests need on a machine, and how it gets there.

use crate::command::{Run, scratch, target};

/// Something that must be there: how to find out, and the Debian package that brings it.
struct Need {
    what: &'static str,
    probe: &'static [&'static str],
    package: &'static str,
}

const NEEDS: [Need; 7] = [
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
    Need { what: "strace", probe: &["strace", "-V"], package: "strace" },
    Need { what: "a C++ compiler", probe: &["c++", "--version"], package: "g++" },
    Need {
        what: "GNU's Objective-C compiler and runtime",
        probe: &["sh", "-c", "echo | gcc -x objective-c -include objc/runtime.h -fsyntax-only -"],
        package: "gobjc",
    },
];

/// Versions of the schema validator and of the Ed25519 library that are installed.
const PYTHON_PACKAGES: &str = "jsonschema==4.26.0 cryptography==50.0.2";
/// Version of cargo-fuzz that is installed where there is none.
const CARGO_FUZZ: &str = "0.13.2";

impl Need {
    fn is_met(&self) -> bool {
        let mut words = self.probe.iter();
        let program = words.next().copied().unwrap_or_default();
        words.fold(Run::new(program), Run::arg).succeeds()
    }
}

/// Makes sure that everything is there; says what was installed.
pub fn prepare(verbose: bool) -> Result<String, String> {
    let mut done = vec![system(verbose)?];
    done.push(components(verbose)?);
    done.push(python_packages(verbose)?);
    done.push(cargo_fuzz(verbose)?);
    done.retain(|said| !said.is_empty());
    Ok(if done.is_empty() { "nothing was missing".to_owned() } else { done.join("; ") })
}

fn system(verbose: bool) -> Result<String, String> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !need.is_met()).collect();
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
