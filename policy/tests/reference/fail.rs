//! One way or another to make each reason's check fail.

use capgate_policy::decide::{LoadedImage, Seen};
use capgate_policy::facts::{Fact, Sha256Trust, Source};
use capgate_policy::host::{HostState, HostStatement};
use capgate_policy::reason::Reason;
use capgate_policy::site::{Conditions, Mode};
use capgate_registry::combination::Hex;
use capgate_registry::keys::SigningKey;
use capgate_registry::profile::{
    Acknowledgement, EvidenceKind, FeatureLevel, Outcome, Profile, Values, Verdict,
};
use capgate_registry::record::Doubt;
use capgate_registry::witness::{Quorum, WitnessKey};
use jiff::SignedDuration;

use super::generate::{policy, random_conditions, rule, site_doubt, world_day};
use super::rng::Rng;
use crate::support::{World, cdhash, file, machine, revocation, sha256, statement};

pub fn because(reason: Reason, world: &mut World, rng: &mut Rng) {
    match reason.row() {
        1 if rng.one_in(2) => world.switched_off = true,
        1 => policy(world).mode = Mode::Off,
        2 => state(reason, world, rng),
        3 => facts(reason, world, rng),
        4 => host(reason, world, rng),
        5 => deny(world, rng),
        6..=8 => found(reason, world, rng),
        9 => profile(reason, world, rng),
        10..=12 => demand(reason, world, rng),
        _ => afterwards(reason, world, rng),
    }
}

fn state(reason: Reason, world: &mut World, rng: &mut Rng) {
    let text = String::from("a test");
    let second = SignedDuration::from_secs(1);
    let doubt = match reason {
        Reason::SiteUnreadable | Reason::SiteMalformed => {
            world.site_doubt = Some(site_doubt(reason == Reason::SiteMalformed));
            return;
        }
        Reason::ClockBehind if rng.one_in(3) => {
            world.seen = Some(Seen { version: 1, time: world.now + second });
            return;
        }
        Reason::ClockBehind if rng.one_in(2) => {
            world.registry.view.issued = world.now + second;
            return;
        }
        Reason::RegistryRollback if rng.one_in(2) => {
            world.seen = Some(Seen { version: 8, time: world.now });
            return;
        }
        Reason::RegistryExpired if rng.one_in(2) => {
            world.registry.view.expires = world.now;
            return;
        }
        Reason::RegistryCorrupt if rng.one_in(2) => return corrupt(world, rng),
        Reason::RegistryUnwitnessed if rng.one_in(2) => {
            policy(world).witnesses = Some(witnesses(1));
            // A demand that was met is not this one.
            world.registry.view.witnessed = rng.one_in(2).then(|| witnesses(2));
            return;
        }
        Reason::RegistryUnwitnessed => Doubt::Unwitnessed(text),
        Reason::RegistryMissing => Doubt::Missing(text),
        Reason::RegistryUnreadable => Doubt::Unreadable(text),
        Reason::RegistryMalformed => Doubt::Malformed(text),
        Reason::RegistryUnsigned => Doubt::Unsigned(text),
        Reason::RegistryWrongKey => Doubt::WrongKey(text),
        Reason::RegistryWrongOrigin => Doubt::WrongOrigin(text),
        Reason::ClockBehind => Doubt::ClockBehind(text),
        Reason::RegistryRollback => Doubt::Rollback(text),
        Reason::RegistryExpired => Doubt::Expired(text),
        _ => Doubt::Corrupt(text),
    };
    if rng.one_in(4) {
        world.registry.shelves.iter_mut().for_each(|shelf| shelf.doubt = Some(doubt.clone()));
    } else {
        world.registry_doubt = Some(doubt);
    }
}

pub fn witnesses(threshold: u64) -> Quorum {
    let key = |byte| SigningKey::from_seed("witness.test", [byte; 32]).unwrap().verifier().clone();
    Quorum::new(vec![WitnessKey::new(key(21)), WitnessKey::new(key(22))], threshold).unwrap()
}

/// Records that are not about the key that they stand under.
fn corrupt(world: &mut World, rng: &mut Rng) {
    if rng.one_in(2) {
        world.registry.shelves.iter_mut().for_each(|shelf| shelf.key = Some(Hex([7; 32])));
    } else {
        world.change_profiles(|profile| profile.host.os.build = "25G77".parse().unwrap());
    }
}

