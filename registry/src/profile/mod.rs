//! Profiles: what was tested, on exactly which combination, and what may therefore be reported.
//!
//! A profile is a TOML document of at most [`MAX_BYTES`]. [`Profile::parse`] understands one; [`lint`] also holds it
//! against every rule that a profile must keep before it is published. The published bytes are never re-serialised.

mod bounds;
mod evidence;
mod id;
mod read;
mod recall;
mod revocation;
mod rules;
#[cfg(feature = "evidence")]
pub mod schema;

use crate::combination::{CdHash, Chip, Combination, Key, Sha256Digest, Workload as WorkloadId};
use crate::document::Problem;
use crate::os::{Build, Os};

pub use bounds::{APPLE_FAMILIES, THREADGROUP_MEMORIES, Values};
pub use evidence::{Arm, Evidence, EvidenceKind, Model, OUTCOMES, Outcome, Shim, ShimName, TestResult};
pub use id::{IdError, ProfileId};
pub use read::{read_os, read_schema};
pub use recall::{Recalled, recall};
pub use revocation::{Revocation, Severity};
pub use rules::{INTERPRETERS, is_interpreter, must_acknowledge};

/// Largest profile that is read, in bytes.
pub const MAX_BYTES: usize = 16_000;
/// Version of the profile format that this crate reads: the same major version, and nothing newer.
pub const SCHEMA: semver::Version = semver::Version::new(1, 0, 0);

/// What the test of a combination concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// At least one set of values was tested and may be reported.
    Override,
    /// Tested, and no override is wanted.
    Stock,
}

/// Words of [`Verdict`].
pub const VERDICTS: [(&str, Verdict); 2] = [("override", Verdict::Override), ("stock", Verdict::Stock)];

/// The host preference `ForceUnrestrictedDeviceFeatureLevel` while it was tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureLevel {
    /// The preference was on.
    Unrestricted,
    /// The preference was off.
    Default,
    /// Nobody wrote it down.
    Unrecorded,
}

/// Words of [`FeatureLevel`].
pub const FEATURE_LEVELS: [(&str, FeatureLevel); 3] = [
    ("unrestricted", FeatureLevel::Unrestricted),
    ("default", FeatureLevel::Default),
    ("unrecorded", FeatureLevel::Unrecorded),
];

/// Something about an override set that is said aloud, never silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Acknowledgement {
    /// The ceiling lies above the family that the host's own GPU reports.
    AboveHostFamily,
    /// The memory lies above what the host's own GPU reports.
    AboveHostMemory,
    /// The images that talk to Metal were not recorded.
    ImagesUnrecorded,
}

/// Words of [`Acknowledgement`].
pub const ACKNOWLEDGEMENTS: [(&str, Acknowledgement); 3] = [
    ("above-host-family", Acknowledgement::AboveHostFamily),
    ("above-host-memory", Acknowledgement::AboveHostMemory),
    ("images-unrecorded", Acknowledgement::ImagesUnrecorded),
];

impl Acknowledgement {
    /// The word in a profile.
    pub fn word(self) -> &'static str {
        match self {
            Self::AboveHostFamily => "above-host-family",
            Self::AboveHostMemory => "above-host-memory",
            Self::ImagesUnrecorded => "images-unrecorded",
        }
    }
}

/// What a GPU answers by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// Highest Apple family, for example 1005; `None` where a guest names none.
    pub apple_family: Option<u64>,
    /// `maxThreadgroupMemoryLength` in bytes.
    pub max_threadgroup_memory: u64,
}

/// The host of the test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its chip.
    pub chip: Chip,
    /// Its macOS.
    pub os: Os,
    /// What its own GPU answers.
    pub answers: Answers,
    /// The host preference during the test.
    pub feature_level: FeatureLevel,
}

/// The guest of the test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// Its macOS.
    pub os: Os,
    /// `hw.model`, for example `VirtualMac2,1`.
    pub model: String,
    /// The original answers it was tested against.
    pub stock: Answers,
}

/// A non-system image that may touch Metal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// File name.
    pub name: String,
    /// Code directory hash.
    pub cdhash: Option<CdHash>,
    /// SHA-256 of the file.
    pub sha256: Option<Sha256Digest>,
}

/// The program that was tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its version, as its makers write it.
    pub version: String,
    /// SHA-256 of its executable file.
    pub sha256: Option<Sha256Digest>,
    /// Code directory hash of its executable.
    pub cdhash: Option<CdHash>,
    /// Uses that the test did not cover.
    pub not_covered: Vec<String>,
    /// Images that may touch Metal; empty when they were not recorded.
    pub images: Vec<Image>,
}

/// One tested set of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverrideSet {
    /// The values.
    pub values: Values,
    /// What is said aloud about them.
    pub acknowledges: Vec<Acknowledgement>,
}

/// A profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Version of the format.
    pub schema: semver::Version,
    /// Its id, never used again.
    pub id: ProfileId,
    /// The conclusion.
    pub verdict: Verdict,
    /// One line for people.
    pub summary: String,
    /// The earlier profile of the same combination that this one replaces.
    pub supersedes: Option<ProfileId>,
    /// The host.
    pub host: Host,
    /// The guest.
    pub guest: Guest,
    /// The program.
    pub workload: Workload,
    /// Tested sets, the preferred one first.
    pub overrides: Vec<OverrideSet>,
    /// What was judged.
    pub evidence: Vec<Evidence>,
}

impl Profile {
    /// Reads a profile. Broken rules do not matter here: what a published profile may still do is decided by policy.
    pub fn parse(toml: &[u8]) -> Result<Self, Vec<Problem>> {
        let (profile, problems) = read::read(toml);
        profile.ok_or(problems)
    }

    /// The combinations it was tested on: one for each digest of the workload, none without.
    pub fn combinations(&self) -> Vec<Combination> {
        let sha256 = self.workload.sha256.map(WorkloadId::Sha256);
        let cdhash = self.workload.cdhash.map(WorkloadId::CdHash);
        sha256.into_iter().chain(cdhash).map(|workload| self.combination_with(workload)).collect()
    }

    /// Keys of its [`combinations`](Self::combinations), or, where it names no digest, the one key under which only
    /// listings find it.
    pub fn keys(&self) -> Vec<Key> {
        let keys: Vec<Key> = self.combinations().iter().map(Combination::key).collect();
        if keys.is_empty() { vec![self.id.key()] } else { keys }
    }

    /// The key of its combination with this program, whether or not it names it.
    pub fn key_with(&self, workload: WorkloadId) -> Key {
        self.combination_with(workload).key()
    }

    /// The evidence about one set of values.
    pub fn evidence_for(&self, values: Values) -> impl Iterator<Item = &Evidence> {
        self.evidence.iter().filter(move |item| item.values == Some(values))
    }

    /// Build of the host's macOS.
    pub fn host_build(&self) -> &Build {
        &self.host.os.build
    }

    fn combination_with(&self, workload: WorkloadId) -> Combination {
        Combination {
            host_chip: self.host.chip.clone(),
            host_os: self.host.os.build.clone(),
            guest_os: self.guest.os.build.clone(),
            workload,
        }
    }
}

/// Every problem of a profile: what makes it unreadable and every rule it breaks, sorted by place.
pub fn lint(toml: &[u8]) -> (Option<Profile>, Vec<Problem>) {
    read::read(toml)
}
