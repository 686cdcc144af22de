//! What the answer must be, worked out by sets: *every* check is made, each for itself, and the answer is read off
//! which of them failed. Nothing stops at the first failure, and no code is shared with `decide`.

use std::collections::BTreeSet;

use capgate_policy::facts::{Fact, Sha256Trust, Source};
use capgate_policy::host::HostState;
use capgate_policy::reason::Reason;
use capgate_policy::site::{DenyRule, Mode, SiteDoubt, SitePolicy};
use capgate_registry::combination::{Combination, Key, Workload};
use capgate_registry::os::Build;
use capgate_registry::profile::{
    Acknowledgement, EvidenceKind, FeatureLevel, INTERPRETERS, Outcome, Profile, Values, Verdict,
};
use capgate_registry::record::{Doubt, Lookup, Published, Record};

use crate::support::World;

/// Either the values, or the failed check that decides. Reasons are ordered as they are checked.
pub type Answer = Result<Values, Reason>;

type Failed = BTreeSet<Reason>;

pub fn answer(world: &World) -> Answer {
    let before = [switches(world), belief(world), facts(world), host(world)].concat();
    if let Some(first) = before.into_iter().min() {
        return Err(first);
    }
    let records = records(world)?;
    let mut whole = about_registry(&records);
    whole.extend(about_machine(world, &records));
    let Some(published) = only_override(&records) else {
        return Err(*whole.iter().min().expect("a world without an override has a reason"));
    };
    whole.extend(about_profile(world, published));
    // Each set by itself. The set that got furthest decides, and of several that passed the first.
    let profile = &published.profile;
    let fates: Vec<(Values, Option<Reason>)> = profile
        .overrides
        .iter()
        .map(|set| (set.values, about_set(world, published, set.values).union(&whole).min().copied()))
        .collect();
    let Some((values, _)) = fates.iter().find(|(_, reason)| reason.is_none()) else {
        return Err(fates.iter().filter_map(|(_, reason)| *reason).max().expect("an override has a set"));
    };
    // Rows 13 and 14 are about the set that was granted, and never lead to another one.
    afterwards(world, profile).into_iter().min().map_or(Ok(*values), Err)
}

fn failed(checks: &[(bool, Reason)]) -> Vec<Reason> {
    checks.iter().filter(|(failed, _)| *failed).map(|(_, reason)| *reason).collect()
}

fn policy(world: &World) -> Option<&SitePolicy> {
    if world.site_doubt.is_some() { None } else { world.site.as_ref() }
}

fn switches(world: &World) -> Vec<Reason> {
    let off = world.switched_off || policy(world).is_some_and(|site| site.mode == Mode::Off);
    failed(&[(off, Reason::Disabled)])
}

fn of_doubt(doubt: &Doubt) -> Reason {
    Reason::from_code(doubt.code()).expect("every doubt has a reason")
}

fn belief(world: &World) -> Vec<Reason> {
    let site = match world.site_doubt {
        Some(SiteDoubt::Unreadable(_)) => vec![Reason::SiteUnreadable],
        Some(SiteDoubt::Malformed(_)) => vec![Reason::SiteMalformed],
        None => vec![],
    };
    if let Some(doubt) = &world.registry_doubt {
        return [vec![of_doubt(doubt)], site].concat();
    }
    let view = &world.registry.view;
    let seen_later = world.seen.is_some_and(|seen| seen.time > world.now);
    let seen_newer = world.seen.is_some_and(|seen| seen.version > view.version);
    let dates = failed(&[
        (view.issued > world.now || seen_later, Reason::ClockBehind),
        (seen_newer, Reason::RegistryRollback),
        (world.now >= view.expires, Reason::RegistryExpired),
    ]);
    let quorum = world.site.as_ref().and_then(|site| site.witnesses.as_ref());
    let unwitnessed = quorum.is_some() && view.witnessed.as_ref() != quorum;
    let witnesses = failed(&[(unwitnessed && site.is_empty(), Reason::RegistryUnwitnessed)]);
    [dates, site, witnesses].concat()
}

