//! Random worlds in which a grant and every reason occur often: a sound world is varied, one failure is aimed at, and
//! two times in five others are mixed in.

use capgate_policy::decide::{LoadedImage, Seen};
use capgate_policy::facts::{Fact, Program, Sha256Trust};
use capgate_policy::host::HostState;
use capgate_policy::site::{Conditions, DenyRule, SiteDoubt, SitePolicy};
use capgate_registry::combination::{Hex, Workload};
use capgate_registry::profile::{
    Acknowledgement, EvidenceKind, FeatureLevel, Image, Outcome, OverrideSet, Profile, Values,
};
use jiff::SignedDuration;

use super::rng::Rng;
use super::{decided, fail};
use crate::support::{World, cdhash, file, machine, sha256, site};

const SETS: [(u64, u64); 4] = [(1009, 65_536), (1007, 32_768), (1009, 32_768), (1008, 65_536)];

pub fn world(rng: &mut Rng) -> World {
    let mut world = World::tested();
    vary(&mut world, rng);
    // Grants are aimed at as often as two reasons.
    let aim = rng.below(decided().count() + 2);
    if rng.below(5) < 2 {
        if rng.one_in(2) {
            world.site = Some(random_policy(rng));
        }
        for _ in 0..rng.below(3) {
            fail::because(decided().nth(rng.below(decided().count())).unwrap(), &mut world, rng);
        }
    }
    if let Some(reason) = decided().nth(aim) {
        fail::because(reason, &mut world, rng);
    }
    world
}

pub fn policy(world: &mut World) -> &mut SitePolicy {
    world.site.get_or_insert_with(|| site(""))
}

/// Changes that leave everything sound.
fn vary(world: &mut World, rng: &mut Rng) {
    vary_profile(world, rng);
    world.facts.source = if rng.one_in(4) { file() } else { machine() };
    vary_identity(world, rng);
    if rng.one_in(2) {
        world.seen = rng.pick(&[None, Some(Seen { version: 3, time: world.now })]);
    }
    if let HostState::Signed(said) = &mut world.host {
        said.feature_level = rng.pick(&[FeatureLevel::Unrestricted, FeatureLevel::Unrecorded]);
        if rng.one_in(2) {
            said.mac_addresses.clear();
        }
    }
    if rng.one_in(2) {
        gentle_policy(policy(world), rng);
    }
    if rng.one_in(4) {
        let quorum = Some(fail::witnesses(2));
        world.registry.view.witnessed.clone_from(&quorum);
        // A demand that was met, and one that nobody makes any more.
        if rng.one_in(2) {
            policy(world).witnesses = quorum;
        }
    }
}

/// Rules, ceilings and demands that the varied profile may meet or not, but mostly does.
fn gentle_policy(policy: &mut SitePolicy, rng: &mut Rng) {
    policy.demand.samples = rng.pick(&[None, Some(3)]);
    policy.demand.max_age_days = rng.pick(&[None, Some(1000)]);
    policy.demand.min_signers = rng.pick(&[0, 1, 2]);
    policy.ceiling.apple_family_max = rng.pick(&[None, None, Some(1009), Some(1010)]);
    policy.deny = (0..rng.below(3)).map(|i| rule(i, elsewhere(rng))).collect();
}

fn elsewhere(rng: &mut Rng) -> Conditions {
    let mut when = Conditions::default();
    match rng.below(5) {
        0 => when.host_chip = Some("Apple M4 Pro".parse().unwrap()),
        1 => when.host_os_version = Some(">=27.0.0".parse().unwrap()),
        2 => when.workload = Some(Workload::Sha256(Hex([0x33; 32]))),
        3 => when.workload_name = Some("mlx-lm".into()),
        _ => when.apple_family_above = Some(1009),
    }
    when
}

pub fn rule(number: usize, when: Conditions) -> DenyRule {
    DenyRule {
        id: format!("rule-{number}"),
        reason: "a test".into(),
        owner: "tests".into(),
        expires: None,
        when,
    }
}

fn vary_profile(world: &mut World, rng: &mut Rng) {
    let mut profile = world.registry.shelves[0].published[0].profile.clone();
    let count = 1 + rng.below(3);
    let start = rng.below(SETS.len());
    let template = profile.evidence.clone();
    profile.overrides.clear();
    profile.evidence.clear();
    for &(family, memory) in SETS.iter().cycle().skip(start).take(count) {
        let values = Values { apple_family_max: family, max_threadgroup_memory: memory };
        let mut acknowledges = Vec::new();
        if family > 1007 {
            acknowledges.push(Acknowledgement::AboveHostFamily);
        }
        if memory > 32_768 {
            acknowledges.push(Acknowledgement::AboveHostMemory);
        }
        if rng.one_in(30) {
            acknowledges.pop();
        }
        profile.overrides.push(OverrideSet { values, acknowledges });
        if rng.one_in(30) {
            continue;
        }
        for item in template.iter().take(1 + rng.below(template.len())) {
            let mut item = item.clone();
            item.values = Some(values);
            item.measured = world_day(rng.pick(&[0, 5, 90, 400]));
            if item.kind == EvidenceKind::Speed {
                let samples = rng.pick(&[3, 5, 10, 20]);
                item.tests[0].stock.n = samples;
                item.tests[0].changed = item.tests[0].changed.map(|arm| {
                    let mut arm = arm;
                    arm.n = samples + u64::from(rng.one_in(2));
                    arm
                });
                if rng.one_in(20) {
                    item.tests[0].changed = None;
                }
            } else if rng.one_in(20) {
                item.outcome = Some(Outcome::Fail);
            }
            profile.evidence.push(item);
        }
    }
    vary_images(&mut profile, world, rng);
    let signers = rng.pick(&[vec!["alice", "bob"], vec!["alice", "bob", "carol"]]);
    world.change_published(|published| {
        published.profile = profile.clone();
        published.signers = signers.iter().map(|&name| name.to_owned()).collect();
    });
}

