//! What must hold of every decision, over random worlds.

use capgate_policy::decide::Decision;
use capgate_policy::facts::{Fact, Facts, Source};
use capgate_policy::site::{Mode, SitePolicy};
use proptest::prelude::*;

use super::generate::{self, policy, random_conditions, rule};
use super::rng::Rng;
use crate::support::World;

/// Half of the worlds grant, so that rules have something to narrow.
fn world(seed: u64) -> World {
    let mut rng = Rng::new(seed);
    if rng.one_in(2) {
        return generate::world(&mut rng);
    }
    loop {
        let world = generate::world(&mut rng);
        if world.run().grant().is_some() {
            return world;
        }
    }
}

/// One more rule of any kind.
fn narrow(site: &mut SitePolicy, rng: &mut Rng) {
    let tighter = |limit: &mut Option<u64>, to: u64| *limit = Some(limit.map_or(to, |old| old.min(to)));
    match rng.below(8) {
        0..=2 => site.deny.push(rule(20, random_conditions(rng))),
        3 => tighter(&mut site.ceiling.apple_family_max, rng.pick(&[1006, 1007, 1008])),
        4 => tighter(&mut site.ceiling.max_threadgroup_memory, 32_768),
        5 => site.demand.correctness = true,
        6 => match rng.below(3) {
            0 => site.demand.samples = Some(site.demand.samples.unwrap_or(0).max(10)),
            1 => tighter(&mut site.demand.max_age_days, 30),
            _ => site.demand.min_signers += 1,
        },
        _ => site.mode = rng.pick(&[Mode::Observe, Mode::Off]),
    }
}

fn tested(world: &World, decision: &Decision) -> bool {
    let grant = decision.grant().unwrap();
    world
        .registry
        .shelves
        .iter()
        .flat_map(|shelf| &shelf.published)
        .filter(|published| published.profile.id == grant.profile)
        .any(|published| published.profile.overrides.iter().any(|set| set.values == grant.values))
}

/// Every way to know one fact less.
fn less_known(facts: &Facts, unknown: bool) -> Vec<Facts> {
    fn gone<T>(unknown: bool) -> Fact<T> {
        if unknown { Fact::Missing } else { Fact::Malformed("a test".into()) }
    }
    let mut all = Vec::new();
    all.push(Facts { host_chip: gone(unknown), ..facts.clone() });
    all.push(Facts { guest_os_build: gone(unknown), ..facts.clone() });
    let mut program = facts.clone();
    program.program.sha256 = gone(unknown);
    program.program.cdhash = gone(unknown);
    all.push(program);
    let mut push = |source| all.push(Facts { source, ..facts.clone() });
    match facts.source.clone() {
        Source::File { .. } => push(Source::File { host_os_build: gone(unknown) }),
        Source::Machine { virtual_machine, guest_model, mac_addresses } => {
            push(Source::Machine {
                virtual_machine: gone(unknown),
                guest_model: guest_model.clone(),
                mac_addresses: mac_addresses.clone(),
            });
            push(Source::Machine { virtual_machine, guest_model: gone(unknown), mac_addresses });
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn adding_a_rule_never_turns_stock_into_a_grant(seed: u64, rules: u64) {
        let before = world(seed);
        let mut after = before.clone();
        narrow(policy(&mut after), &mut Rng::new(rules));
        match (before.run().grant(), after.run()) {
            (None, decision) => prop_assert!(decision.grant().is_none(), "{decision:?}"),
            (Some(_), Decision::Stock(_)) => {}
            (Some(old), decision) => {
                prop_assert!(tested(&before, &decision));
                prop_assert_eq!(&old.profile, &decision.grant().unwrap().profile);
            }
        }
    }

    #[test]
    fn order_of_rules_never_matters(seed: u64, rules: u64) {
        let mut rng = Rng::new(rules);
        let mut before = world(seed);
        let deny = (0..4).map(|number| rule(number, random_conditions(&mut rng)));
        policy(&mut before).deny.extend(deny);
        let mut after = before.clone();
        let deny = &mut policy(&mut after).deny;
        for at in (1..deny.len()).rev() {
            deny.swap(at, rng.below(at + 1));
        }
        prop_assert_eq!(before.run(), after.run());
    }

    #[test]
    fn an_unknown_fact_never_grants(seed: u64, unknown: bool) {
        let world = world(seed);
        for facts in less_known(&world.facts, unknown) {
            let less = World { facts, ..world.clone() };
            prop_assert!(less.run().grant().is_none(), "{less:?}");
        }
    }

    #[test]
    fn the_same_input_gives_the_same_decision(seed: u64) {
        let world = world(seed);
        prop_assert_eq!(world.run(), world.clone().run());
    }
}