fn unknown<T>(missing: bool) -> Fact<T> {
    if missing { Fact::Missing } else { Fact::Malformed("a test".into()) }
}

fn facts(reason: Reason, world: &mut World, rng: &mut Rng) {
    let missing = reason.code().ends_with("-missing");
    let about_guest = reason.code().contains("virtual") || reason.code().contains("model");
    if about_guest || reason == Reason::FactNotAGuest {
        world.facts.source = machine();
    }
    if reason.code().contains("host-os") {
        world.facts.source = file();
    }
    match (reason, &mut world.facts.source) {
        (Reason::FactNotAGuest, Source::Machine { virtual_machine, .. }) => {
            *virtual_machine = Fact::Known(false);
        }
        (
            Reason::FactVirtualMachineMissing | Reason::FactVirtualMachineMalformed,
            Source::Machine { virtual_machine, .. },
        ) => {
            *virtual_machine = unknown(missing);
        }
        (
            Reason::FactGuestModelMissing | Reason::FactGuestModelMalformed,
            Source::Machine { guest_model, .. },
        ) => {
            *guest_model = unknown(missing);
        }
        (
            Reason::FactHostOsBuildMissing | Reason::FactHostOsBuildMalformed,
            Source::File { host_os_build },
        ) => {
            *host_os_build = unknown(missing);
        }
        (Reason::FactHostChipMissing | Reason::FactHostChipMalformed, _) => {
            world.facts.host_chip = unknown(missing);
        }
        (Reason::FactGuestOsBuildMissing | Reason::FactGuestOsBuildMalformed, _) => {
            world.facts.guest_os_build = unknown(missing);
        }
        (Reason::FactWorkloadMissing, _) => {
            world.facts.program.cdhash = Fact::Missing;
            if rng.one_in(2) {
                world.facts.program.sha256 = Fact::Missing;
            } else {
                world.facts.program.sha256_trust = Sha256Trust::Unproven;
            }
        }
        _ if rng.one_in(2) => world.facts.program.cdhash = unknown(false),
        _ => world.facts.program.sha256 = unknown(false),
    }
}

fn host(reason: Reason, world: &mut World, rng: &mut Rng) {
    world.facts.source = machine();
    let now = world.now;
    match reason {
        Reason::HostMissing => world.host = HostState::Missing,
        Reason::HostUnreadable => world.host = HostState::Unreadable("denied".into()),
        Reason::HostMalformed => world.host = HostState::Malformed("line 1".into()),
        Reason::HostWrongSigner => world.host = HostState::WrongSigner("signed by none".into()),
        Reason::HostNotYetValid => said(world).issued = now + SignedDuration::from_secs(1),
        Reason::HostExpired => said(world).expires = now,
        Reason::HostOtherChip => said(world).chip = "Apple M4 Pro".parse().unwrap(),
        Reason::HostOtherVm => {
            said(world).mac_addresses = vec!["5e:12:ab:00:34:f1".parse().unwrap()];
            if let (Source::Machine { mac_addresses, .. }, 0) = (&mut world.facts.source, rng.below(3)) {
                *mac_addresses = unknown(rng.one_in(2));
            }
        }
        _ => said(world).least_version = 8,
    }
}

fn said(world: &mut World) -> &mut HostStatement {
    if !matches!(world.host, HostState::Signed(_)) {
        world.host = HostState::Signed(statement());
    }
    match &mut world.host {
        HostState::Signed(said) => said,
        _ => unreachable!(),
    }
}

fn deny(world: &mut World, rng: &mut Rng) {
    let when = match rng.below(4) {
        0 => Conditions { apple_family_above: Some(1001), ..Conditions::default() },
        1 => Conditions { host_chip: "Apple M1 Ultra".parse().ok(), ..Conditions::default() },
        2 => Conditions { guest_os_version: ">=26.0.0".parse().ok(), ..Conditions::default() },
        _ => random_conditions(rng),
    };
    policy(world).deny.push(rule(9, when));
}

