//! Header and load commands of one slice.

use crate::MachoError;
use crate::fat::MAGIC_64;
use crate::number::{bytes, index, le32, le64};

/// Bytes of the header before the load commands.
const HEADER: usize = 32;
/// Most bytes of load commands.
const MOST_BYTES: u32 = 1 << 20;
/// Most load commands.
const MOST_COMMANDS: u32 = 10_000;
const SEGMENT_64: u32 = 0x19;
const CODE_SIGNATURE: u32 = 0x1d;
/// `LC_LOAD_DYLIB`, weak, re-exported, lazy and upward.
const DYLIBS: [u32; 5] = [0xc, WEAK, 0x8000_001f, 0x20, 0x8000_0023];
const WEAK: u32 = 0x8000_0018;
const ID: u32 = 0xd;
const RPATH: u32 = 0x8000_001c;
const BUILD_VERSION: u32 = 0x32;
const VERSION_MIN_MACOS: u32 = 0x24;

/// A processor that a slice is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cpu {
    /// Every Mac with Apple's own chip.
    Arm64,
    /// The same with pointer authentication: Apple's own programs.
    Arm64e,
    /// Macs with Intel's, and Rosetta.
    X86_64,
    /// Another, by the numbers of its type and subtype.
    Other(u32, u32),
}

impl Cpu {
    pub(crate) fn from_numbers(kind: u32, subtype: u32) -> Self {
        // The upper byte of the subtype holds features, such as the version of the pointer authentication.
        match (kind, subtype & 0x00ff_ffff) {
            (0x0100_000c, 2) => Self::Arm64e,
            (0x0100_000c, _) => Self::Arm64,
            (0x0100_0007, _) => Self::X86_64,
            (kind, subtype) => Self::Other(kind, subtype),
        }
    }
}

impl std::fmt::Display for Cpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Arm64 => f.write_str("arm64"),
            Self::Arm64e => f.write_str("arm64e"),
            Self::X86_64 => f.write_str("x86_64"),
            Self::Other(kind, subtype) => write!(f, "processor {kind}/{subtype}"),
        }
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

/// A library that is loaded with an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dylib {
    /// Its name in the file, which may begin with `@rpath`, `@loader_path` or `@executable_path`.
    pub name: String,
    /// Whether the image runs without it, too.
    pub is_weak: bool,
}

/// What the load commands of a slice say, as far as it is needed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// The processor.
    pub cpu: Cpu,
    /// `MH_EXECUTE` is 2, `MH_DYLIB` 6, `MH_BUNDLE` 8.
    pub file_type: u32,
    /// Libraries that are loaded with it, by the names in the file.
    pub dylibs: Vec<Dylib>,
    /// Where `@rpath` leads, in the order in which it is tried.
    pub rpaths: Vec<String>,
    /// The name that a library gives itself.
    pub id: Option<String>,
    /// The least macOS, such as (13, 0).
    pub least_os: Option<(u32, u32)>,
    /// Whether it has the section `__RESTRICT,__restrict`, which makes the loader ignore its variables.
    pub is_restricted: bool,
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
            file_type: le32(all, 12, WITHIN)?,
            dylibs: Vec::new(),
            rpaths: Vec::new(),
            id: None,
            least_os: None,
            is_restricted: false,
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
        let file_name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        self.dylibs.iter().any(|dylib| file_name(&dylib.name).starts_with("Metal"))
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
            _ if DYLIBS.contains(&kind) => {
                let name = text_at(command, index(le32(command, 8, WITHIN)?))?;
                self.dylibs.push(Dylib { name, is_weak: kind == WEAK });
                Ok(())
            }
            ID => {
                self.id = Some(text_at(command, index(le32(command, 8, WITHIN)?))?);
                Ok(())
            }
            RPATH => {
                self.rpaths.push(text_at(command, index(le32(command, 8, WITHIN)?))?);
                Ok(())
            }
            BUILD_VERSION | VERSION_MIN_MACOS => {
                let version = le32(command, if kind == BUILD_VERSION { 12 } else { 8 }, WITHIN)?;
                self.least_os = Some((version >> 16, version >> 8 & 0xff));
                Ok(())
            }
            _ => Ok(()),
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
        if is(b"__RESTRICT") && sections(command)?.any(|name| name == b"__restrict") {
            self.is_restricted = true;
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

/// The names of a segment's sections, without the zero bytes behind them.
fn sections(command: &[u8]) -> Result<impl Iterator<Item = &[u8]>, MachoError> {
    const WITHIN: &str = "the sections of a segment";
    let count = index(le32(command, 64, WITHIN)?);
    // A count that promises more than there is, is one that the loader refuses.
    let all = bytes(command, 72, count.saturating_mul(80), WITHIN)?;
    Ok(all.chunks_exact(80).filter_map(|section| section.split(|&byte| byte == 0).next()))
}

/// The text from `offset` to the next zero byte or the end of the command.
fn text_at(command: &[u8], offset: usize) -> Result<String, MachoError> {
    let rest = command.get(offset..).ok_or(MachoError::Truncated("the name of a library"))?;
    let text = rest.split(|&b| b == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}
