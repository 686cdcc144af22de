//! What the files of a program say, as data.

use std::path::Path;

use capgate_guest::identity;
use capgate_macho::Cpu;
use serde::Serialize;

use super::images::Listed;
use super::macho::{MachO, Signed, cdhash, signed};

/// What the files of a program say.
#[derive(Debug, Serialize)]
pub struct Findings {
    /// The file that was named.
    pub named: String,
    /// The file whose code runs in the end.
    pub program: String,
    /// `program`, `library` or `elf`.
    pub kind: &'static str,
    /// Its SHA-256; none for one too large to be hashed.
    pub sha256: Option<String>,
    /// The cdhash of the slice that runs.
    pub cdhash: Option<String>,
    /// The processor that it runs on.
    pub slice: Option<String>,
    /// All of its slices.
    pub slices: Vec<Slice>,
    /// The images that a profile has to list.
    pub images: Vec<Listed>,
}

/// One slice.
#[derive(Debug, Serialize)]
pub struct Slice {
    cpu: String,
    minimum_macos: Option<String>,
    signature: Option<Signed>,
}

impl Findings {
    /// Of a file, and of the slice that runs where it is a Mach-O.
    pub fn new(named: &Path, program: &Path, kind: &'static str, macho: Option<(&MachO, Cpu)>) -> Self {
        Self {
            named: named.display().to_string(),
            program: program.display().to_string(),
            kind,
            sha256: identity::of_file(program).ok().map(|file| file.sha256.to_string()),
            cdhash: macho
                .and_then(|(macho, cpu)| macho.slice(cpu).and_then(cdhash))
                .map(|hash| hash.to_string()),
            slice: macho.map(|(_, cpu)| cpu.to_string()),
            slices: macho.map(|(macho, _)| slices(macho)).unwrap_or_default(),
            images: Vec::new(),
        }
    }
}

fn slices(macho: &MachO) -> Vec<Slice> {
    let slices = macho.slices.iter().map(|(cpu, contents)| Slice {
        cpu: cpu.to_string(),
        minimum_macos: contents.commands.minimum_macos.map(|version| version.to_string()),
        signature: signed(contents).ok().flatten(),
    });
    slices.collect()
}
