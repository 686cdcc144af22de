//! The rules that never break, as far as a decision can keep or break them.

use std::path::Path;

use capgate_policy::facts::{Fact, Sha256Trust, parse_facts_file};
use capgate_policy::host::HostState;
use capgate_policy::reason::Reason;
use capgate_policy::site::{SitePolicy, check};
use capgate_registry::combination::{Hex, Workload};
use capgate_registry::profile::{Acknowledgement, ProfileId, Values, Verdict};
use proptest::prelude::*;

use super::rng::Rng;
use super::{decided, fail, generate};
use crate::support::{World, revocation, site};

#[test]
fn rule_1_only_tested_values() {
    let mut grants = 0;
    for seed in 0..20_000 {
        let world = generate::world(&mut Rng::new(seed));
        let decision = world.run();
        let Some(grant) = decision.grant() else { continue };
        let profiles = world.registry.shelves.iter().flat_map(|shelf| &shelf.published);
        let mut listed = profiles.map(|p| &p.profile).filter(|profile| profile.id == grant.profile);
        assert!(listed.any(|profile| profile.overrides.iter().any(|set| set.values == grant.values)));
        grants += 1;
    }
    assert!(grants > 200, "{grants}");
}

/// A ceiling between two tested sets yields the lower one, never the ceiling itself.
#[test]
fn rule_1_a_ceiling_is_never_reported() {
    let world = World {
        site: Some(site("[ceiling]\napple_family_max = 1008\nmax_threadgroup_memory = 65536")),
        ..World::tested()
    };
    let lower = Values { apple_family_max: 1007, max_threadgroup_memory: 32_768 };
    assert_eq!(world.run().values(), Some(lower));
}

/// Attack: a universal file whose arm64 half was tested is started as its other half. Its SHA-256 is the tested one,
/// proven from the same bytes; what runs is not.
#[test]
fn rule_1_the_untested_slice_of_a_universal_file_is_stock() {
    let mut world = World::tested();
    world.facts.program.cdhash = Fact::Known(Hex([0x77; 20]));
    assert_eq!(world.run().reason(), Some(Reason::ProfileDiffers));
    // Revoked and stock say more, and refuse too.
    let mut revoked = world.clone();
    revoked.change_published(|published| published.revoked = Some(revocation(&published.profile)));
    assert_eq!(revoked.run().reason(), Some(Reason::Revoked));
    let mut stock = world.clone();
    stock.change_profiles(|profile| profile.verdict = Verdict::Stock);
    assert_eq!(stock.run().reason(), Some(Reason::VerdictStock));
    // A profile that names no cdhash is still found by its SHA-256.
    world.change_profiles(|profile| profile.workload.cdhash = None);
    world.registry.shelves[1].published.clear();
    assert!(world.run().grant().is_some());
}

/// The other way round: the tested cdhash in a file that is proven to be another one.
#[test]
fn rule_1_a_tested_cdhash_in_another_file_is_stock() {
    let mut world = World::tested();
    world.facts.program.sha256 = Fact::Known(Hex([0x77; 32]));
    assert_eq!(world.run().reason(), Some(Reason::ProfileDiffers));
    // A digest that does not count is not known.
    world.facts.program.sha256_trust = Sha256Trust::Unproven;
    assert!(world.run().grant().is_some());
}

/// Attack: a publisher signs a set that nobody measured, and lint was never run.
#[test]
fn rule_1_a_set_that_no_evidence_names_is_never_granted() {
    let first = Values { apple_family_max: 1009, max_threadgroup_memory: 65_536 };
    let second = Values { apple_family_max: 1007, max_threadgroup_memory: 32_768 };
    let mut world = World::tested();
    world.change_profiles(|profile| profile.evidence.retain(|item| item.values != Some(first)));
    assert_eq!(world.run().values(), Some(second));
    world.change_profiles(|profile| profile.evidence.clear());
    assert_eq!(world.run().reason(), Some(Reason::EvidenceMissing));
}

/// Attack: values above the host's own, or unrecorded images, without a word about it.
#[test]
fn rule_1_nothing_that_must_be_acknowledged_is_granted_silently() {
    for word in [Acknowledgement::AboveHostFamily, Acknowledgement::AboveHostMemory] {
        let mut world = World::tested();
        world.change_profiles(|profile| profile.overrides[0].acknowledges.retain(|&said| said != word));
        let lower = Values { apple_family_max: 1007, max_threadgroup_memory: 32_768 };
        assert_eq!(world.run().values(), Some(lower), "{word:?}");
        world.change_profiles(|profile| profile.overrides.truncate(1));
        assert_eq!(world.run().reason(), Some(Reason::Unacknowledged), "{word:?}");
    }
    let mut world = World::tested();
    world.change_profiles(|profile| profile.workload.images.clear());
    assert_eq!(world.run().reason(), Some(Reason::Unacknowledged));
    // Listed twice, once with the words: the silent entry counts.
    let mut world = World::tested();
    world.change_profiles(|profile| {
        let mut twin = profile.overrides[0].clone();
        twin.acknowledges.clear();
        profile.overrides[1] = twin;
    });
    assert_eq!(world.run().reason(), Some(Reason::Unacknowledged));
}

/// Attack: many samples of stock alone, filed as evidence for the values.
#[test]
fn rule_1_samples_of_stock_alone_meet_no_demand_for_samples() {
    let mut world = World { site: Some(site("[demand]\nsamples = 1")), ..World::tested() };
    world.change_profiles(|profile| {
        for test in profile.evidence.iter_mut().flat_map(|item| &mut item.tests) {
            (test.stock.n, test.changed) = (1_000, None);
        }
    });
    assert_eq!(world.run().reason(), Some(Reason::EvidenceSamples));
}

