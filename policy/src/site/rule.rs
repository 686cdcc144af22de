//! Deny rules and when they hold.

use capgate_registry::combination::{Chip, Workload};
use capgate_registry::os::{Build, Version};
use capgate_registry::profile::{Profile, ProfileId, Values};
use jiff::Timestamp;
use semver::VersionReq;

/// What a deny rule asks; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The host's chip is this one.
    pub host_chip: Option<Chip>,
    /// The host's macOS is this build.
    pub host_os_build: Option<Build>,
    /// The host's macOS has a version in this range.
    pub host_os_version: Option<VersionReq>,
    /// The guest's macOS is this build.
    pub guest_os_build: Option<Build>,
    /// The guest's macOS has a version in this range.
    pub guest_os_version: Option<VersionReq>,
    /// The program has this digest.
    pub workload: Option<Workload>,
    /// The profile is about a program of this name.
    pub workload_name: Option<String>,
    /// The profile has this id.
    pub profile: Option<ProfileId>,
    /// The set has an Apple family above this one.
    pub apple_family_above: Option<u64>,
    /// The set has more threadgroup memory than this, in bytes.
    pub max_threadgroup_memory_above: Option<u64>,
}

/// A deny rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenyRule {
    /// Its id, for the log.
    pub id: String,
    /// Why it is there.
    pub reason: String,
    /// Who can be asked about it.
    pub owner: String,
    /// From when on it no longer denies; `None` for a permanent rule.
    pub expires: Option<Timestamp>,
    /// When it denies.
    pub when: Conditions,
}

/// What the conditions are held against. By the time deny rules are asked, chip and builds are known.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub host_chip: &'a Chip,
    pub host_os: &'a Build,
    /// What the host statement says, where there is one.
    pub host_version: Option<&'a Version>,
    pub guest_os: &'a Build,
    pub identities: &'a [Workload],
    /// Every profile that was found, revoked ones included.
    pub profiles: Vec<&'a Profile>,
}

/// What a rule is asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject {
    /// Anything at all for this machine and program. Rules about values have nothing to say here.
    Anything,
    /// One tested set.
    Set(Values),
}

impl DenyRule {
    /// Tells whether the rule denies `subject` at `now`.
    ///
    /// It denies unless one of its conditions is known not to hold: what cannot be evaluated counts as holding, since
    /// the rule might have been written for exactly this.
    pub(crate) fn denies(&self, scene: &Scene<'_>, subject: Subject, now: Timestamp) -> bool {
        let expired = self.expires.is_some_and(|end| end <= now);
        !expired && !self.when.ruled_out(scene) && !self.when.values_ruled_out(subject)
    }
}

impl Conditions {
    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Tells whether any condition about machine, program or profile is known not to hold.
    fn ruled_out(&self, scene: &Scene<'_>) -> bool {
        differs(self.host_chip.as_ref(), scene.host_chip)
            || differs(self.host_os_build.as_ref(), scene.host_os)
            || differs(self.guest_os_build.as_ref(), scene.guest_os)
            || outside(self.host_os_version.as_ref(), scene.host_versions())
            || outside(self.guest_os_version.as_ref(), scene.guest_versions())
            || self.workload.is_some_and(|wanted| scene.is_another_program(wanted))
            || self.workload_name.as_ref().is_some_and(|name| scene.no_profile(|p| p.workload.name == *name))
            || self.profile.as_ref().is_some_and(|id| scene.no_profile(|p| p.id == *id))
    }

    fn values_ruled_out(&self, subject: Subject) -> bool {
        match subject {
            Subject::Anything => {
                self.apple_family_above.is_some() || self.max_threadgroup_memory_above.is_some()
            }
            Subject::Set(values) => {
                self.apple_family_above.is_some_and(|most| values.apple_family_max <= most)
                    || self
                        .max_threadgroup_memory_above
                        .is_some_and(|most| values.max_threadgroup_memory <= most)
            }
        }
    }
}

impl Scene<'_> {
    /// A build says no version, so versions come from who names one beside the same build: the host statement and the
    /// profiles that were found.
    fn host_versions(&self) -> impl Iterator<Item = &Version> {
        self.host_version.into_iter().chain(self.profiles.iter().map(|p| &p.host.os.version))
    }

    fn guest_versions(&self) -> impl Iterator<Item = &Version> {
        self.profiles.iter().map(|p| &p.guest.os.version)
    }

    /// Tells whether the program is known to be another one than `wanted`. Where no digest of that kind is known, it is
    /// not; but without any profile nothing could be granted, and `no-profile` says more than the rule would.
    fn is_another_program(&self, wanted: Workload) -> bool {
        let of_profiles = self.profiles.iter().flat_map(|p| {
            let sha256 = p.workload.sha256.map(Workload::Sha256);
            sha256.into_iter().chain(p.workload.cdhash.map(Workload::CdHash))
        });
        let mut known = self
            .identities
            .iter()
            .copied()
            .chain(of_profiles)
            .filter(|id| std::mem::discriminant(id) == std::mem::discriminant(&wanted))
            .peekable();
        if known.peek().is_none() { self.profiles.is_empty() } else { known.all(|id| id != wanted) }
    }

    fn no_profile(&self, is_meant: impl Fn(&Profile) -> bool) -> bool {
        !self.profiles.iter().any(|p| is_meant(p))
    }
}

fn differs<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
    wanted.is_some_and(|wanted| wanted != found)
}

/// Where two sources name two versions for one build, either may bring the rule into force.
fn outside<'v>(range: Option<&VersionReq>, mut versions: impl Iterator<Item = &'v Version>) -> bool {
    range.is_some_and(|range| !versions.any(|version| range.matches(&version.to_semver())))
}
