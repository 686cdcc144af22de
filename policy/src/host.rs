//! Host statements: what a host says of itself to the guests that cannot see it.
//!
//! A statement is a signed note of kind `host`. Its origin is the registry whose snapshots `least_version` counts:
//!
//! ```text
//! # capgate host v1 example.org/gpu
//! chip = "Apple M1 Ultra"
//! os = { version = "26.6.1", build = "25G76" }
//! feature_level = "unrestricted"
//! mac_addresses = ["5e:12:ab:00:34:f0"]
//! least_version = 12
//! issued = 2026-11-20T10:00:00Z
//! expires = 2026-11-20T11:00:00Z
//!
//! — host-7 …
//! ```

use std::fmt::Write;

use capgate_registry::combination::Chip;
use capgate_registry::document::{self, Problem, Table};
use capgate_registry::keys::VerifierKey;
use capgate_registry::note::{self, Kind, Note, NoteError, Origin};
use capgate_registry::os::Os;
use capgate_registry::profile::{FEATURE_LEVELS, FeatureLevel, read_os, read_schema};
use jiff::Timestamp;

use crate::decide::Refusal;
use crate::facts::{Fact, MacAddress};
use crate::reason::Reason;

/// Largest host statement that is read, in bytes, signatures apart.
pub const MAX_STATEMENT: usize = 8_000;

/// What a host says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostStatement {
    /// Its chip.
    pub chip: Chip,
    /// Its macOS.
    pub os: Os,
    /// Its preference about feature levels.
    pub feature_level: FeatureLevel,
    /// The guests it is for; empty means every guest that can read it.
    pub mac_addresses: Vec<MacAddress>,
    /// The least snapshot version that its guests may use; 0 where it demands none.
    pub least_version: u64,
    /// When it was signed.
    pub issued: Timestamp,
    /// From when on it no longer counts.
    pub expires: Timestamp,
}

impl HostStatement {
    /// Reads the text behind the domain line.
    pub fn parse(toml: &[u8]) -> Result<Self, Vec<Problem>> {
        let (statement, problems) = document::read(toml, MAX_STATEMENT, read_statement);
        statement.ok_or(problems)
    }

    /// The text to put behind the domain line and sign.
    pub fn to_toml(&self) -> String {
        let level = FEATURE_LEVELS.iter().find(|(_, level)| *level == self.feature_level);
        let mut text = format!(
            "chip = \"{}\"\nos = {{ version = \"{}\", build = \"{}\" }}\nfeature_level = \"{}\"\n",
            self.chip.as_str().replace('\\', "\\\\").replace('"', "\\\""),
            self.os.version,
            self.os.build,
            level.map_or("unrecorded", |(word, _)| word),
        );
        if !self.mac_addresses.is_empty() {
            let all: Vec<String> = self.mac_addresses.iter().map(|mac| format!("\"{mac}\"")).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "mac_addresses = [{}]", all.join(", "));
        }
        if self.least_version > 0 {
            let _ = writeln!(text, "least_version = {}", self.least_version);
        }
        let _ = write!(text, "issued = {}\nexpires = {}\n", self.issued, self.expires);
        text
    }

    /// Judges its dates.
    pub fn check_time(&self, now: Timestamp) -> Result<(), Refusal> {
        let Self { issued, expires, .. } = self;
        if now < *issued {
            return Err(Refusal::new(Reason::HostNotYetValid, format!("it was issued at {issued}")));
        }
        if *expires <= now {
            return Err(Refusal::new(Reason::HostExpired, format!("it expired at {expires}")));
        }
        Ok(())
    }

    /// Judges whether it is about the machine with that chip.
    pub fn check_chip(&self, own: &Chip) -> Result<(), Refusal> {
        if self.chip == *own {
            return Ok(());
        }
        Err(Refusal::new(Reason::HostOtherChip, format!("it names `{}`, this is `{own}`", self.chip)))
    }

    /// Judges whether it is for the guest with those addresses. A statement that names guests counts for those alone; a
    /// guest that does not know its own address is none of them.
    pub fn check_guest(&self, own: &Fact<Vec<MacAddress>>) -> Result<(), Refusal> {
        let named = &self.mac_addresses;
        if named.is_empty() {
            return Ok(());
        }
        let refuse = |detail: &str| Err(Refusal::new(Reason::HostOtherVm, detail));
        match own {
            Fact::Known(own) if own.iter().any(|mac| named.contains(mac)) => Ok(()),
            Fact::Known(_) => refuse("it names other MAC addresses than this guest's"),
            Fact::Missing => refuse("it names MAC addresses, and this guest's are not known"),
            Fact::Malformed(why) => refuse(why),
        }
    }
}

fn read_statement(root: &Table<'_>) -> Option<HostStatement> {
    let schema = if root.has("schema") { read_schema(root).map(drop) } else { Some(()) };
    let chip = root.require_parse("chip");
    let os = root.require_table("os").and_then(|t| read_os(&t));
    let feature_level = root.require_word("feature_level", &FEATURE_LEVELS);
    let mac_addresses = root.parse_all("mac_addresses").into_iter().map(|s| s.value).collect::<Vec<_>>();
    // An empty list would read as "for none" and mean "for all".
    if root.has("mac_addresses") && mac_addresses.is_empty() {
        let help = "leave the key out where the statement is for every guest".to_owned();
        let span = root.span_of("mac_addresses");
        root.problems().malformed(span, "`mac_addresses` names no address", Some(help));
    }
    let least_version = root.integer("least_version").map_or(0, |s| s.value);
    let issued = root.require_instant("issued");
    let expires = root.require_instant("expires");
    root.finish();
    let (issued, expires) = (issued?.value, expires?);
    if expires.value <= issued {
        root.problems().malformed(expires.span.clone(), "`expires` is not after `issued`", None);
    }
    schema?;
    Some(HostStatement {
        chip: chip?.value,
        os: os?,
        feature_level: feature_level?.value,
        mac_addresses,
        least_version,
        issued,
        expires: expires.value,
    })
}

