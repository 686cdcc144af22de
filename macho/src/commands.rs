//! Header and load commands of one slice.

use crate::fat::MAGIC_64;
use crate::number::{bytes, index, le32, le64, text_at};
use crate::{Cpu, Dylib, MachoError};

/// Bytes of the header before the load commands.
const HEADER: usize = 32;
/// Most bytes of load commands.
const MOST_BYTES: u32 = 1 << 20;
/// Most load commands.
const MOST_COMMANDS: u32 = 10_000;
const SEGMENT_64: u32 = 0x19;
const CODE_SIGNATURE: u32 = 0x1d;
const ID_DYLIB: u32 = 0xd;
const RPATH: u32 = 0x8000_001c;
const VERSION_MIN_MACOSX: u32 = 0x24;
const BUILD_VERSION: u32 = 0x32;
/// `PLATFORM_MACOS`.
const MACOS: u32 = 1;

/// What a Mach-O file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// A program (`MH_EXECUTE`).
    Program,
    /// A library that is linked or opened (`MH_DYLIB`).
    Dylib,
    /// A library that is only ever opened (`MH_BUNDLE`).
    Bundle,
    /// Another, by its number in `mach-o/loader.h`.
    Other(u32),
}

impl FileType {
    fn from_number(number: u32) -> Self {
        match number {
            2 => Self::Program,
            6 => Self::Dylib,
            8 => Self::Bundle,
            other => Self::Other(other),
        }
    }
}

/// A version as load commands write it: `X.Y.Z` in four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(number) = self;
        write!(f, "{}.{}", number >> 16, number >> 8 & 0xff)?;
        if number & 0xff == 0 { Ok(()) } else { write!(f, ".{}", number & 0xff) }
    }
}

/// A part of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First byte, from the start of the slice.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
}

/// The segment whose end holds the signature, which is how a loaded image finds its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linkedit {
    /// Address before sliding.
    pub address: u64,
    /// First byte in the slice.
    pub offset: u64,
    /// Bytes in the slice.
    pub size: u64,
}

/// What the load commands of a slice say, as far as it is needed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// The processor.
    pub cpu: Cpu,
    /// What it is for.
    pub file_type: FileType,
    /// The name that a library gives itself.
    pub id: Option<String>,
    /// Libraries that it names.
    pub dylibs: Vec<Dylib>,
    /// Where `@rpath` leads, in order, as written.
    pub rpaths: Vec<String>,
    /// The oldest macOS that it is made for.
    pub minimum_macos: Option<Version>,
    /// Whether it has `__RESTRICT,__restrict`, which makes the loader ignore inserted libraries.
    pub restricted: bool,
    /// Where the code signature stands.
    pub signature: Option<Range>,
    /// The segment that holds it.
    pub linkedit: Option<Linkedit>,
    /// Address of the first segment before sliding: where the header is.
    pub text_address: Option<u64>,
}

/// Bytes of header and load commands, from the first 32 bytes of a slice.
pub fn header_length(start: &[u8]) -> Result<usize, MachoError> {
    const WITHIN: &str = "the header";
    if le32(start, 0, WITHIN)? != MAGIC_64 {
        return Err(MachoError::NotMacho);
    }
    let size = le32(start, 20, WITHIN)?;
    if size > MOST_BYTES {
        let (found, most) = (u64::from(size), u64::from(MOST_BYTES));
        return Err(MachoError::TooLarge { what: "load commands", found, most });
    }
    Ok(HEADER + index(size))
}

