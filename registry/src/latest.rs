//! `snapshot/latest.note`: what is in force, and the one commit point of a registry.

use jiff::Timestamp;

use crate::document::{self, Problem};
use crate::merkle::Hash;
use crate::profile::SCHEMA;

/// Name of the note inside a registry.
pub const PATH: &str = "snapshot/latest.note";
/// Largest note that is read, in bytes.
pub const MAX_BYTES: u64 = 16 * 1024;

/// The last version that there can be: the largest number in TOML.
pub const LAST_VERSION: u64 = i64::MAX as u64;
/// More than this many versions nobody publishes: one a second for 285 million years. A version above it was signed by a
/// thief.
pub const PLAUSIBLE_VERSION: u64 = 1 << 53;

/// What `latest.note` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latest {
    /// One more with each publication.
    pub version: u64,
    /// Records in the snapshot.
    pub size: u64,
    /// Root of the tree over them.
    pub root: Hash,
    /// Entries in the log.
    pub log_size: u64,
    /// Root of the log's tree.
    pub log_root: Hash,
    /// Version of the trust.
    pub trust: u64,
    /// When it was signed.
    pub issued: Timestamp,
    /// Until when it may be believed.
    pub expires: Timestamp,
}

impl Latest {
    /// Reads the TOML behind the domain line.
    pub fn parse(toml: &[u8]) -> Result<Self, Vec<Problem>> {
        let cap = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
        let (latest, problems) = document::read(toml, cap, |root| {
            let schema = root.require_string("schema");
            if let Some(schema) = schema.filter(|s| s.value != SCHEMA.to_string()) {
                let message = format!("schema `{}` is not `{SCHEMA}`", schema.value);
                root.problems().malformed(schema.span, message, Some("use a newer capgate".into()));
            }
            let version = root.require_integer("version");
            let size = root.require_integer("size");
            let snapshot_root = root.require_parse("root");
            let log_size = root.require_integer("log_size");
            let log_root = root.require_parse("log_root");
            let trust = root.require_integer("trust");
            let issued = root.require_instant("issued");
            let expires = root.require_instant("expires");
            root.finish();
            Some(Self {
                version: version?.value,
                size: size?.value,
                root: snapshot_root?.value,
                log_size: log_size?.value,
                log_root: log_root?.value,
                trust: trust?.value,
                issued: issued?.value,
                expires: expires?.value,
            })
        });
        latest.ok_or(problems)
    }

    /// The bytes to sign, without the domain line.
    pub fn to_toml(&self) -> String {
        format!(
            "schema = \"{SCHEMA}\"\nversion = {}\nsize = {}\nroot = \"{}\"\nlog_size = {}\nlog_root = \"{}\"\n\
             trust = {}\nissued = {}\nexpires = {}\n",
            self.version,
            self.size,
            self.root,
            self.log_size,
            self.log_root,
            self.trust,
            self.issued,
            self.expires
        )
    }

    /// Name of the snapshot it speaks of: version and root, so that nothing else ever has that name.
    pub fn snapshot_path(&self) -> String {
        format!("snapshot/{}-{}.snap", self.version, self.root)
    }

    /// Name under which the log's new entries wait until they are committed.
    pub fn staged_path(&self) -> String {
        format!("log/staged/{}-{}", self.log_size, self.log_root)
    }

    /// Tells whether it needs renewing: [`nearly_expired`].
    pub fn nearly_expired(&self, now: Timestamp) -> bool {
        nearly_expired(self.issued, self.expires, now)
    }
}

/// Tells whether a third of a life, or less, is left. The one rule for every warning of expiry.
pub fn nearly_expired(issued: Timestamp, expires: Timestamp, now: Timestamp) -> bool {
    let life = expires.as_second() - issued.as_second();
    let left = expires.as_second() - now.as_second();
    left * 3 <= life
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_nearly_expired_from_exactly_a_third_left() {
        let day = |day: i64| Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * day);
        let second = jiff::SignedDuration::from_secs(1);
        assert!(!nearly_expired(day(0), day(30), day(20) - second));
        assert!(nearly_expired(day(0), day(30), day(20)));
        assert!(nearly_expired(day(0), day(30), day(31)));
    }
}
