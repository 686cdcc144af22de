//! Revocations: records that end a profile without deleting it.

use super::id::ProfileId;
use super::read::read_schema;
use crate::document::{self, Problem};

/// Largest revocation that is read, in bytes.
pub const MAX_BYTES: usize = 4_000;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Wrong or stale.
    Withdrawn,
    /// Wrong output or crashes: every past grant is flagged too.
    Harmful,
}

/// Words of [`Severity`].
pub const SEVERITIES: [(&str, Severity); 2] =
    [("withdrawn", Severity::Withdrawn), ("harmful", Severity::Harmful)];

impl Severity {
    /// The word in a revocation.
    pub fn word(self) -> &'static str {
        match self {
            Self::Withdrawn => "withdrawn",
            Self::Harmful => "harmful",
        }
    }
}

/// A revocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// The profile that is revoked.
    pub revokes: ProfileId,
    /// Why, in one line.
    pub reason: String,
    /// How bad it is.
    pub severity: Severity,
}

impl Revocation {
    /// Reads a revocation.
    pub fn parse(toml: &[u8]) -> Result<Self, Vec<Problem>> {
        let (revocation, problems) = document::read(toml, MAX_BYTES, |root| {
            let schema = read_schema(root);
            let revokes = root.require_parse("revokes");
            let reason = root.require_string("reason");
            let severity = root.require_word("severity", &SEVERITIES);
            root.finish();
            schema?;
            Some(Self {
                revokes: revokes?.value,
                reason: reason?.value.to_owned(),
                severity: severity?.value,
            })
        });
        revocation.ok_or(problems)
    }

    /// The bytes to sign. `reason` must be free of control characters and quotes are escaped.
    pub fn to_toml(&self) -> String {
        let reason = self.reason.replace('\\', "\\\\").replace('"', "\\\"");
        format!(
            "schema = \"{}\"\nrevokes = \"{}\"\nreason = \"{reason}\"\nseverity = \"{}\"\n",
            super::SCHEMA,
            self.revokes,
            self.severity.word()
        )
    }
}
