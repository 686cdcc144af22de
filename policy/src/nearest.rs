//! The nearest profile to a combination that has none, and what differs. For people who ask; never for a decision.

use capgate_registry::combination::{Chip, Workload};
use capgate_registry::os::Build;
use capgate_registry::profile::Profile;
use serde::Serialize;

use crate::facts::{Facts, Source};
use crate::host::HostState;

/// What a profile is sought for; what is not known is `None` and matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The program's identities.
    pub identities: Vec<Workload>,
    /// The program's name, for example its file name.
    pub workload_name: Option<String>,
    /// The host's chip.
    pub host_chip: Option<Chip>,
    /// Build of the guest's macOS.
    pub guest_os_build: Option<Build>,
    /// Build of the host's macOS.
    pub host_os_build: Option<Build>,
}

impl Wanted {
    /// What facts and host statement say. A statement out of date still says which host it was.
    pub fn new(facts: &Facts, host: &HostState, workload_name: Option<String>) -> Self {
        let host_os_build = match (&facts.source, host) {
            (Source::File { host_os_build }, _) => host_os_build.known().cloned(),
            (Source::Machine { .. }, HostState::Signed(statement)) => Some(statement.os.build.clone()),
            (Source::Machine { .. }, _) => None,
        };
        Self {
            identities: facts.program.identities().collect(),
            workload_name,
            host_chip: facts.host_chip.known().cloned(),
            guest_os_build: facts.guest_os_build.known().cloned(),
            host_os_build,
        }
    }
}

/// Which part of a combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The program.
    Workload,
    /// The host's chip.
    HostChip,
    /// Build of the guest's macOS.
    GuestOsBuild,
    /// Build of the host's macOS.
    HostOsBuild,
}

/// One part that is not as it was tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which part.
    pub part: Part,
    /// What it is here; `None` where it is not known.
    pub here: Option<String>,
    /// What was tested.
    pub tested: String,
}

/// The nearest profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest<'p> {
    /// The profile.
    pub profile: &'p Profile,
    /// What differs, in the order of [`Part`]; empty when nothing does.
    pub differences: Vec<Difference>,
}

/// How much agrees, the most telling part first: the same program, a program of the same name, then chip, guest OS and
/// host OS.
type Agreement = (bool, bool, bool, bool, bool);

/// Finds the nearest of `profiles`; of equally near ones, the one whose id sorts first. `None` when none has anything in
/// common with what is wanted.
pub fn nearest<'p>(wanted: &Wanted, profiles: impl IntoIterator<Item = &'p Profile>) -> Option<Nearest<'p>> {
    let mut best: Option<(Agreement, &Profile)> = None;
    for profile in profiles {
        let agreement = agreement(wanted, profile);
        let nearer =
            best.is_none_or(|(most, found)| agreement > most || (agreement == most && profile.id < found.id));
        if nearer && agreement != Agreement::default() {
            best = Some((agreement, profile));
        }
    }
    best.map(|(_, profile)| Nearest { profile, differences: differences(wanted, profile) })
}

fn agreement(wanted: &Wanted, profile: &Profile) -> Agreement {
    (
        same_program(wanted, profile),
        wanted.workload_name.as_ref() == Some(&profile.workload.name),
        wanted.host_chip.as_ref() == Some(&profile.host.chip),
        wanted.guest_os_build.as_ref() == Some(&profile.guest.os.build),
        wanted.host_os_build.as_ref() == Some(&profile.host.os.build),
    )
}

fn identities(profile: &Profile) -> impl Iterator<Item = Workload> {
    let sha256 = profile.workload.sha256.map(Workload::Sha256);
    sha256.into_iter().chain(profile.workload.cdhash.map(Workload::CdHash))
}

fn same_program(wanted: &Wanted, profile: &Profile) -> bool {
    identities(profile).any(|identity| wanted.identities.contains(&identity))
}

fn differences(wanted: &Wanted, profile: &Profile) -> Vec<Difference> {
    let mut found = Vec::new();
    if !same_program(wanted, profile) {
        let workload = &profile.workload;
        let name = wanted.workload_name.iter().cloned();
        let here: Vec<String> = name.chain(wanted.identities.iter().map(Workload::to_string)).collect();
        let tested = [workload.name.clone(), workload.version.clone()].into_iter();
        let tested: Vec<String> = tested.chain(identities(profile).map(|id| id.to_string())).collect();
        found.push(Difference {
            part: Part::Workload,
            here: (!here.is_empty()).then(|| here.join(" ")),
            tested: tested.join(" "),
        });
    }
    let mut compare = |part, here: Option<String>, tested: &str| {
        if here.as_deref() != Some(tested) {
            found.push(Difference { part, here, tested: tested.to_owned() });
        }
    };
    compare(Part::HostChip, wanted.host_chip.as_ref().map(Chip::to_string), profile.host.chip.as_str());
    let guest = wanted.guest_os_build.as_ref().map(Build::to_string);
    compare(Part::GuestOsBuild, guest, profile.guest.os.build.as_str());
    let host = wanted.host_os_build.as_ref().map(Build::to_string);
    compare(Part::HostOsBuild, host, profile.host.os.build.as_str());
    found
}