fn found(reason: Reason, world: &mut World, rng: &mut Rng) {
    match reason {
        Reason::NoProfile if rng.one_in(2) => {
            world.registry.shelves.iter_mut().for_each(|shelf| shelf.published.clear());
        }
        Reason::NoProfile => world.facts.guest_os_build = Fact::Known("25G90".parse().unwrap()),
        Reason::Revoked if rng.one_in(3) => {
            let at = rng.below(2);
            for published in &mut world.registry.shelves[at].published {
                published.revoked = Some(revocation(&published.profile));
            }
        }
        Reason::Revoked => {
            world.change_published(|published| published.revoked = Some(revocation(&published.profile)));
        }
        Reason::Ambiguous => twice(world, rng),
        _ if rng.one_in(4) => {
            let at = rng.below(2);
            for published in &mut world.registry.shelves[at].published {
                published.profile.verdict = Verdict::Stock;
            }
        }
        _ if rng.one_in(4) => world.change_profiles(|profile| profile.overrides.clear()),
        _ => world.change_profiles(|profile| profile.verdict = Verdict::Stock),
    }
}

/// A second profile beside the first, or two that the two identities lead to.
fn twice(world: &mut World, rng: &mut Rng) {
    let other = |profile: &mut Profile| profile.id = "another-profile".parse().unwrap();
    if rng.one_in(4) {
        for published in &mut world.registry.shelves[0].published {
            other(&mut published.profile);
        }
        return;
    }
    for shelf in &mut world.registry.shelves {
        for mut second in shelf.published.clone() {
            other(&mut second.profile);
            second.index += 1;
            shelf.published.push(second);
        }
    }
}

fn profile(reason: Reason, world: &mut World, rng: &mut Rng) {
    if reason == Reason::OutOfBounds {
        let at = rng.below(3);
        let values = rng.pick(&[(1011, 32_768), (1000, 65_536), (1009, 49_152), (3003, 32_768)]);
        world.change_profiles(|profile| {
            let at = at.min(profile.overrides.len().saturating_sub(1));
            if let Some(set) = profile.overrides.get_mut(at) {
                set.values = Values { apple_family_max: values.0, max_threadgroup_memory: values.1 };
            }
        });
        return;
    }
    if rng.one_in(3) {
        return another_program(world, rng);
    }
    world.facts.source = machine();
    if rng.one_in(2) {
        world.change_profiles(|profile| profile.guest.model = "VirtualMac2,2".into());
    } else if let HostState::Signed(said) = &mut world.host {
        said.feature_level = FeatureLevel::Default;
    }
}

/// Found by one digest, while the other, which both sides know, differs: on the machine or in the profile.
fn another_program(world: &mut World, rng: &mut Rng) {
    let found_by_sha256 = world.registry.shelves[1].published.is_empty()
        || (rng.one_in(2) && !world.registry.shelves[0].published.is_empty());
    let here = rng.one_in(2);
    let program = &mut world.facts.program;
    (program.sha256, program.cdhash) = (Fact::Known(sha256()), Fact::Known(cdhash()));
    program.sha256_trust = Sha256Trust::SameBytes;
    match (found_by_sha256, here) {
        (true, true) => program.cdhash = Fact::Known(Hex([0x77; 20])),
        (false, true) => program.sha256 = Fact::Known(Hex([0x77; 32])),
        (true, false) => {
            world.registry.shelves[1].published.clear();
            world.change_profiles(|profile| profile.workload.cdhash = Some(Hex([0x77; 20])));
        }
        (false, false) => {
            world.registry.shelves[0].published.clear();
            world.change_profiles(|profile| profile.workload.sha256 = Some(Hex([0x77; 32])));
        }
    }
}

