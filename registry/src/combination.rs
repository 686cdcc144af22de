//! The exact combination that a profile was tested on, and its key.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::os::Build;

/// Name of a chip, such as `Apple M1 Ultra`: printable ASCII words, single spaces, at most 64 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chip(String);

/// Says why a chip's name cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChipError {
    /// Not printable ASCII words with single spaces, or too long.
    #[error("`{0}` is not a chip's name such as `Apple M1 Ultra`")]
    Malformed(String),
    /// The placeholder that early systems report for every chip.
    #[error("`Apple processor` names no chip: the system did not recognise it")]
    Unknown,
    /// The name as a guest reads it.
    #[error("`{0}` is what a guest reads: leave ` (Virtual)` out to name the host's chip")]
    Virtual(String),
}

/// What macOS appends to the host chip's name inside a guest.
const VIRTUAL: &str = " (Virtual)";

impl Chip {
    /// The host chip behind what a guest reads in `machdep.cpu.brand_string`; one ` (Virtual)` suffix is removed.
    pub fn from_guest(brand: &str) -> Result<Self, ChipError> {
        brand.strip_suffix(VIRTUAL).unwrap_or(brand).parse()
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Chip {
    type Err = ChipError;

    fn from_str(text: &str) -> Result<Self, ChipError> {
        let words =
            text.split(' ').all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_graphic()));
        if !words || text.len() > 64 {
            return Err(ChipError::Malformed(text.chars().take(80).collect()));
        }
        if text == "Apple processor" {
            return Err(ChipError::Unknown);
        }
        if text.ends_with(VIRTUAL) {
            return Err(ChipError::Virtual(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Bytes that are written as lower-case hexadecimal, one spelling each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex<const N: usize>(pub [u8; N]);

/// SHA-256 of a file.
pub type Sha256Digest = Hex<32>;
/// Code directory hash of a signed program: SHA-256 of its CodeDirectory, cut to 20 bytes.
pub type CdHash = Hex<20>;

/// Says why a digest is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// Wrong number of digits.
    #[error("has {found} characters, not the {expected} hexadecimal digits of a digest")]
    Length {
        /// Digits wanted.
        expected: usize,
        /// Characters found.
        found: usize,
    },
    /// Upper case.
    #[error("has upper-case digits; write them in lower case")]
    UpperCase,
    /// Something else than a digit.
    #[error("holds `{0}`, which is no hexadecimal digit")]
    Digit(char),
    /// The digest of nothing at all.
    #[error("is all zeros: no file has that digest")]
    Zero,
}

impl<const N: usize> FromStr for Hex<N> {
    type Err = HexError;

    fn from_str(text: &str) -> Result<Self, HexError> {
        if text.chars().count() != N * 2 {
            return Err(HexError::Length { expected: N * 2, found: text.chars().count() });
        }
        let mut bytes = [0u8; N];
        for (i, c) in text.chars().enumerate() {
            let digit = c.to_digit(16).and_then(|d| u8::try_from(d).ok()).ok_or(HexError::Digit(c))?;
            if c.is_ascii_uppercase() {
                return Err(HexError::UpperCase);
            }
            if let Some(byte) = bytes.get_mut(i / 2) {
                *byte = *byte << 4 | digit;
            }
        }
        if bytes == [0; N] { Err(HexError::Zero) } else { Ok(Self(bytes)) }
    }
}

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        // One write: a snapshot needs it for every profile.
        f.write_str(&digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect::<String>())
    }
}

impl<const N: usize> fmt::Debug for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Identity of the program: the digest of its file, or its code directory hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Workload {
    /// SHA-256 of the executable file.
    Sha256(Sha256Digest),
    /// Code directory hash, which the kernel knows of the running program.
    CdHash(CdHash),
}

/// Says why a workload's identity is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// Neither of the two forms.
    #[error("`{0}` is neither `sha256:` with 64 digits nor `cdhash:` with 40")]
    Form(String),
    /// The digest is malformed.
    #[error("the digest {0}")]
    Digest(#[from] HexError),
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        match text.split_once(':') {
            Some(("sha256", digits)) => Ok(Self::Sha256(digits.parse()?)),
            Some(("cdhash", digits)) => Ok(Self::CdHash(digits.parse()?)),
            _ => Err(WorkloadError::Form(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(digest) => write!(f, "sha256:{digest}"),
            Self::CdHash(digest) => write!(f, "cdhash:{digest}"),
        }
    }
}

/// One exact combination of host chip, host OS, guest OS and program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Combination {
    /// Chip of the host.
    pub host_chip: Chip,
    /// Build of the host's macOS.
    pub host_os: Build,
    /// Build of the guest's macOS.
    pub guest_os: Build,
    /// The program.
    pub workload: Workload,
}

/// SHA-256 of a combination's canonical bytes: where its record stands in a snapshot.
pub type Key = Hex<32>;

impl Combination {
    /// Five LF-terminated lines, of which the first names this form.
    pub fn canonical(&self) -> String {
        let Self { host_chip, host_os, guest_os, workload } = self;
        format!(
            "capgate combination v1\nhost-chip {host_chip}\nhost-os {host_os}\nguest-os {guest_os}\nworkload {workload}\n"
        )
    }

    /// SHA-256 of [`canonical`](Self::canonical).
    pub fn key(&self) -> Key {
        Hex(Sha256::digest(self.canonical()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published() -> Combination {
        Combination {
            host_chip: "Apple M1 Ultra".parse().unwrap(),
            host_os: "25G76".parse().unwrap(),
            guest_os: "25F84".parse().unwrap(),
            workload: "sha256:28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7"
                .parse()
                .unwrap(),
        }
    }

    /// Computed with `printf … | sha256sum`.
    #[test]
    fn key_is_the_digest_of_the_canonical_bytes() {
        let expected = "capgate combination v1\nhost-chip Apple M1 Ultra\nhost-os 25G76\nguest-os 25F84\nworkload \
                        sha256:28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7\n";
        assert_eq!(published().canonical(), expected);
        assert_eq!(
            published().key().to_string(),
            "cd721d0910fdfa406948cfea4b19a0413848aee30a7941ecd822c22c7c840e72"
        );
    }

    #[test]
    fn one_virtual_suffix_is_removed_from_what_a_guest_reads() {
        assert_eq!(Chip::from_guest("Apple M4 Pro (Virtual)").unwrap().as_str(), "Apple M4 Pro");
        assert_eq!(Chip::from_guest("Apple M4 Pro").unwrap().as_str(), "Apple M4 Pro");
        assert!(matches!(Chip::from_guest("Apple M4 (Virtual) (Virtual)"), Err(ChipError::Virtual(_))));
        assert!(matches!("Apple M4 (Virtual)".parse::<Chip>(), Err(ChipError::Virtual(_))));
    }

    #[test]
    fn the_bare_processor_is_unknown() {
        assert_eq!(Chip::from_guest("Apple processor"), Err(ChipError::Unknown));
        assert_eq!(Chip::from_guest("Apple processor (Virtual)"), Err(ChipError::Unknown));
    }

    #[test]
    fn malformed_chips_are_refused() {
        let long = "A".repeat(65);
        for text in
            ["", " ", "Apple  M1", " Apple M1", "Apple M1 ", "Apple\tM1", "Äpple M1", "Apple M1\n", &long]
        {
            assert!(matches!(text.parse::<Chip>(), Err(ChipError::Malformed(_))), "{text:?}");
        }
        assert!("A".repeat(64).parse::<Chip>().is_ok());
    }

    #[test]
    fn digests_have_one_spelling() {
        let good = "28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7";
        assert_eq!(good.parse::<Sha256Digest>().unwrap().to_string(), good);
        assert_eq!(good.to_uppercase().parse::<Sha256Digest>(), Err(HexError::UpperCase));
        assert_eq!("0".repeat(64).parse::<Sha256Digest>(), Err(HexError::Zero));
        assert_eq!("ab".parse::<CdHash>(), Err(HexError::Length { expected: 40, found: 2 }));
        assert_eq!("g".repeat(40).parse::<CdHash>(), Err(HexError::Digit('g')));
        for text in ["28fa", "sha256", "SHA256:28", "md5:00", "sha256:28"] {
            assert!(text.parse::<Workload>().is_err(), "{text}");
        }
    }
}
