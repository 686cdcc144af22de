//! What comes out of a decision, and the JSON that others rely on.

use capgate_registry::combination::Key;
use capgate_registry::profile::{ProfileId, Values};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::Grant;
use crate::reason::Reason;

/// Stock answers, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The one reason.
    pub reason: Reason,
    /// The facts behind it, for people.
    pub detail: Box<str>,
    /// The profile that it is about, where there is one.
    pub profile: Option<ProfileId>,
    /// The key that it is about, where one could be made.
    pub key: Option<Key>,
    /// The site rule that denied, where one did.
    pub rule: Option<Box<str>>,
    /// What would have been granted, where the last thing in the way was observing, logging or the device.
    pub withheld: Option<Values>,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, detail: impl Into<Box<str>>) -> Self {
        Self { reason, detail: detail.into(), profile: None, key: None, rule: None, withheld: None }
    }
}

/// A decision.
///
/// As JSON, both kinds have the same keys: `outcome`, `reason`, `apple_family_max`, `max_threadgroup_memory`, `profile`,
/// `key`, `tested_models`, `correctness`, `not_covered`, `rule`, `withheld`, `warnings`, `detail`; what does not apply is
/// null or empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Other values may be reported.
    Grant(Box<Grant>),
    /// The process sees Apple's own answers.
    Stock(Box<Refusal>),
}

impl Decision {
    /// Row 13: what is not logged is not granted. Stock answers stay stock for the reason they have.
    pub fn after_log<E: ToString>(self, written: Result<(), E>) -> Self {
        match (self, written) {
            (Self::Grant(grant), Err(e)) => {
                Self::Stock(Box::new(grant.withhold(Reason::LogUnwritable, e.to_string())))
            }
            (decision, _) => decision,
        }
    }

    /// The values that may be reported.
    pub fn values(&self) -> Option<Values> {
        self.grant().map(|grant| grant.values)
    }

    /// The grant, where it is one.
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Grant(grant) => Some(grant),
            Self::Stock(_) => None,
        }
    }

    /// The reason for stock answers, where it is no grant.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Grant(_) => None,
            Self::Stock(refusal) => Some(refusal.reason),
        }
    }
}

impl From<Refusal> for Decision {
    fn from(refusal: Refusal) -> Self {
        Self::Stock(Box::new(refusal))
    }
}

impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (grant, refusal) = match self {
            Self::Grant(grant) => (Some(grant.as_ref()), None),
            Self::Stock(refusal) => (None, Some(refusal.as_ref())),
        };
        let values = self.values();
        let profile = grant.map(|g| &g.profile).or(refusal.and_then(|r| r.profile.as_ref()));
        let key = grant.map(|g| g.key).or(refusal.and_then(|r| r.key));
        let mut out = serializer.serialize_struct("Decision", 13)?;
        out.serialize_field("outcome", if grant.is_some() { "grant" } else { "stock" })?;
        out.serialize_field("reason", &self.reason())?;
        out.serialize_field("apple_family_max", &values.map(|v| v.apple_family_max))?;
        out.serialize_field("max_threadgroup_memory", &values.map(|v| v.max_threadgroup_memory))?;
        out.serialize_field("profile", &profile.map(ProfileId::as_str))?;
        out.serialize_field("key", &key.map(|key| key.to_string()))?;
        out.serialize_field("tested_models", &grant.map_or(&[][..], |g| &g.tested_models))?;
        out.serialize_field("correctness", &grant.map(|g| g.correctness))?;
        out.serialize_field("not_covered", &grant.map_or(&[][..], |g| &g.not_covered))?;
        out.serialize_field("rule", &refusal.and_then(|r| r.rule.as_deref()))?;
        out.serialize_field("withheld", &refusal.and_then(|r| r.withheld))?;
        out.serialize_field("warnings", &grant.map_or(&[][..], |g| &g.warnings))?;
        out.serialize_field("detail", &refusal.map(|r| r.detail.as_ref()))?;
        out.end()
    }
}