/// A day so long before the decision; -2 is a day after tomorrow.
pub fn world_day(ago: i64) -> jiff::civil::Date {
    jiff::civil::date(2026, 11, 20).checked_sub(SignedDuration::from_hours(24 * ago)).unwrap()
}

fn vary_images(profile: &mut Profile, world: &mut World, rng: &mut Rng) {
    if rng.one_in(3) {
        profile.workload.images.clear();
        profile.overrides.iter_mut().for_each(|set| set.acknowledges.push(Acknowledgement::ImagesUnrecorded));
        return;
    }
    let (sha256, cdhash) = (Some(Hex([0x44; 32])), Some(Hex([0x55; 20])));
    profile.workload.images.push(Image { name: "mlx.metallib".into(), sha256, cdhash });
    if rng.one_in(2) {
        let cdhash = rng.pick(&[None, cdhash]);
        world.device.images.push(LoadedImage { name: "mlx.metallib".into(), sha256, cdhash });
    }
}

/// One identity or both, on either side; the shelves follow the profile's digests.
fn vary_identity(world: &mut World, rng: &mut Rng) {
    match rng.below(4) {
        0 => world.facts.program = Program::asked(Workload::Sha256(sha256())),
        1 => world.facts.program = Program::asked(Workload::CdHash(cdhash())),
        2 => world.facts.program.sha256_trust = Sha256Trust::Unproven,
        _ => {}
    }
    match rng.below(6) {
        0 if world.facts.program.cdhash != Fact::Missing => {
            world.change_profiles(|profile| profile.workload.sha256 = None);
            world.registry.shelves[0].published.clear();
        }
        1 if world.facts.program.identities().any(|id| matches!(id, Workload::Sha256(_))) => {
            world.change_profiles(|profile| profile.workload.cdhash = None);
            world.registry.shelves[1].published.clear();
        }
        _ => {}
    }
}

/// A policy without any thought for what it is about.
fn random_policy(rng: &mut Rng) -> SitePolicy {
    let mut policy = site("");
    policy.deny = (0..rng.below(4)).map(|i| rule(i, random_conditions(rng))).collect();
    for rule in &mut policy.deny {
        rule.expires = rng.pick(&[
            None,
            Some("2026-11-20T12:00:00Z".parse().unwrap()),
            Some("2026-11-20T12:00:01Z".parse().unwrap()),
        ]);
    }
    policy.ceiling.apple_family_max = rng.pick(&[None, Some(1007), Some(1008), Some(1009)]);
    policy.ceiling.max_threadgroup_memory = rng.pick(&[None, Some(32_768), Some(65_536)]);
    policy.demand.correctness = rng.one_in(4);
    policy.demand.samples = rng.pick(&[None, Some(3), Some(10)]);
    policy.demand.max_age_days = rng.pick(&[None, Some(0), Some(30), Some(400)]);
    policy.demand.signers = rng.pick(&[vec![], vec!["alice".into()], vec!["carol".into(), "bob".into()]]);
    policy.demand.min_signers = u64::try_from(rng.below(3)).unwrap();
    policy
}

pub fn random_conditions(rng: &mut Rng) -> Conditions {
    let mut when = Conditions::default();
    for _ in 0..=rng.below(2) {
        match rng.below(10) {
            0 => when.host_chip = rng.pick(&["Apple M1 Ultra", "Apple M4"]).parse().ok(),
            1 => when.host_os_build = rng.pick(&["25G76", "25G90"]).parse().ok(),
            2 => when.host_os_version = rng.pick(&["26.6", ">=26.7.0", "<26.6.1"]).parse().ok(),
            3 => when.guest_os_build = rng.pick(&["25F84", "25G90"]).parse().ok(),
            4 => when.guest_os_version = rng.pick(&["=26.5.2", "~26.4"]).parse().ok(),
            5 => when.workload = Some(random_program(rng)),
            6 => when.workload_name = Some(rng.pick(&["llama-bench", "mlx-lm"]).into()),
            7 => when.profile = rng.pick(&["m1-ultra-25g76-25f84-llama-bench-b10167", "other"]).parse().ok(),
            8 => when.apple_family_above = Some(rng.pick(&[1006, 1007, 1008])),
            _ => when.max_threadgroup_memory_above = Some(rng.pick(&[1, 32_768])),
        }
    }
    when
}

fn random_program(rng: &mut Rng) -> Workload {
    rng.pick(&[
        Workload::Sha256(sha256()),
        Workload::Sha256(Hex([0x33; 32])),
        Workload::CdHash(cdhash()),
        Workload::CdHash(Hex([0x33; 20])),
    ])
}

pub fn site_doubt(malformed: bool) -> SiteDoubt {
    if malformed { SiteDoubt::Malformed("line 3".into()) } else { SiteDoubt::Unreadable("denied".into()) }
}