fn fact<T>(fact: &Fact<T>, missing: Reason, malformed: Reason) -> Vec<Reason> {
    failed(&[(matches!(fact, Fact::Missing), missing), (matches!(fact, Fact::Malformed(_)), malformed)])
}

fn facts(world: &World) -> Vec<Reason> {
    let facts = &world.facts;
    let of_source = match &facts.source {
        Source::Machine { virtual_machine, guest_model, .. } => [
            failed(&[(*virtual_machine == Fact::Known(false), Reason::FactNotAGuest)]),
            fact(virtual_machine, Reason::FactVirtualMachineMissing, Reason::FactVirtualMachineMalformed),
            fact(guest_model, Reason::FactGuestModelMissing, Reason::FactGuestModelMalformed),
        ]
        .concat(),
        Source::File { host_os_build } => {
            fact(host_os_build, Reason::FactHostOsBuildMissing, Reason::FactHostOsBuildMalformed)
        }
    };
    let program = &facts.program;
    let malformed =
        matches!(program.sha256, Fact::Malformed(_)) || matches!(program.cdhash, Fact::Malformed(_));
    [
        of_source,
        fact(&facts.host_chip, Reason::FactHostChipMissing, Reason::FactHostChipMalformed),
        fact(&facts.guest_os_build, Reason::FactGuestOsBuildMissing, Reason::FactGuestOsBuildMalformed),
        failed(&[
            (malformed, Reason::FactWorkloadMalformed),
            (!malformed && identities(world).is_empty(), Reason::FactWorkloadMissing),
        ]),
    ]
    .concat()
}

fn identities(world: &World) -> Vec<Workload> {
    let program = &world.facts.program;
    let mut all = Vec::new();
    if let (Fact::Known(digest), true) = (&program.sha256, program.sha256_trust != Sha256Trust::Unproven) {
        all.push(Workload::Sha256(*digest));
    }
    if let Fact::Known(digest) = &program.cdhash {
        all.push(Workload::CdHash(*digest));
    }
    all
}

fn host(world: &World) -> Vec<Reason> {
    let Source::Machine { mac_addresses, .. } = &world.facts.source else { return vec![] };
    let said = match &world.host {
        HostState::Missing => return vec![Reason::HostMissing],
        HostState::Unreadable(_) => return vec![Reason::HostUnreadable],
        HostState::Malformed(_) => return vec![Reason::HostMalformed],
        HostState::WrongSigner(_) => return vec![Reason::HostWrongSigner],
        HostState::Signed(said) => said,
    };
    let own: BTreeSet<_> = mac_addresses.known().into_iter().flatten().collect();
    let named: BTreeSet<_> = said.mac_addresses.iter().collect();
    failed(&[
        (said.issued > world.now, Reason::HostNotYetValid),
        (world.now >= said.expires, Reason::HostExpired),
        (world.facts.host_chip.known() != Some(&said.chip), Reason::HostOtherChip),
        (!named.is_empty() && named.is_disjoint(&own), Reason::HostOtherVm),
        (said.least_version > world.registry.view.version, Reason::HostNewerSnapshot),
    ])
}

fn host_build(world: &World) -> Build {
    match (&world.facts.source, &world.host) {
        (Source::File { host_os_build: Fact::Known(build) }, _) => build.clone(),
        (Source::Machine { .. }, HostState::Signed(said)) => said.os.build.clone(),
        _ => panic!("the host is known by now"),
    }
}

fn wanted(world: &World) -> Vec<Key> {
    let combination = |workload| Combination {
        host_chip: world.facts.host_chip.known().unwrap().clone(),
        host_os: host_build(world),
        guest_os: world.facts.guest_os_build.known().unwrap().clone(),
        workload,
    };
    identities(world).into_iter().map(|workload| combination(workload).key()).collect()
}