fn demand(reason: Reason, world: &mut World, rng: &mut Rng) {
    match reason {
        Reason::EvidenceMissing => {
            let how = rng.below(3);
            world.change_profiles(|profile| match how {
                0 => profile.evidence.clear(),
                1 => profile.evidence.iter_mut().for_each(|item| item.values = None),
                _ => profile.evidence.iter_mut().filter_map(|item| item.values.as_mut()).for_each(|values| {
                    values.apple_family_max = 1010;
                }),
            });
        }
        Reason::Unacknowledged => silence(world, rng),
        Reason::EvidenceCorrectness if rng.one_in(2) => {
            policy(world).demand.correctness = true;
            world.change_profiles(|profile| {
                profile.evidence.retain(|item| item.kind == EvidenceKind::Speed);
            });
        }
        Reason::EvidenceCorrectness => world.change_profiles(|profile| {
            for item in profile.evidence.iter_mut() {
                item.kind = EvidenceKind::Correctness;
                item.outcome = Some(Outcome::Fail);
            }
        }),
        Reason::EvidenceSamples if rng.one_in(3) => {
            policy(world).demand.samples = Some(1);
            world.change_profiles(|profile| {
                profile
                    .evidence
                    .iter_mut()
                    .flat_map(|item| &mut item.tests)
                    .for_each(|test| test.changed = None);
            });
        }
        Reason::EvidenceSamples => policy(world).demand.samples = Some(21),
        Reason::EvidenceAge if rng.one_in(3) => {
            policy(world).demand.max_age_days = Some(1000);
            let day = world_day(-2);
            world.change_profiles(|profile| {
                profile.evidence.iter_mut().for_each(|item| item.measured = day);
            });
        }
        Reason::EvidenceAge => {
            policy(world).demand.max_age_days = Some(89);
            let day = world_day(90);
            world.change_profiles(|profile| {
                profile.evidence.iter_mut().for_each(|item| item.measured = day);
            });
        }
        Reason::EvidenceSigners if rng.one_in(2) => {
            policy(world).demand.min_signers = 2;
            policy(world).demand.signers.clear();
            world.change_published(|published| published.signers = vec!["alice".into(); 2]);
        }
        Reason::EvidenceSigners => {
            policy(world).demand.min_signers = 1;
            policy(world).demand.signers = vec!["dave".into()];
        }
        Reason::SiteCeiling => policy(world).ceiling.apple_family_max = Some(1006),
        _ => policy(world).mode = Mode::Observe,
    }
}

/// Something is so of every set, and none says it.
fn silence(world: &mut World, rng: &mut Rng) {
    let how = rng.below(4);
    world.change_profiles(|profile| {
        let unsaid = match how {
            0 | 1 => {
                profile.host.answers.apple_family = if how == 0 { None } else { Some(1005) };
                Acknowledgement::AboveHostFamily
            }
            2 => {
                profile.host.answers.max_threadgroup_memory = 16_384;
                Acknowledgement::AboveHostMemory
            }
            _ => {
                profile.workload.images.clear();
                Acknowledgement::ImagesUnrecorded
            }
        };
        profile.overrides.iter_mut().for_each(|set| set.acknowledges.retain(|&word| word != unsaid));
    });
}

fn afterwards(reason: Reason, world: &mut World, rng: &mut Rng) {
    let image =
        |name: &str, byte| LoadedImage { name: name.into(), sha256: Some(Hex([byte; 32])), cdhash: None };
    match reason {
        Reason::LogUnwritable => world.log = Err("no space left".into()),
        Reason::ImageUnrecorded => {
            let interpreter = rng.one_in(2);
            let name =
                rng.pick(&["python3.12", "python3.13t", "python3-intel64", "pythonw", "node22", "Rscript"]);
            world.change_profiles(|profile| {
                profile.workload.images.clear();
                for set in &mut profile.overrides {
                    set.acknowledges.push(Acknowledgement::ImagesUnrecorded);
                }
                if interpreter || profile.overrides.len() < 2 {
                    profile.workload.name = name.into();
                } else if let Some(last) = profile.overrides.last_mut() {
                    // The set before it says so.
                    last.acknowledges.retain(|&word| word != Acknowledgement::ImagesUnrecorded);
                }
            });
        }
        Reason::ImageUnlisted | Reason::ImageDiffers => {
            let listed = crate::support::World::tested().registry.shelves[0].published[0]
                .profile
                .workload
                .images
                .clone();
            world.change_profiles(|profile| profile.workload.images = listed.clone());
            world.device.images.retain(|image| image.name == "libggml-metal.so");
            let (name, byte) =
                if reason == Reason::ImageUnlisted { ("x.so", 1) } else { ("libggml-metal.so", 1) };
            let mut image = image(name, byte);
            if rng.one_in(3) {
                image.sha256 = None;
            } else if rng.one_in(2) && reason == Reason::ImageDiffers {
                // One digest agrees, the other does not.
                world.change_profiles(|profile| profile.workload.images[0].cdhash = Some(Hex([0x66; 20])));
                image.sha256 = Some(Hex([0x22; 32]));
                image.cdhash = Some(Hex([0x67; 20]));
                world.device.images.clear();
            }
            world.device.images.push(image);
        }
        _ if rng.one_in(2) => world.device.answers.apple_family = rng.pick(&[None, Some(1007)]),
        _ => world.device.answers.max_threadgroup_memory = 65_536,
    }
}
