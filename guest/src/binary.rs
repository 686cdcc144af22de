//! What kind of program a file is, from its first bytes.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use capgate_macho::{Cpu, slices};

/// Longest first line of a script, in bytes.
const LONGEST: usize = 512;

/// A program file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binary {
    /// A Mach-O file with code for these processors.
    MachO(Vec<Cpu>),
    /// An ELF file: its class (1 for 32 bits, 2 for 64), byte order and machine.
    Elf([u8; 4]),
    /// A script: its interpreter, and the one argument that may stand behind it.
    Script(PathBuf, Option<String>),
    /// Something else.
    Other,
}

impl Binary {
    /// Looks at a file.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("is not a regular file"));
        }
        let mut start = vec![0u8; usize::try_from(metadata.len().min(4096)).unwrap_or(0)];
        file.read_exact_at(&mut start, 0)?;
        Ok(Self::of_start(&start, metadata.len()))
    }

    fn of_start(start: &[u8], size: u64) -> Self {
        if let Some(rest) = start.strip_prefix(b"#!") {
            return script(rest).unwrap_or(Self::Other);
        }
        if let [0x7f, b'E', b'L', b'F', class, order, ..] = start {
            let machine = start.get(18..20).and_then(|machine| machine.first_chunk::<2>());
            return machine.map_or(Self::Other, |&[low, high]| Self::Elf([*class, *order, low, high]));
        }
        match slices(start, size) {
            Ok(slices) => Self::MachO(slices.into_iter().map(|slice| slice.cpu).collect()),
            Err(_) => Self::Other,
        }
    }
}

fn script(rest: &[u8]) -> Option<Binary> {
    let line = rest.get(..LONGEST.min(rest.len()))?.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(line.len());
    let (interpreter, argument) = line.split_at_checked(end)?;
    if interpreter.is_empty() {
        return None;
    }
    let argument = Some(argument.trim_ascii()).filter(|argument| !argument.is_empty());
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(interpreter));
    Some(Binary::Script(path, argument.map(|argument| String::from_utf8_lossy(argument).into_owned())))
}

/// Most files between a name and the program that runs in the end.
pub const MOST_LINKS: usize = 8;

/// The files that run one after the other when `program` is started: scripts, their interpreters, what `env` looks up
/// in `search`, and at the end a program of its own. Each with what it is.
pub fn chain(program: &Path, search: &dyn Fn(&str) -> Option<PathBuf>) -> io::Result<Vec<(PathBuf, Binary)>> {
    let mut found: Vec<(PathBuf, Binary)> = Vec::new();
    let mut next = Some(program.to_owned());
    while let Some(path) = next.take() {
        if found.len() == MOST_LINKS {
            return Err(io::Error::other(format!("starts more than {MOST_LINKS} files one after the other")));
        }
        let binary = Binary::of_file(&path).map_err(|e| named(&path, &e))?;
        if let Binary::Script(interpreter, argument) = &binary {
            next = Some(interpreter.clone());
            let is_env = interpreter.file_name().is_some_and(|name| name == "env");
            let word = argument.as_deref().map(|argument| argument.trim_start_matches("-S ").trim());
            if let (true, Some(word)) = (is_env, word) {
                let env = Binary::of_file(interpreter).map_err(|e| named(interpreter, &e))?;
                found.push((path, binary.clone()));
                found.push((interpreter.clone(), env));
                let name = word.split_whitespace().next().unwrap_or_default();
                next = Some(search(name).ok_or_else(|| {
                    io::Error::new(
                        io::ErrorKind::NotFound,
                        format!("there is no `{name}` for `env` to start"),
                    )
                })?);
                continue;
            }
        }
        found.push((path, binary));
    }
    Ok(found)
}

fn named(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("`{}` {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart_by_their_first_bytes() {
        let elf = std::env::current_exe().unwrap();
        assert!(matches!(Binary::of_file(&elf).unwrap(), Binary::Elf(_)));
        let of = |text: &[u8]| Binary::of_start(text, text.len() as u64);
        assert_eq!(of(b"#!/bin/sh\n"), Binary::Script("/bin/sh".into(), None));
        assert_eq!(of(b"#! /bin/sh -e  \n"), Binary::Script("/bin/sh".into(), Some("-e".into())));
        let env = Binary::Script("/usr/bin/env".into(), Some("python3 -u".into()));
        assert_eq!(of(b"#!/usr/bin/env python3 -u\nprint()\n"), env);
        for other in [&b""[..], b"#!", b"#!\n", b"\x7fELF", b"text", b"\xca\xfe\xba\xbe\0\0\0\x40"] {
            assert_eq!(of(other), Binary::Other, "{other:?}");
        }
    }

    #[test]
    fn a_script_leads_to_its_interpreter_and_through_env_to_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        let program = std::env::current_exe().unwrap();
        std::fs::write(&script, format!("#!{}\n", program.display())).unwrap();
        let paths = |search: &dyn Fn(&str) -> Option<PathBuf>| {
            chain(&script, search).map(|found| found.into_iter().map(|(path, _)| path).collect::<Vec<_>>())
        };
        assert_eq!(paths(&|_| None).unwrap(), [script.clone(), program.clone()]);
        std::fs::write(&script, "#!/usr/bin/env -S thing --flag\n").unwrap();
        let search = |name: &str| (name == "thing").then(|| program.clone());
        assert_eq!(paths(&search).unwrap(), [script.clone(), "/usr/bin/env".into(), program.clone()]);
        assert!(paths(&|_| None).unwrap_err().to_string().contains("`thing`"));
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(paths(&|_| None).unwrap_err().to_string().contains("more than 8"));
    }
}