fn records(world: &World) -> Result<Vec<Record>, Reason> {
    let mut records = Vec::new();
    for key in wanted(world) {
        match world.registry.lookup(&key) {
            Err(doubt) => return Err(of_doubt(&doubt)),
            Ok(None) => {}
            Ok(Some(record)) => {
                let about = |p: &Published| p.profile.combinations().iter().any(|c| c.key() == key);
                if record.key != key || !record.published.iter().all(about) {
                    return Err(Reason::RegistryCorrupt);
                }
                records.push(record);
            }
        }
    }
    Ok(records)
}

fn lives(record: &Record) -> Vec<&Published> {
    record.published.iter().filter(|p| p.revoked.is_none()).collect()
}

fn asks_nothing(published: &Published) -> bool {
    published.profile.verdict == Verdict::Stock || published.profile.overrides.is_empty()
}

fn about_registry(records: &[Record]) -> Failed {
    let all: Vec<&Published> = records.iter().flat_map(lives).collect();
    let crowded = records.iter().any(|record| lives(record).len() > 1);
    let differ = all.iter().any(|a| all.iter().any(|b| a != b));
    let stock = all.iter().any(|p| asks_nothing(p));
    failed(&[
        (records.is_empty(), Reason::NoProfile),
        (records.iter().any(|record| lives(record).is_empty()), Reason::Revoked),
        (crowded || (differ && !stock), Reason::Ambiguous),
        (stock, Reason::VerdictStock),
    ])
    .into_iter()
    .collect()
}

fn only_override(records: &[Record]) -> Option<&Published> {
    if about_registry(records).is_empty() { records.iter().flat_map(lives).next() } else { None }
}

/// What is known about one condition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Truth {
    Yes,
    No,
    Unknown,
}

fn truth(holds: bool) -> Truth {
    if holds { Truth::Yes } else { Truth::No }
}

/// Every condition of a rule but those about values.
fn conditions(world: &World, records: &[Record], rule: &DenyRule) -> Vec<Truth> {
    let profiles: Vec<&Profile> = records.iter().flat_map(|r| &r.published).map(|p| &p.profile).collect();
    let said = match (&world.facts.source, &world.host) {
        (Source::Machine { .. }, HostState::Signed(said)) => vec![&said.os.version],
        _ => vec![],
    };
    let when = &rule.when;
    let mut all = Vec::new();
    all.extend(when.host_chip.as_ref().map(|chip| truth(world.facts.host_chip.known() == Some(chip))));
    all.extend(when.host_os_build.as_ref().map(|build| truth(host_build(world) == *build)));
    all.extend(when.guest_os_build.as_ref().map(|b| truth(world.facts.guest_os_build.known() == Some(b))));
    all.extend(when.host_os_version.as_ref().map(|range| {
        let of_profiles = profiles.iter().map(|p| &p.host.os.version);
        truth(of_profiles.chain(said.iter().copied()).any(|v| range.matches(&v.to_semver())))
    }));
    all.extend(
        when.guest_os_version
            .as_ref()
            .map(|range| truth(profiles.iter().any(|p| range.matches(&p.guest.os.version.to_semver())))),
    );
    all.extend(when.workload.as_ref().map(|program| program_is(world, &profiles, *program)));
    all.extend(when.workload_name.as_ref().map(|n| truth(profiles.iter().any(|p| p.workload.name == *n))));
    all.extend(when.profile.as_ref().map(|id| truth(profiles.iter().any(|p| p.id == *id))));
    all
}

fn program_is(world: &World, profiles: &[&Profile], program: Workload) -> Truth {
    let mut known: BTreeSet<Workload> = identities(world).into_iter().collect();
    for profile in profiles {
        known.extend(profile.workload.sha256.map(Workload::Sha256));
        known.extend(profile.workload.cdhash.map(Workload::CdHash));
    }
    let is_sha256 = |id: &Workload| matches!(id, Workload::Sha256(_));
    known.retain(|id| is_sha256(id) == is_sha256(&program));
    match (known.contains(&program), known.is_empty(), profiles.is_empty()) {
        (true, ..) => Truth::Yes,
        (false, true, false) => Truth::Unknown,
        _ => Truth::No,
    }
}

