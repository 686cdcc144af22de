//! Whether a library can be inserted into the program, and which slice it needs for that.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use capgate_guest::binary::Binary;
use capgate_guest::slices::Contents;
use capgate_macho::{Cpu, Flags};

use super::macho::{MachO, Signed, signed};
use super::report::{Fix, Report};
use super::subject::{Kind, Subject};
use crate::cmd::run::program::{is_systems_own, runs_as};

/// With both a hardened program lets the loader's variables and foreign libraries in.
const ENTITLEMENTS: [&str; 2] = [
    "com.apple.security.cs.allow-dyld-environment-variables",
    "com.apple.security.cs.disable-library-validation",
];
const NAME: &str = "injection";

/// Says whether a library can be inserted.
pub fn check(subject: &Subject, report: &mut Report) {
    if is_set_id(&subject.path) {
        let message = format!("`{}` changes its user or group as it starts", subject.path.display());
        let why = "such a program is never given a library by whoever starts it".to_owned();
        return report.fail(NAME, message, Fix::Nothing(why));
    }
    let Kind::Program(macho, cpu) = &subject.kind else { return };
    let Some(slice) = macho.slice(*cpu) else { return };
    // A signature that cannot be read ended the command before.
    let signed = signed(slice).ok().flatten();
    match refusal(&macho.path, *cpu, slice, signed.as_ref()) {
        Some((message, why)) => report.fail(NAME, message, Fix::Nothing(why.to_owned())),
        None => report.ok(NAME, format!("the loader takes inserted libraries ({})", how(signed.as_ref()))),
    }
}

/// Why the loader would not give a library to the program in a Mach-O file, or what is wrong with the file.
pub fn refused(path: &Path) -> Option<String> {
    let macho = match MachO::read(path) {
        Ok(macho) => macho?,
        Err(e) => return Some(format!("`{}` {e}", path.display())),
    };
    if is_set_id(path) {
        return Some(format!("`{}` changes its user or group as it starts", path.display()));
    }
    let cpu = runs_as(path, &macho.cpus())?;
    let slice = macho.slice(cpu)?;
    match signed(slice) {
        Ok(signed) => refusal(&macho.path, cpu, slice, signed.as_ref()).map(|(message, _)| message),
        Err(e) => Some(format!("`{}` {e}", path.display())),
    }
}

/// What makes the loader ignore a library, and why nothing is to be done about it.
fn refusal(
    path: &Path,
    cpu: Cpu,
    slice: &Contents,
    signed: Option<&Signed>,
) -> Option<(String, &'static str)> {
    const OWN: &str = "macOS protects its own programs; a program of the same kind from elsewhere may do";
    const MAKER: &str = "whether it lets libraries in is its maker's to sign, and nobody else's; ask them for a build \
                         with both entitlements";
    let shown = path.display();
    let Some(signed) = signed else {
        let why = "it is for its maker to sign it";
        return (cpu != Cpu::X86_64)
            .then(|| (format!("`{shown}` is not signed, and no Mac starts it for {cpu}"), why));
    };
    if signed.platform || is_systems_own(path) {
        let what = "is one of macOS's own programs, where the loader ignores and drops its variables";
        return Some((format!("`{shown}` {what}"), OWN));
    }
    let flags = Flags(signed.flags);
    if slice.commands.restricted {
        return Some((format!("`{shown}` has a `__RESTRICT,__restrict` section"), MAKER));
    }
    if flags.restrict() {
        return Some((format!("`{shown}` is signed as restricted (0x800)"), MAKER));
    }
    let missing: Vec<&str> = ENTITLEMENTS.into_iter().filter(|name| !has(signed, name)).collect();
    if flags.hardened_runtime() && !missing.is_empty() {
        let lacks = missing.join("` and `");
        return Some((format!("`{shown}` has the hardened runtime and lacks `{lacks}`"), MAKER));
    }
    if flags.library_validation() && !has(signed, ENTITLEMENTS[1]) {
        let what = "loads only libraries of its own team (library validation): the loader would end it";
        return Some((format!("`{shown}` {what}"), MAKER));
    }
    None
}

fn has(signed: &Signed, name: &str) -> bool {
    signed.entitlements.iter().any(|own| own == name)
}

fn how(signed: Option<&Signed>) -> String {
    let Some(signed) = signed else { return "it is not signed".to_owned() };
    let flags = Flags(signed.flags);
    let signer = match &signed.team {
        Some(team) => format!("signed by team {team}"),
        None if flags.linker_signed() => "signed by its linker".to_owned(),
        None if flags.adhoc() => "signed ad hoc".to_owned(),
        None => "signed".to_owned(),
    };
    let runtime = if flags.hardened_runtime() {
        "hardened runtime with both entitlements"
    } else {
        "no hardened runtime"
    };
    format!("{signer}, {runtime}")
}

fn is_set_id(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.mode() & 0o6000 != 0)
}

/// Says which slice an inserted library needs.
pub fn check_slice(subject: &Subject, report: &mut Report) {
    let Kind::Program(_, cpu) = &subject.kind else { return };
    let text = match cpu {
        Cpu::Other(..) => {
            let why = "use a build for Apple's chips".to_owned();
            return report.fail("slice", format!("it has code for {cpu} only"), Fix::Nothing(why));
        }
        Cpu::Arm64e => {
            format!("runs as {cpu}; a library for arm64 alone makes the loader end it")
        }
        Cpu::Arm64 | Cpu::X86_64 => format!("runs as {cpu}; an inserted library needs the same"),
    };
    report.ok("slice", text);
}

/// Holds the library against the program: the loader ends one whose library it cannot load.
pub fn check_library(subject: &Subject, library: Option<&Path>, report: &mut Report) {
    const NAME: &str = "library";
    let Some(library) = library else { return };
    let shown = library.display();
    let offered = match Binary::of_file(library) {
        Ok(offered) => offered,
        Err(e) => {
            let fix = "capgate install PREFIX --library FILE".to_owned();
            return report.fail(NAME, format!("`{shown}` {e}: it cannot be inserted"), Fix::Do(fix));
        }
    };
    let fix = "none is inserted by `capgate run`, for the loader would end the program; install a library that has it";
    let fix = Fix::Do(fix.to_owned());
    match (&subject.kind, &offered) {
        (Kind::Program(_, cpu), Binary::MachO(offered)) if offered.contains(cpu) => {
            report.ok(NAME, format!("`{shown}` has code for {cpu}"));
        }
        (Kind::Program(_, cpu), Binary::MachO(_)) => {
            report.fail(NAME, format!("`{shown}` has no code for {cpu}"), fix);
        }
        (Kind::Program(..), _) => report.fail(NAME, format!("`{shown}` is for another system"), fix),
        (Kind::Elf, offered) if Binary::of_file(&subject.path).is_ok_and(|wanted| wanted == *offered) => {
            report.ok(NAME, format!("`{shown}` is for the same machine"));
        }
        (Kind::Elf, _) => report.fail(NAME, format!("`{shown}` is for another machine or system"), fix),
        (Kind::Library(..), _) => {}
    }
}
