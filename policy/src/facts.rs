//! What is known of the machine and the program that a decision is about.

use std::fmt;
use std::str::FromStr;

use capgate_registry::combination::{CdHash, Chip, Sha256Digest, Workload};
use capgate_registry::document::{self, Problem, Table};
use capgate_registry::os::Build;

/// Largest facts file that is read, in bytes.
pub const MAX_FACTS: usize = 4_000;

/// One fact. What is not known matches nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact<T> {
    /// Known.
    Known(T),
    /// Not known.
    Missing,
    /// Something was there that cannot be what it should be; the text says what.
    Malformed(String),
}

impl<T> Fact<T> {
    /// The value, where it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Missing | Self::Malformed(_) => None,
        }
    }

    /// Takes what the system or a file gave, `None` where it gave nothing.
    pub fn read<E: fmt::Display>(text: Option<&str>, parse: impl FnOnce(&str) -> Result<T, E>) -> Self {
        match text.map(parse) {
            None => Self::Missing,
            Some(Ok(value)) => Self::Known(value),
            Some(Err(e)) => Self::Malformed(e.to_string()),
        }
    }
}

/// Says whether the program's SHA-256 is that of the program that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sha256Trust {
    /// The cdhash computed from the same bytes is the one that the kernel gives for the running program.
    SameBytes,
    /// No program runs: the file, or its digest, is what was asked about.
    Asked,
    /// The file may have been replaced since the program started, so the digest does not count.
    Unproven,
}

/// Identity of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// SHA-256 of its executable file.
    pub sha256: Fact<Sha256Digest>,
    /// Whether that digest counts.
    pub sha256_trust: Sha256Trust,
    /// Its code directory hash.
    pub cdhash: Fact<CdHash>,
}

impl Program {
    /// A program that is asked about by one digest.
    pub fn asked(workload: Workload) -> Self {
        let (sha256, cdhash) = match workload {
            Workload::Sha256(digest) => (Fact::Known(digest), Fact::Missing),
            Workload::CdHash(digest) => (Fact::Missing, Fact::Known(digest)),
        };
        Self { sha256, sha256_trust: Sha256Trust::Asked, cdhash }
    }

    /// The identities that count, SHA-256 first.
    pub fn identities(&self) -> impl Iterator<Item = Workload> {
        let sha256 = match self.sha256_trust {
            Sha256Trust::SameBytes | Sha256Trust::Asked => self.sha256.known(),
            Sha256Trust::Unproven => None,
        };
        let sha256 = sha256.copied().map(Workload::Sha256);
        sha256.into_iter().chain(self.cdhash.known().copied().map(Workload::CdHash))
    }
}

/// A MAC address, six pairs of lower-case hexadecimal digits with colons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

/// Says why a MAC address is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a MAC address such as `5e:12:ab:00:34:f0`")]
pub struct MacAddressError(String);

impl MacAddress {
    /// The address with these bytes; all zeros are none.
    pub fn from_bytes(bytes: [u8; 6]) -> Option<Self> {
        (bytes != [0; 6]).then_some(Self(bytes))
    }
}

impl FromStr for MacAddress {
    type Err = MacAddressError;

    fn from_str(text: &str) -> Result<Self, MacAddressError> {
        let error = || MacAddressError(text.chars().take(40).collect());
        let mut bytes = [0u8; 6];
        let mut pairs = text.split(':');
        for byte in &mut bytes {
            let pair = pairs.next().ok_or_else(error)?;
            let lower = pair.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
            if !lower || pair.len() != 2 {
                return Err(error());
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| error())?;
        }
        if pairs.next().is_some() || bytes == [0; 6] { Err(error()) } else { Ok(Self(bytes)) }
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What stands behind the facts: this machine, or a file that describes a combination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This machine, which sees its host's macOS only through a host statement.
    Machine {
        /// Whether it is a virtual machine.
        virtual_machine: Fact<bool>,
        /// `hw.model`.
        guest_model: Fact<String>,
        /// Its network addresses. They matter only where the host statement names some.
        mac_addresses: Fact<Vec<MacAddress>>,
    },
    /// A facts file. It stands in for the host statement and says nothing about any one machine.
    File {
        /// Build of the host's macOS.
        host_os_build: Fact<Build>,
    },
}

/// Everything known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Chip of the host, as the guest or the file names it.
    pub host_chip: Fact<Chip>,
    /// Build of the guest's macOS.
    pub guest_os_build: Fact<Build>,
    /// The program.
    pub program: Program,
    /// Where the facts come from, and what only that source knows.
    pub source: Source,
}

