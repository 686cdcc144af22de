//! The program: what runs in the end, whether a library can be inserted, and what a profile of it must hold.

use std::path::{Path, PathBuf};

use capgate_guest::binary::Binary;
use capgate_guest::identity::{self, Parts};
use capgate_macho::{Cpu, MachoError, Signature, Slice};
use capgate_registry::combination::Hex;
use serde::Serialize;

use super::check::Check;
use super::images::{self, MetalImage};
use super::inject;
use crate::cmd::run::program::Program;
use crate::exit::Failure;

/// What the files of a program say.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// The file whose code runs in the end.
    pub program: PathBuf,
    /// Its SHA-256.
    pub sha256: String,
    /// The cdhash of the slice that runs.
    pub cdhash: Option<String>,
    /// The processor that it runs on.
    pub slice: Option<String>,
    /// The images that link Metal, ready for a profile.
    pub images: Vec<MetalImage>,
}

/// Looks at a program and everything it links.
pub fn look(program: &Program, library: Option<&Path>, checks: &mut Vec<Check>) -> Result<Findings, Failure> {
    let path = real(&program.identified);
    let shown = path.display();
    let file = identity::of_file(&path).map_err(|e| Failure::failed(format!("`{shown}` {e}")))?;
    on_the_way(program, &path, checks);
    let mut findings = Findings {
        program: path.clone(),
        sha256: file.sha256.to_string(),
        cdhash: None,
        slice: None,
        images: Vec::new(),
    };
    let binary = Binary::of_file(&path).map_err(|e| Failure::failed(format!("`{shown}` {e}")))?;
    if let Binary::Elf(_) = binary {
        checks.push(elf(&path));
    } else {
        macho(&path, checks, &mut findings)?;
    }
    match library.map(|library| program.can_load(library)) {
        None => {}
        Some(Ok(())) => checks.push(Check::ok("library", "capgate's library has the code that it needs")),
        Some(Err(why)) => {
            let fix =
                "none for this build: the loader would end the program, so `capgate run` does not insert it";
            checks.push(Check::failed("library", why, fix));
        }
    }
    let children = "children stay stock: the library takes itself out of what they inherit";
    checks.push(Check::ok("children", children));
    Ok(findings)
}

fn macho(path: &Path, checks: &mut Vec<Check>, findings: &mut Findings) -> Result<(), Failure> {
    let malformed = |e: MachoError| {
        Failure::invalid(format!("`{}` {e}", path.display())).help("get it again from where it is published")
    };
    let read = identity::parts_of_file(path);
    let slices =
        read.map_err(|e| Failure::failed(format!("`{}` {e}", path.display())))?.map_err(malformed)?;
    let Some((slice, (commands, signature))) = running(&slices) else {
        let found: Vec<String> = slices.iter().map(|(slice, _)| slice.cpu.to_string()).collect();
        let text = format!("it has code for {} only", found.join(", "));
        checks.push(Check::failed("slice", text, "none: use a build for Apple's chips"));
        return Ok(());
    };
    findings.slice = Some(slice.cpu.to_string());
    checks.push(Check::ok("slice", format!("runs as {}; an inserted library needs the same", slice.cpu)));
    let signature = signature.as_deref().map(Signature::parse).transpose().map_err(malformed)?;
    findings.cdhash = signature.as_ref().map(|signature| Hex(signature.cdhash).to_string());
    checks.push(inject::check(path, commands, signature.as_ref()));
    let found = images::of(path, commands, slice.cpu);
    checks.push(match (found.malformed.as_slice(), found.missing.as_slice()) {
        ([], []) => {
            let metal = found.metal.len();
            Check::ok("images", format!("{} of {} images that it links use Metal", metal, found.count))
        }
        ([], missing) => Check::warning(
            "images",
            format!("not found here: {}", missing.join(", ")),
            "look at the program where it is installed with everything that it links",
        ),
        (malformed, _) => {
            Check::failed("images", malformed.join("; "), "install the program again: it would not start")
        }
    });
    if !found.metal.is_empty() || commands.links_metal() {
        checks.push(Check::ok(
            "late images",
            "what it opens later, such as backends, must be in a profile too",
        ));
    }
    findings.images = found.metal;
    Ok(())
}

/// The slice that a Mac with Apple's chip runs.
pub fn running(slices: &[(Slice, Parts)]) -> Option<&(Slice, Parts)> {
    [Cpu::Arm64, Cpu::Arm64e, Cpu::X86_64]
        .into_iter()
        .find_map(|cpu| slices.iter().find(|(slice, _)| slice.cpu == cpu))
}

/// The program behind a launcher that is known to start another one as its child.
fn real(path: &Path) -> PathBuf {
    // Framework builds of Python: `Versions/3.12/bin/python3.12` starts the program inside `Python.app`.
    let resolved = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = resolved.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "bin"));
    let app = folder
        .and_then(Path::parent)
        .map(|version| version.join("Resources/Python.app/Contents/MacOS/Python"));
    app.filter(|app| app.is_file()).unwrap_or(resolved)
}

/// Files that are started before the program: some take the variable away, some start it as a child.
fn on_the_way(program: &Program, path: &Path, checks: &mut Vec<Check>) {
    for (file, binary) in program.before() {
        if let Binary::MachO(_) = binary {
            let text =
                format!("`{}` starts it, and the system takes inserted libraries away there", file.display());
            let fix = format!("start `{}` itself, with the script as its first argument", path.display());
            checks.push(Check::failed("launcher", text, fix));
        } else {
            checks.push(Check::ok(
                "launcher",
                format!("`{}` is a script; `{}` is the program", file.display(), path.display()),
            ));
        }
    }
    let started = program.identified.canonicalize().unwrap_or_else(|_| program.identified.clone());
    if started != path {
        let text =
            format!("`{}` starts `{}` as its child, which stays stock", started.display(), path.display());
        checks.push(Check::failed("launcher", text, format!("start `{}` itself", path.display())));
    }
}

/// What can be said of a program for Linux, where the same loader variable has another name.
fn elf(path: &Path) -> Check {
    use std::os::unix::fs::PermissionsExt;
    let mode = path.metadata().map(|metadata| metadata.permissions().mode()).unwrap_or(0);
    if mode & 0o6000 != 0 {
        let text = "it is setuid or setgid, so the loader ignores inserted libraries";
        return Check::failed("injection", text, "none: start it as a program without those bits");
    }
    Check::warning(
        "injection",
        "it is a program for Linux, where there is no Metal",
        "look at the program on the guest where it runs",
    )
}
