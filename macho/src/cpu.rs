//! Processors that code can be for.

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