fn in_force(world: &World) -> impl Iterator<Item = &DenyRule> {
    let rules = policy(world).map_or(&[][..], |site| &site.deny);
    rules.iter().filter(|rule| rule.expires.is_none_or(|end| world.now < end))
}

fn is_about_values(rule: &DenyRule) -> bool {
    rule.when.apple_family_above.is_some() || rule.when.max_threadgroup_memory_above.is_some()
}

fn about_machine(world: &World, records: &[Record]) -> Failed {
    let denied = in_force(world)
        .filter(|rule| !is_about_values(rule))
        .any(|rule| conditions(world, records, rule).iter().all(|truth| *truth != Truth::No));
    failed(&[(denied, Reason::SiteDenied)]).into_iter().collect()
}

fn about_profile(world: &World, published: &Published) -> Failed {
    let profile = &published.profile;
    let impossible = profile.overrides.iter().any(|set| {
        let Values { apple_family_max: family, max_threadgroup_memory: memory } = set.values;
        !(1001..=1010).contains(&family) || (memory != 32_768 && memory != 65_536)
    });
    let differs = match (&world.facts.source, &world.host) {
        (Source::Machine { guest_model, .. }, HostState::Signed(said)) => {
            let levels = BTreeSet::from([said.feature_level as u8, profile.host.feature_level as u8]);
            let unrecorded = levels.contains(&(FeatureLevel::Unrecorded as u8));
            guest_model.known() != Some(&profile.guest.model) || (levels.len() == 2 && !unrecorded)
        }
        _ => false,
    };
    let here: BTreeSet<Workload> = identities(world).into_iter().collect();
    let sha256s: BTreeSet<Workload> =
        here.iter().copied().filter(|id| matches!(id, Workload::Sha256(_))).collect();
    let cdhashes: BTreeSet<Workload> = here.difference(&sha256s).copied().collect();
    let strange = |tested: Option<Workload>, known: &BTreeSet<Workload>| {
        tested.is_some_and(|id| !known.is_empty() && !known.contains(&id))
    };
    let other_program = strange(profile.workload.sha256.map(Workload::Sha256), &sha256s)
        || strange(profile.workload.cdhash.map(Workload::CdHash), &cdhashes);
    let few = policy(world).is_some_and(|site| {
        let signers: BTreeSet<&String> = published.signers.iter().collect();
        let demanded: BTreeSet<&String> = site.demand.signers.iter().collect();
        let counted =
            if demanded.is_empty() { signers.len() } else { signers.intersection(&demanded).count() };
        (counted as u64) < site.demand.min_signers
    });
    let observed = policy(world).is_some_and(|site| site.mode == Mode::Observe);
    failed(&[
        (impossible, Reason::OutOfBounds),
        (differs || other_program, Reason::ProfileDiffers),
        (few, Reason::EvidenceSigners),
        (observed, Reason::Observed),
    ])
    .into_iter()
    .collect()
}