/// What is known of the host statement before the decision. Its dates are judged by the decision itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostState {
    /// There is none.
    Missing,
    /// It could not be read; the text says why.
    Unreadable(String),
    /// It does not have its form.
    Malformed(String),
    /// No known host key signed it.
    WrongSigner(String),
    /// A host key signed it.
    Signed(HostStatement),
}

impl HostState {
    /// Verifies the bytes of a host statement with the host keys of the site policy, then reads them.
    ///
    /// `origin` is that of the registry. One host key is enough: the keys stand for different hosts.
    pub fn verify(bytes: &[u8], keys: &[VerifierKey], origin: &Origin) -> Self {
        match signed_text(bytes, keys, origin) {
            Ok(text) => match HostStatement::parse(text.as_bytes()) {
                Ok(statement) => Self::Signed(statement),
                Err(problems) => Self::Malformed(first_message(&problems)),
            },
            Err(e @ (NoteError::TooFew { .. } | NoteError::Invalid { .. })) => {
                Self::WrongSigner(e.to_string())
            }
            Err(e) => Self::Malformed(e.to_string()),
        }
    }

    /// The statement, where a host key signed it; its dates and what it is about are not judged yet.
    pub fn signed(&self) -> Result<&HostStatement, Refusal> {
        match self {
            Self::Missing => Err(Refusal::new(Reason::HostMissing, "there is no host statement")),
            Self::Unreadable(why) => Err(Refusal::new(Reason::HostUnreadable, why.as_str())),
            Self::Malformed(why) => Err(Refusal::new(Reason::HostMalformed, why.as_str())),
            Self::WrongSigner(why) => Err(Refusal::new(Reason::HostWrongSigner, why.as_str())),
            Self::Signed(statement) => Ok(statement),
        }
    }
}

fn signed_text(bytes: &[u8], keys: &[VerifierKey], origin: &Origin) -> Result<String, NoteError> {
    let note = Note::parse(bytes)?;
    note.verify(keys, 1)?;
    note::body(note.text(), Kind::Host, origin).map(str::to_owned)
}

fn first_message(problems: &[Problem]) -> String {
    problems.first().map_or_else(String::new, |problem| problem.message.clone())
}

#[cfg(test)]
mod tests {
    use capgate_registry::keys::SigningKey;

    use super::*;

    fn statement() -> HostStatement {
        HostStatement {
            chip: "Apple M1 Ultra".parse().unwrap(),
            os: Os { version: "26.6.1".parse().unwrap(), build: "25G76".parse().unwrap() },
            feature_level: FeatureLevel::Unrestricted,
            mac_addresses: vec!["5e:12:ab:00:34:f0".parse().unwrap()],
            least_version: 12,
            issued: "2026-11-20T10:00:00Z".parse().unwrap(),
            expires: "2026-11-20T11:00:00Z".parse().unwrap(),
        }
    }

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed("host-7", [seed; 32]).unwrap()
    }

    fn origin() -> Origin {
        "example.org/gpu".parse().unwrap()
    }

    fn signed(kind: Kind, origin: &str, body: &str) -> Vec<u8> {
        let text = note::compose(kind, &origin.parse().unwrap(), body).unwrap();
        note::sign(&text, &[&key(1)]).unwrap()
    }

    fn verify(bytes: &[u8]) -> HostState {
        HostState::verify(bytes, &[key(1).verifier().clone()], &origin())
    }

    #[test]
    fn what_was_written_reads_back() {
        let bytes = signed(Kind::Host, "example.org/gpu", &statement().to_toml());
        assert_eq!(verify(&bytes), HostState::Signed(statement()));
        let plain = HostStatement { mac_addresses: Vec::new(), least_version: 0, ..statement() };
        assert_eq!(HostStatement::parse(plain.to_toml().as_bytes()), Ok(plain));
    }

    #[test]
    fn another_key_or_none_is_a_wrong_signer() {
        let bytes = signed(Kind::Host, "example.org/gpu", &statement().to_toml());
        let other = HostState::verify(&bytes, &[key(2).verifier().clone()], &origin());
        assert!(matches!(other, HostState::WrongSigner(_)));
        assert!(matches!(HostState::verify(&bytes, &[], &origin()), HostState::WrongSigner(_)));
    }

    #[test]
    fn another_kind_or_origin_or_form_is_malformed() {
        let body = statement().to_toml();
        for bytes in [
            signed(Kind::Latest, "example.org/gpu", &body),
            signed(Kind::Host, "example.org/other", &body),
            signed(Kind::Host, "example.org/gpu", &body.replace("25G76", "24G76")),
            signed(Kind::Host, "example.org/gpu", &body.replace("11:00:00Z", "10:00:00Z")),
            signed(Kind::Host, "example.org/gpu", &body.replace("[\"5e:12:ab:00:34:f0\"]", "[]")),
            signed(Kind::Host, "example.org/gpu", &format!("{body}schema = \"2.0.0\"\n")),
            b"chip = 1\n".to_vec(),
        ] {
            assert!(matches!(verify(&bytes), HostState::Malformed(_)), "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn every_changed_byte_loses_the_signature_or_the_form() {
        let bytes = signed(Kind::Host, "example.org/gpu", &statement().to_toml());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(!matches!(verify(&changed), HostState::Signed(_)), "byte {at}");
        }
    }
}
