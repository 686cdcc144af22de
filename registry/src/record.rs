//! What a registry holds about one key, and the doubts under which it holds nothing.

use jiff::Timestamp;

use crate::combination::{Key, Sha256Digest};
use crate::profile::{Profile, Revocation};
use crate::witness::Quorum;

/// Says why nothing of a registry may be believed now. Each has one stable code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// There is no registry.
    #[error("no registry: {0}")]
    Missing(String),
    /// It could not be read.
    #[error("the registry cannot be read: {0}")]
    Unreadable(String),
    /// A part does not have the form it must have, or is newer than this program.
    #[error("the registry is malformed: {0}")]
    Malformed(String),
    /// Too few of the keys that must sign have signed.
    #[error("the registry is not signed as it must be: {0}")]
    Unsigned(String),
    /// The first root is not the pinned one.
    #[error("the registry belongs to another root of trust: {0}")]
    WrongKey(String),
    /// It names another origin.
    #[error("the registry has another origin: {0}")]
    WrongOrigin(String),
    /// Its signature of freshness, or its trust, is past its date.
    #[error("the registry expired: {0}")]
    Expired(String),
    /// A newer one was seen before.
    #[error("the registry is older than one that was verified before: {0}")]
    Rollback(String),
    /// A part is not what was signed.
    #[error("the registry was changed: {0}")]
    Corrupt(String),
    /// Too few of the witnesses that the site demands have cosigned its checkpoint.
    #[error("the registry is not witnessed as this site demands: {0}")]
    Unwitnessed(String),
    /// The clock stands before a time that a verified signature names.
    #[error("the clock is behind: {0}")]
    ClockBehind(String),
}

impl Doubt {
    /// The reason code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "registry-missing",
            Self::Unreadable(_) => "registry-unreadable",
            Self::Malformed(_) => "registry-malformed",
            Self::Unsigned(_) => "registry-unsigned",
            Self::WrongKey(_) => "registry-wrong-key",
            Self::WrongOrigin(_) => "registry-wrong-origin",
            Self::Expired(_) => "registry-expired",
            Self::Rollback(_) => "registry-rollback",
            Self::Corrupt(_) => "registry-corrupt",
            Self::Unwitnessed(_) => "registry-unwitnessed",
            Self::ClockBehind(_) => "clock-behind",
        }
    }
}

/// One published profile, as its verified note says.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Position in the log.
    pub index: u64,
    /// The profile.
    pub profile: Profile,
    /// Names of the publisher keys that signed it, sorted.
    pub signers: Vec<String>,
    /// Its revocation, where there is one.
    pub revoked: Option<Revocation>,
}

/// Everything in force under one key.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The key.
    pub key: Key,
    /// Profiles that nothing supersedes, in log order; revoked ones are among them.
    pub published: Vec<Published>,
}

/// Which registry was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Its origin.
    pub origin: String,
    /// Version of the snapshot, one more with each publication.
    pub version: u64,
    /// Root of the snapshot's tree.
    pub root: Sha256Digest,
    /// Records in the snapshot.
    pub size: u64,
    /// Entries in the log.
    pub log_size: u64,
    /// Version of the trust that was in force.
    pub trust_version: u64,
    /// When it was signed.
    pub issued: Timestamp,
    /// Until when it may be believed.
    pub expires: Timestamp,
    /// The demand for witnesses that it was found to meet.
    pub witnessed: Option<Quorum>,
}

impl View {
    /// Tells whether it needs renewing: [`crate::latest::nearly_expired`].
    pub fn nearly_expired(&self, now: Timestamp) -> bool {
        crate::latest::nearly_expired(self.issued, self.expires, now)
    }
}

/// Finds what is in force under a key. Implementations have verified whatever they return.
pub trait Lookup {
    /// The record, `None` when the registry holds none, or the doubt under which nothing can be said.
    fn lookup(&self, key: &Key) -> Result<Option<Record>, Doubt>;
    /// Which registry this is.
    fn view(&self) -> &View;
}