impl Facts {
    /// `statement` or `file`: what names the host's macOS. It goes to the log.
    pub fn host_source(&self) -> &'static str {
        match self.source {
            Source::Machine { .. } => "statement",
            Source::File { .. } => "file",
        }
    }
}

/// Takes `hw.model` as a fact.
pub fn guest_model(text: Option<&str>) -> Fact<String> {
    let sound = |text: &str| {
        let good = (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if good {
            Ok(text.to_owned())
        } else {
            Err(format!("`{}` is no model", text.escape_debug().take(80).collect::<String>()))
        }
    };
    Fact::read(text, sound)
}

/// Reads a facts file: TOML with the keys `host_chip`, `host_os_build`, `guest_os_build`, `workload`.
///
/// A key left out is an unknown fact, and a value that cannot be what it should be is a malformed one, so that the
/// decision names it. Problems are returned only for what is no facts file at all: other keys, other types, no TOML.
pub fn parse_facts_file(toml: &[u8]) -> Result<Facts, Vec<Problem>> {
    let (facts, problems) = document::read(toml, MAX_FACTS, |root| {
        let host_chip = take(root, "host_chip");
        let host_os_build = take(root, "host_os_build");
        let guest_os_build = take(root, "guest_os_build");
        let program = match take::<Workload>(root, "workload") {
            Fact::Known(workload) => Program::asked(workload),
            Fact::Missing => unknown_program(Fact::Missing),
            Fact::Malformed(why) => unknown_program(Fact::Malformed(why)),
        };
        root.finish();
        Some(Facts { host_chip, guest_os_build, program, source: Source::File { host_os_build } })
    });
    facts.ok_or(problems)
}

fn take<T: FromStr<Err: fmt::Display>>(root: &Table<'_>, key: &'static str) -> Fact<T> {
    Fact::read(root.string(key).map(|s| s.value), str::parse)
}

fn unknown_program(sha256: Fact<Sha256Digest>) -> Program {
    Program { sha256, sha256_trust: Sha256Trust::Asked, cdhash: Fact::Missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_facts_file_keeps_what_is_missing_or_malformed_as_such() {
        let facts = parse_facts_file(
            b"host_chip = \"Apple M1 Ultra (Virtual)\"\nhost_os_build = \"25G76\"\nworkload = \"md5:00\"\n",
        )
        .unwrap();
        assert!(matches!(facts.host_chip, Fact::Malformed(_)));
        assert_eq!(facts.guest_os_build, Fact::Missing);
        assert!(matches!(facts.program.sha256, Fact::Malformed(_)));
        assert_eq!(facts.source, Source::File { host_os_build: Fact::Known("25G76".parse().unwrap()) });
        assert_eq!(facts.host_source(), "file");
    }

    #[test]
    fn other_keys_and_types_are_no_facts_file() {
        let problems = parse_facts_file(b"host_chp = \"Apple M1\"\nguest_os_build = 25\n").unwrap_err();
        let messages: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
        assert_eq!(
            messages,
            ["unknown key `host_chp`", "`guest_os_build` must be a string, not a whole number"]
        );
        assert_eq!(problems[0].help.as_deref(), Some("did you mean `host_chip`?"));
    }

    #[test]
    fn a_digest_of_replaced_bytes_does_not_count() {
        let sha256: Sha256Digest = "1".repeat(64).parse().unwrap();
        let mut program = Program::asked(Workload::Sha256(sha256));
        assert_eq!(program.identities().count(), 1);
        program.sha256_trust = Sha256Trust::Unproven;
        assert_eq!(program.identities().count(), 0);
    }

    #[test]
    fn mac_addresses_have_one_spelling() {
        let good = "5e:12:ab:00:34:f0";
        assert_eq!(good.parse::<MacAddress>().unwrap().to_string(), good);
        for text in ["5E:12:ab:00:34:f0", "5e:12:ab:0:34:f0", "5e-12-ab-00-34-f0", "5e:12:ab:00:34", ""] {
            assert!(text.parse::<MacAddress>().is_err(), "{text}");
        }
        assert!("5e:12:ab:00:34:f0:11".parse::<MacAddress>().is_err());
        assert!("00:00:00:00:00:00".parse::<MacAddress>().is_err());
    }

    #[test]
    fn models_are_plain_words() {
        assert_eq!(guest_model(Some("VirtualMac2,1")), Fact::Known("VirtualMac2,1".to_owned()));
        assert_eq!(guest_model(None), Fact::Missing);
        for text in ["", "Virtual Mac", "VirtualMac\u{202e}", "VirtualMac2,1\n"] {
            assert!(matches!(guest_model(Some(text)), Fact::Malformed(_)), "{text:?}");
        }
    }
}