impl Commands {
    /// Reads header and load commands, which `start` must hold as a whole.
    pub fn parse(start: &[u8]) -> Result<Self, MachoError> {
        const WITHIN: &str = "the load commands";
        let length = header_length(start)?;
        let all = bytes(start, 0, length, WITHIN)?;
        let count = le32(all, 16, WITHIN)?;
        if count > MOST_COMMANDS {
            let (found, most) = (u64::from(count), u64::from(MOST_COMMANDS));
            return Err(MachoError::TooLarge { what: "a number of load commands", found, most });
        }
        let mut commands = Self {
            cpu: Cpu::from_numbers(le32(all, 4, WITHIN)?, le32(all, 8, WITHIN)?),
            file_type: FileType::from_number(le32(all, 12, WITHIN)?),
            id: None,
            dylibs: Vec::new(),
            rpaths: Vec::new(),
            minimum_macos: None,
            restricted: false,
            signature: None,
            linkedit: None,
            text_address: None,
        };
        let mut at = HEADER;
        for _ in 0..count {
            let size = index(le32(all, at + 4, WITHIN)?);
            if size < 8 {
                return Err(MachoError::Malformed("has a load command without length"));
            }
            commands.take(bytes(all, at, size, WITHIN)?)?;
            at += size;
        }
        Ok(commands)
    }

    /// Tells whether it loads Metal, or a part of it such as `MetalPerformanceShaders`, by itself.
    pub fn links_metal(&self) -> bool {
        let is_metal =
            |name: &str| name.rsplit('/').next().is_some_and(|file_name| file_name.starts_with("Metal"));
        self.dylibs.iter().any(|dylib| is_metal(&dylib.name))
    }

    fn take(&mut self, command: &[u8]) -> Result<(), MachoError> {
        const WITHIN: &str = "a load command";
        let kind = le32(command, 0, WITHIN)?;
        match kind {
            SEGMENT_64 => self.take_segment(command),
            CODE_SIGNATURE => {
                if self.signature.is_some() {
                    return Err(MachoError::Malformed("has two code signatures"));
                }
                let (offset, size) = (le32(command, 8, WITHIN)?, le32(command, 12, WITHIN)?);
                self.signature = Some(Range { offset, size });
                Ok(())
            }
            ID_DYLIB => {
                self.id = Some(text_at(command, index(le32(command, 8, WITHIN)?), "the name of a library")?);
                Ok(())
            }
            RPATH => {
                self.rpaths.push(text_at(command, index(le32(command, 8, WITHIN)?), "a search path")?);
                Ok(())
            }
            VERSION_MIN_MACOSX => {
                self.minimum_macos = Some(Version(le32(command, 8, WITHIN)?));
                Ok(())
            }
            BUILD_VERSION if le32(command, 8, WITHIN)? == MACOS => {
                self.minimum_macos = Some(Version(le32(command, 12, WITHIN)?));
                Ok(())
            }
            _ => {
                self.dylibs.extend(Dylib::read(kind, command)?);
                Ok(())
            }
        }
    }

    fn take_segment(&mut self, command: &[u8]) -> Result<(), MachoError> {
        const WITHIN: &str = "a segment";
        let name = bytes(command, 8, 16, WITHIN)?;
        let is = |wanted: &[u8]| name.split(|&b| b == 0).next() == Some(wanted);
        let (address, offset) = (le64(command, 24, WITHIN)?, le64(command, 40, WITHIN)?);
        if is(b"__TEXT") && self.text_address.is_none() {
            self.text_address = Some(address);
        }
        if is(b"__RESTRICT") {
            self.restricted |= has_section(command, b"__restrict")?;
        }
        if is(b"__LINKEDIT") {
            if self.linkedit.is_some() {
                return Err(MachoError::Malformed("has two __LINKEDIT segments"));
            }
            self.linkedit = Some(Linkedit { address, offset, size: le64(command, 48, WITHIN)? });
        }
        Ok(())
    }
}

/// Tells whether a segment has a section of that name.
fn has_section(segment: &[u8], wanted: &[u8]) -> Result<bool, MachoError> {
    const WITHIN: &str = "a section";
    let count = index(le32(segment, 64, WITHIN)?);
    for at in 0..count {
        let offset = at.checked_mul(80).and_then(|offset| offset.checked_add(72));
        let name = bytes(segment, offset.ok_or(MachoError::Truncated(WITHIN))?, 16, WITHIN)?;
        if name.split(|&b| b == 0).next() == Some(wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}