fn about_set(world: &World, published: &Published, values: Values) -> Failed {
    let profile = &published.profile;
    let about: Vec<_> = profile.evidence.iter().filter(|item| item.values == Some(values)).collect();
    let tests: Vec<_> = about.iter().filter(|item| item.kind == EvidenceKind::Correctness).collect();
    let wrong = tests.iter().any(|item| item.outcome == Some(Outcome::Fail));
    let always = failed(&[
        (about.is_empty(), Reason::EvidenceMissing),
        (!says_all(profile, values), Reason::Unacknowledged),
        (wrong, Reason::EvidenceCorrectness),
    ]);
    let Some(site) = policy(world) else { return always.into_iter().collect() };
    let demand = &site.demand;
    let right: Vec<_> = tests.iter().filter(|item| item.outcome == Some(Outcome::Pass)).collect();
    let poorest = |item: &capgate_registry::profile::Evidence| {
        let arms = item.tests.iter().flat_map(|t| [t.stock.n, t.changed.map_or(0, |arm| arm.n)]);
        arms.min().unwrap_or(0)
    };
    let enough: Vec<_> = about
        .iter()
        .filter(|item| item.kind == EvidenceKind::Speed && poorest(item) >= demand.samples.unwrap_or(0))
        .collect();
    let old = demand.max_age_days.is_some_and(|most| {
        let today = world.now.as_second().div_euclid(86_400);
        let young = |measured: jiff::civil::Date| {
            let epoch = jiff::civil::date(1970, 1, 1);
            let age = today - measured.duration_since(epoch).as_secs() / 86_400;
            (-1..=i64::try_from(most).unwrap()).contains(&age)
        };
        !enough.iter().any(|item| young(item.measured))
            || (demand.correctness && !right.iter().any(|item| young(item.measured)))
    });
    let ceiling = site.ceiling;
    let too_high = values.apple_family_max > ceiling.apple_family_max.unwrap_or(u64::MAX)
        || values.max_threadgroup_memory > ceiling.max_threadgroup_memory.unwrap_or(u64::MAX);
    let demanded = failed(&[
        (is_denied(world, values), Reason::SiteDenied),
        (demand.correctness && right.is_empty(), Reason::EvidenceCorrectness),
        (demand.samples.is_some() && enough.is_empty(), Reason::EvidenceSamples),
        (old, Reason::EvidenceAge),
        (too_high, Reason::SiteCeiling),
    ]);
    always.into_iter().chain(demanded).collect()
}

/// Each entry with these values says everything that is so of them.
fn says_all(profile: &Profile, values: Values) -> bool {
    let host = &profile.host.answers;
    let mut so = vec![];
    if profile.workload.images.is_empty() {
        so.push(Acknowledgement::ImagesUnrecorded);
    }
    if values.max_threadgroup_memory > host.max_threadgroup_memory {
        so.push(Acknowledgement::AboveHostMemory);
    }
    if values.apple_family_max > host.apple_family.unwrap_or(0) {
        so.push(Acknowledgement::AboveHostFamily);
    }
    let entries = profile.overrides.iter().filter(|set| set.values == values);
    entries.flat_map(|set| so.iter().map(|word| set.acknowledges.contains(word))).all(|said| said)
}

fn is_denied(world: &World, values: Values) -> bool {
    let records = records(world).unwrap_or_default();
    let above = |limit: Option<u64>, value: u64| limit.is_none_or(|limit| value > limit);
    in_force(world).filter(|rule| is_about_values(rule)).any(|rule| {
        above(rule.when.apple_family_above, values.apple_family_max)
            && above(rule.when.max_threadgroup_memory_above, values.max_threadgroup_memory)
            && conditions(world, &records, rule).iter().all(|truth| *truth != Truth::No)
    })
}

fn afterwards(world: &World, profile: &Profile) -> Vec<Reason> {
    let every = |word| profile.overrides.iter().all(|set| set.acknowledges.contains(&word));
    let name = profile.workload.name.to_lowercase();
    let name = name.split(|c: char| c.is_ascii_digit()).next().unwrap().trim_end_matches(['.', '-', '_']);
    let listed = &profile.workload.images;
    let silent = !every(Acknowledgement::ImagesUnrecorded) || INTERPRETERS.contains(&name);
    let loaded = &world.device.images;
    let unlisted = loaded.iter().any(|image| !listed.iter().any(|known| known.name == image.name));
    let differs = loaded.iter().any(|image| {
        !listed.iter().filter(|known| known.name == image.name).any(|known| {
            let pairs = [
                known.sha256.zip(image.sha256).map(|(a, b)| a == b),
                known.cdhash.zip(image.cdhash).map(|(a, b)| a == b),
            ];
            let compared: Vec<bool> = pairs.into_iter().flatten().collect();
            !compared.is_empty() && compared.iter().all(|same| *same)
        })
    });
    failed(&[
        (world.log.is_err(), Reason::LogUnwritable),
        (listed.is_empty() && silent, Reason::ImageUnrecorded),
        (!listed.is_empty() && unlisted, Reason::ImageUnlisted),
        (!listed.is_empty() && differs, Reason::ImageDiffers),
        (world.device.answers != profile.guest.stock, Reason::DeviceDiffers),
    ])
}
