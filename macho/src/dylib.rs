//! Load commands that name other libraries.

use crate::MachoError;
use crate::number::{index, le32, text_at};

const LOAD: u32 = 0xc;
const LOAD_WEAK: u32 = 0x8000_0018;
const REEXPORT: u32 = 0x8000_001f;
const LAZY: u32 = 0x20;
const UPWARD: u32 = 0x8000_0023;
/// In the place of a time: the command holds flags behind its versions (`DYLIB_USE_MARKER`).
const USE_MARKER: u32 = 0x1a74_1800;

/// How one image needs another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DylibKind {
    /// Loaded at the start; without it the program does not start.
    Required,
    /// Loaded at the start where it exists.
    Weak,
    /// Required, and its symbols are offered as the image's own.
    Reexport,
    /// Required, by something that it needs itself.
    Upward,
    /// Loaded when it is first used.
    Lazy,
}

/// A library that an image names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dylib {
    /// The name in the file: a path, often one that begins with `@rpath/`.
    pub name: String,
    /// How it is needed.
    pub kind: DylibKind,
}

impl Dylib {
    /// Reads such a command; `None` for any other.
    pub(crate) fn read(kind: u32, command: &[u8]) -> Result<Option<Self>, MachoError> {
        const WITHIN: &str = "the name of a library";
        let kind = match kind {
            LOAD => DylibKind::Required,
            LOAD_WEAK => DylibKind::Weak,
            REEXPORT => DylibKind::Reexport,
            UPWARD => DylibKind::Upward,
            LAZY => DylibKind::Lazy,
            _ => return Ok(None),
        };
        let offset = le32(command, 8, WITHIN)?;
        let name = text_at(command, index(offset), WITHIN)?;
        // 28 is where a name begins behind the flags; an older command that happens to hold the marker has it at 24.
        let marked = offset == 28 && le32(command, 12, WITHIN)? == USE_MARKER;
        let kind = if marked { by_flags(le32(command, 24, WITHIN)?) } else { kind };
        Ok(Some(Self { name, kind }))
    }
}

/// `DYLIB_USE_WEAK_LINK`, `…_REEXPORT`, `…_UPWARD`, `…_DELAYED_INIT`, of which the first decides whether it may miss.
fn by_flags(flags: u32) -> DylibKind {
    match flags {
        _ if flags & 1 != 0 => DylibKind::Weak,
        _ if flags & 2 != 0 => DylibKind::Reexport,
        _ if flags & 4 != 0 => DylibKind::Upward,
        _ if flags & 8 != 0 => DylibKind::Lazy,
        _ => DylibKind::Required,
    }
}
