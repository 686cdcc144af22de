//! One Mach-O file as it is looked at here: its slices, what each links, and how it is signed.

use std::io;
use std::path::{Path, PathBuf};

use capgate_guest::slices::{self, Contents, SliceError};
use capgate_macho::{Cpu, MachoError, Signature};
use capgate_registry::combination::{CdHash, Hex};
use serde::Serialize;

use crate::world::file;

/// A Mach-O file, every slice of it read.
#[derive(Debug)]
pub struct MachO {
    /// The file, links followed.
    pub path: PathBuf,
    /// Its slices, in the order of the file.
    pub slices: Vec<(Cpu, Contents)>,
}

impl MachO {
    /// Reads a file; `None` where it is no Mach-O at all.
    pub fn read(path: &Path) -> Result<Option<Self>, SliceError> {
        let path = path.canonicalize()?;
        let file = file::open_regular(&path)?;
        let size = file.metadata()?.len();
        let found = match slices::of(&file, size) {
            Err(SliceError::Macho(MachoError::NotMacho)) => return Ok(None),
            found => found?,
        };
        let read = found.iter().map(|slice| Ok((slice.cpu, Contents::read(&file, slice)?)));
        let slices = read.collect::<Result<Vec<_>, SliceError>>()?;
        Ok(Some(Self { path, slices }))
    }

    /// The processors that it has code for.
    pub fn cpus(&self) -> Vec<Cpu> {
        self.slices.iter().map(|(cpu, _)| *cpu).collect()
    }

    /// The slice for a processor.
    pub fn slice(&self, cpu: Cpu) -> Option<&Contents> {
        self.slices.iter().find(|(other, _)| *other == cpu).map(|(_, contents)| contents)
    }
}

/// The file name of a path.
pub fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// How a slice is signed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Signed {
    /// Its cdhash.
    pub cdhash: Option<String>,
    /// What it calls itself.
    pub identifier: String,
    /// Whose it is.
    pub team: Option<String>,
    /// The flags of its code directory.
    pub flags: u32,
    /// The hashes that its code directories are made with.
    pub hashes: Vec<String>,
    /// Whether it is one of the system's own programs.
    pub platform: bool,
    /// Entitlements that are simply true.
    pub entitlements: Vec<String>,
}

/// Reads how a slice is signed; `None` where it is not.
pub fn signed(contents: &Contents) -> Result<Option<Signed>, String> {
    let Some(bytes) = &contents.signature else { return Ok(None) };
    let signature = Signature::parse(bytes).map_err(|e| e.to_string())?;
    let Some(best) = signature.best().or(signature.directories.first()) else { return Ok(None) };
    Ok(Some(Signed {
        cdhash: best.cdhash.map(|hash| Hex(hash).to_string()),
        identifier: best.identifier.clone(),
        team: best.team.clone(),
        flags: best.flags.0,
        hashes: signature.directories.iter().map(|directory| directory.hash.to_string()).collect(),
        platform: best.platform != 0,
        entitlements: signature.entitlements.map_or_else(|| Ok(Vec::new()), entitlements)?,
    }))
}

/// The cdhash of a slice, where it has one.
pub fn cdhash(contents: &Contents) -> Option<CdHash> {
    contents.signature.as_deref().and_then(|bytes| capgate_macho::cdhash(bytes).ok()).map(Hex)
}

/// The names that an XML property list says true to.
fn entitlements(xml: &[u8]) -> Result<Vec<String>, String> {
    /// Largest list of entitlements that is read, in bytes, and its most lists within lists; real ones have a few
    /// thousand bytes and a handful of lists.
    const MOST: (usize, usize) = (1 << 20, 1_000);
    let lists = |open: &[u8]| xml.windows(open.len()).filter(|window| *window == open).count();
    // The reader follows each list within a list with a call of its own.
    if xml.len() > MOST.0 || lists(b"<array").saturating_add(lists(b"<dict")) > MOST.1 {
        return Err("has entitlements larger than any that are accepted".to_owned());
    }
    let malformed = |e: plist::Error| format!("has entitlements that are no property list: {e}");
    let value = plist::Value::from_reader_xml(io::Cursor::new(xml)).map_err(malformed)?;
    let list = value.into_dictionary().ok_or("has entitlements that are no dictionary")?;
    let granted = list.into_iter().filter(|(_, value)| value.as_boolean() == Some(true));
    Ok(granted.map(|(name, _)| name).collect())
}
