//! What is known about the measurement beside its samples, and what nobody recorded.

use jiff::Timestamp;

use super::arm::ArmData;
use super::notes::Notes;
use crate::evidence::bundle::Contents;
use crate::evidence::codes::Code;
use crate::evidence::environment::{self, Environment, Side};
use crate::evidence::finding::Finding;
use crate::evidence::manifest::{Arm, Role, Workload};
use crate::profile::{FeatureLevel, Verdict};

/// Arms that began further apart than this, in seconds, may have met different conditions.
const MOST_SECONDS: i64 = 60 * 60;

/// Says everything about a workload that is not about one arm's samples.
pub(super) fn check(workload: &Workload, arms: &[ArmData], contents: &Contents, notes: &mut Notes) {
    times(arms, notes);
    environments(workload, contents, notes);
    if !arms.iter().any(|arm| arm.arm == Arm::Host) {
        notes.common(Code::NoHostArm, "no bare-metal arm: how much is left to gain is unknown");
    }
    if workload.host.feature_level == FeatureLevel::Unrecorded {
        let message = "nobody recorded whether `ForceUnrestrictedDeviceFeatureLevel` was set on the host";
        notes.common(Code::HostPreferenceUnrecorded, message);
    }
    if workload.sought == Verdict::Override && workload.program.images.is_empty() {
        let message = "the images that talk to Metal are not recorded beside the executable";
        notes.common(Code::ImagesUnrecorded, message);
    }
    values(workload, notes);
}

fn times(arms: &[ArmData], notes: &mut Notes) {
    let mut begun: Vec<(Timestamp, Arm)> = Vec::new();
    for arm in arms {
        let known: Vec<Timestamp> =
            arm.tests.iter().filter_map(|test| test.times.map(|(first, _)| first)).collect();
        match known.iter().min() {
            Some(first) => begun.push((*first, arm.arm)),
            None if arm.tests.is_empty() => {}
            None => {
                let message = format!("the {} arm does not say when it ran", arm.arm);
                let file = arm.files.first().map_or("", String::as_str);
                notes.of_file(arm.arm, file, Finding::new(Code::TimeUnrecorded, message));
            }
        }
    }
    let (Some(first), Some(last)) = (begun.iter().min(), begun.iter().max()) else { return };
    let seconds = last.0.as_second().saturating_sub(first.0.as_second());
    if seconds > MOST_SECONDS {
        let message = format!(
            "the arms began {} minutes apart: {} at {}, {} at {}",
            seconds / 60,
            first.1,
            first.0,
            last.1,
            last.0
        );
        notes.common(Code::ArmsApart, message);
    }
}

fn environments(workload: &Workload, contents: &Contents, notes: &mut Notes) {
    let mut read: Vec<(Environment, Option<Side>)> = Vec::new();
    for (path, of) in workload.items(Role::Environment) {
        let Some(bytes) = contents.get(path) else { continue };
        let Some(environment) = environment::read(bytes) else {
            notes.add(Finding::new(Code::UnknownKind, "says nothing about a machine").in_file(path));
            continue;
        };
        let side = of.map(|arm| if arm.is_guest() { Side::Guest } else { Side::Host });
        for finding in environment.findings() {
            notes.add(finding.in_file(path));
        }
        for why in contradictions(&environment, side, workload) {
            notes.add(Finding::new(Code::EnvironmentDiffers, why).in_file(path));
        }
        read.push((environment, side));
    }
    if read.is_empty() {
        return;
    }
    for (side, build) in [(Side::Host, &workload.host.os.build), (Side::Guest, &workload.guest.os.build)] {
        let confirms = |(environment, of): &(Environment, Option<Side>)| {
            environment
                .builds()
                .any(|(named, said)| named == build.as_str() && said.or(*of).is_none_or(|of| of == side))
        };
        if !read.iter().any(confirms) {
            let who = if side == Side::Host { "host" } else { "guest" };
            notes.common(
                Code::EnvironmentSilent,
                format!("no environment file names the {who}'s build `{build}`"),
            );
        }
    }
}

/// Where a file says of one side what the manifest says otherwise.
fn contradictions(environment: &Environment, of: Option<Side>, workload: &Workload) -> Vec<String> {
    let mut wrong = Vec::new();
    for (side, who, os) in
        [(Side::Host, "host", &workload.host.os), (Side::Guest, "guest", &workload.guest.os)]
    {
        let builds: Vec<&str> = environment
            .builds()
            .filter(|(_, said)| said.or(of) == Some(side))
            .map(|(build, _)| build)
            .collect();
        if !builds.is_empty() && !builds.contains(&os.build.as_str()) {
            let named = builds.join("`, `");
            wrong.push(format!("names build `{named}` of the {who}, the manifest `{}`", os.build));
        }
    }
    for chip in &environment.chips {
        if chip.side.or(of).is_some() && chip.name != workload.host.chip.as_str() {
            wrong.push(format!("names chip `{}`, the manifest `{}`", chip.name, workload.host.chip));
        }
    }
    wrong
}

fn values(workload: &Workload, notes: &mut Notes) {
    let host = &workload.host;
    if host.apple_family.is_none() || host.max_threadgroup_memory.is_none() {
        notes.common(Code::HostUnrecorded, "the host GPU's own answers are not recorded");
    }
    for set in &workload.sets {
        let arm = Arm::Override(set.values);
        let values = set.values;
        if !values.within_bounds() {
            notes.of_arm(
                arm,
                Finding::new(Code::OutOfBounds, format!("`{values}` is outside what can ever be granted")),
            );
        }
        if host.apple_family.is_some_and(|family| values.apple_family_max > family) {
            let own = host.apple_family.unwrap_or_default();
            let message =
                format!("claims family {}, the host's own GPU reports {own}", values.apple_family_max);
            notes.of_arm(arm, Finding::new(Code::AboveHostFamily, message));
        }
        if host.max_threadgroup_memory.is_some_and(|memory| values.max_threadgroup_memory > memory) {
            let own = host.max_threadgroup_memory.unwrap_or_default();
            let message = format!(
                "claims {} bytes of threadgroup memory, the host's own GPU {own}",
                values.max_threadgroup_memory
            );
            notes.of_arm(arm, Finding::new(Code::AboveHostMemory, message));
        }
        if set.shim.is_none() || set.shim_sha256.is_none() {
            notes.of_arm(
                arm,
                Finding::new(
                    Code::ShimUnrecorded,
                    format!("the shim of `{values}` is not recorded with its digest"),
                ),
            );
        }
    }
}
