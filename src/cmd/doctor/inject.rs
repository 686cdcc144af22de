//! Can a library be inserted into a program? What its file says; nothing is ever changed about it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use capgate_macho::{Commands, HARDENED, LIBRARY_VALIDATION, RESTRICT, Signature};

use super::check::Check;

const NAME: &str = "injection";
/// Both must be there before the hardened runtime lets a foreign library in.
const VARIABLES: &str = "com.apple.security.cs.allow-dyld-environment-variables";
const LIBRARIES: &str = "com.apple.security.cs.disable-library-validation";
/// What can be said of somebody else's signature.
const NO_FIX: &str = "none: only its makers can sign it otherwise; use a build of it that is not hardened";

/// Why the loader would ignore an inserted library, or that it would not.
pub fn check(path: &Path, commands: &Commands, signature: Option<&Signature>) -> Check {
    let mode = path.metadata().map(|metadata| metadata.permissions().mode()).unwrap_or(0);
    if mode & 0o6000 != 0 {
        return Check::failed(
            NAME,
            "it is setuid or setgid, so the loader ignores inserted libraries",
            NO_FIX,
        );
    }
    if commands.is_restricted {
        return Check::failed(
            NAME,
            "it has the section __RESTRICT,__restrict, so the loader ignores inserted libraries",
            NO_FIX,
        );
    }
    let Some(signature) = signature else {
        let fix = "none: its makers sign it, at least ad hoc, as every program for Apple's chips is";
        return Check::failed(NAME, "it is not signed, and a Mac does not start it", fix);
    };
    if signature.is_platform || is_protected(path) {
        let fix = "none: start the program itself, not a program of the system that starts it";
        return Check::failed(
            NAME,
            "it is a part of the system, for which the loader ignores inserted libraries",
            fix,
        );
    }
    if signature.flags & RESTRICT != 0 {
        return Check::failed(
            NAME,
            "its signature is restricted, so the loader ignores inserted libraries",
            NO_FIX,
        );
    }
    let entitled = entitlements(signature);
    let lacks = |name: &&str| !entitled.iter().any(|entitlement| entitlement == name);
    let needed: &[&str] = match signature.flags {
        flags if flags & HARDENED != 0 => &[VARIABLES, LIBRARIES],
        flags if flags & LIBRARY_VALIDATION != 0 => &[LIBRARIES],
        _ => &[],
    };
    let missing: Vec<&str> = needed.iter().copied().filter(lacks).collect();
    if missing.is_empty() {
        return Check::ok(NAME, "the loader takes inserted libraries");
    }
    let kind = if signature.flags & HARDENED != 0 { "the hardened runtime" } else { "library validation" };
    Check::failed(NAME, format!("it is signed for {kind}, without {}", missing.join(" and ")), NO_FIX)
}

/// Where System Integrity Protection guards what runs.
fn is_protected(path: &Path) -> bool {
    let folders = ["/System", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec"];
    folders.iter().any(|folder| path.starts_with(folder))
}

/// The entitlements that are granted.
fn entitlements(signature: &Signature) -> Vec<String> {
    let Some(xml) = &signature.entitlements else { return Vec::new() };
    let Ok(plist::Value::Dictionary(granted)) = plist::Value::from_reader_xml(xml.as_slice()) else {
        return Vec::new();
    };
    granted.into_iter().filter(|(_, value)| value.as_boolean() == Some(true)).map(|(name, _)| name).collect()
}