#[test]
fn rule_2_doubt_means_stock() {
    assert!(World::tested().run().grant().is_some());
    for reason in decided() {
        for seed in 0..50 {
            let mut world = World::tested();
            fail::because(reason, &mut world, &mut Rng::new(seed));
            let decision = world.run();
            // A deny rule may be about something else, and one digest may be enough.
            let may_grant = reason == Reason::SiteDenied;
            assert!(may_grant || decision.grant().is_none(), "{reason}: {decision:?}");
            if !may_grant {
                assert_eq!(decision.reason(), Some(reason), "seed {seed}: {decision:?}");
            }
        }
    }
}

#[test]
fn rule_3_all_or_nothing() {
    for seed in 0..5_000 {
        let decision = generate::world(&mut Rng::new(seed)).run();
        let json = serde_json::to_value(&decision).unwrap();
        let [family, memory] = ["apple_family_max", "max_threadgroup_memory"].map(|key| json[key].is_null());
        assert_eq!(family, memory);
        assert_eq!(family, json["outcome"] == "stock");
    }
}

/// A revoked id does not come back, whatever stands beside it under any key that was asked for.
#[test]
fn rule_7_a_revoked_profile_is_never_granted() {
    for seed in 0..20_000 {
        let world = generate::world(&mut Rng::new(seed));
        let Some(granted) = world.run().grant().map(|grant| grant.profile.clone()) else { continue };
        let asked = |at: usize| {
            let kinds =
                world.facts.program.identities().map(|id| usize::from(matches!(id, Workload::CdHash(_))));
            kinds.into_iter().any(|kind| kind == at)
        };
        let shelves = world.registry.shelves.iter().enumerate().filter(|(at, _)| asked(*at));
        let mut entries = shelves.flat_map(|(_, shelf)| &shelf.published);
        assert!(!entries.any(|entry| entry.profile.id == granted && entry.revoked.is_some()));
    }
}

/// Nothing in the crate's source reaches for files, clock, environment, network or terminal.
#[test]
fn rule_8_policy_is_pure() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![source];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for word in ["std::fs", "std::env", "std::net", "std::io", "std::time", "now()", "println!"] {
                // `now()` is also what a test calls its own fixed moment.
                let code = text.split("#[cfg(test)]").next().unwrap();
                assert!(!code.contains(word), "{}: {word}", path.display());
            }
            files += 1;
        }
    }
    assert!(files > 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rule_9_hard_bounds(
        family in prop_oneof![990u64..1030, 3000u64..3010, 5000u64..5003, any::<u64>()],
        memory in prop_oneof![Just(32_768u64), Just(65_536), Just(49_152), Just(131_072), any::<u64>()],
    ) {
        let values = Values { apple_family_max: family, max_threadgroup_memory: memory };
        let mut world = World::tested();
        world.change_profiles(|profile| {
            profile.overrides.truncate(1);
            profile.overrides[0].values = values;
            profile.evidence.iter_mut().for_each(|item| item.values = Some(values));
        });
        let possible = (1001..=1010).contains(&family) && [32_768, 65_536].contains(&memory);
        let decision = world.run();
        prop_assert_eq!(decision.values(), possible.then_some(values));
        prop_assert_eq!(decision.reason(), (!possible).then_some(Reason::OutOfBounds));
    }

    #[test]
    fn rule_10_no_bytes_make_a_reader_panic(bytes: Vec<u8>, at: usize, byte: u8) {
        let mut changed =
            b"schema = \"1.0.0\"\nmode = \"enforce\"\n[[deny]]\nid = \"abc\"\nprofile = \"abc\"\n".to_vec();
        let at = at % changed.len();
        changed[at] = byte;
        let now = World::tested().now;
        for bytes in [bytes, changed] {
            let _ = SitePolicy::parse(&bytes);
            let _ = check(&bytes, now);
            let _ = parse_facts_file(&bytes);
            let _ = HostState::verify(&bytes, &[], &"example.org/gpu".parse().unwrap());
        }
    }
}

/// Of profiles that are equally near, the one whose id sorts first; the program tells more than the machine.
#[test]
fn the_nearest_profile_has_the_same_program_first() {
    use capgate_policy::nearest::{Part, Wanted, nearest};

    let here = World::tested().registry.shelves[0].published[0].profile.clone();
    let named = |id: &str| id.parse::<ProfileId>().unwrap();
    let mut same_program = here.clone();
    same_program.id = named("same-program");
    same_program.host.chip = "Apple M4 Pro".parse().unwrap();
    let mut same_name = here.clone();
    same_name.id = named("same-name");
    (same_name.workload.sha256, same_name.workload.cdhash) = (None, None);
    let mut same_machine = here.clone();
    same_machine.id = named("same-machine");
    same_machine.workload = same_name.workload.clone();
    same_machine.workload.name = "other".into();
    let world = World::tested();
    let wanted = Wanted::new(&world.facts, &world.host, Some("llama-bench".into()));

    let all = [&same_machine, &same_name, &same_program];
    let found = nearest(&wanted, all).unwrap();
    assert_eq!(found.profile.id, named("same-program"));
    let parts: Vec<Part> = found.differences.iter().map(|d| d.part).collect();
    assert_eq!(parts, [Part::HostChip]);
    assert_eq!(found.differences[0].here.as_deref(), Some("Apple M1 Ultra"));
    assert_eq!(found.differences[0].tested, "Apple M4 Pro");
    assert_eq!(nearest(&wanted, [&same_machine, &same_name]).unwrap().profile.id, named("same-name"));
    assert_eq!(nearest(&wanted, [&same_machine]).unwrap().differences[0].part, Part::Workload);
    assert_eq!(nearest(&Wanted::default(), all), None);
}
