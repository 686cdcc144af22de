//! `decide` against an independent model of the same table, on many random cases.
//!
//! `CAPGATE_CASES` sets their number; the full count is 1,000,000. Each reason, and the grant, must occur in at least
//! one case of a hundred, so that none is compared only in name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable
)]

mod fail;
mod generate;
mod model;
mod properties;
mod rng;
mod rules;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use capgate_policy::decide::Decision;
use capgate_policy::reason::Reason;
use rng::Rng;
use support::World;

/// Cases in a plain `cargo test`.
const DEFAULT: u64 = 50_000;
const SEED: u64 = 0x6361_7067_6174_6501;

fn cases() -> u64 {
    std::env::var("CAPGATE_CASES").map_or(DEFAULT, |n| n.replace('_', "").parse().expect("a number of cases"))
}

#[test]
fn decide_agrees_with_the_set_wise_model_on_every_reason() {
    let total = cases();
    let half = total / 2;
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| compare(0..half));
        let second = scope.spawn(|| compare(half..total));
        (first.join().unwrap(), second.join().unwrap())
    });
    let mut counts = first;
    for (code, count) in second {
        *counts.entry(code).or_default() += count;
    }
    println!("{total} cases");
    // A handful of cases cannot have a hundredth of each.
    let floor = if total < DEFAULT { 0 } else { total / 100 };
    let mut short = Vec::new();
    for code in decided().map(|reason| reason.code()).chain(["grant"]) {
        let count = counts.get(code).copied().unwrap_or(0);
        println!("{count:>9}  {code}");
        if count < floor {
            short.push(code);
        }
    }
    assert!(short.is_empty(), "too few cases to compare: {short:?}");
}

/// The reasons that `decide` and a device give; one belongs to whoever starts a program.
fn decided() -> impl Iterator<Item = Reason> {
    Reason::ALL.iter().copied().filter(|reason| *reason != Reason::NotInserted)
}

/// Each case has a seed of its own, so that a failure can be run alone.
fn compare(numbers: std::ops::Range<u64>) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for number in numbers {
        let world = generate::world(&mut Rng::new(SEED ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d)));
        let decision = world.run();
        let expected = model::answer(&world);
        let found = decision.values().ok_or_else(|| decision.reason().unwrap());
        assert_eq!(found, expected, "case {number}: {decision:?}\n{world:#?}");
        check_grant(&world, &decision);
        *counts.entry(decision.reason().map_or("grant", Reason::code)).or_default() += 1;
    }
    counts
}

/// A grant's values stand in the profile that it names, and within the hard bounds.
fn check_grant(world: &World, decision: &Decision) {
    let Some(grant) = decision.grant() else { return };
    let published = world.registry.shelves.iter().flat_map(|shelf| &shelf.published);
    let named = published.filter(|p| p.profile.id == grant.profile && p.revoked.is_none());
    let mut sets = named.flat_map(|p| &p.profile.overrides);
    assert!(sets.any(|set| set.values == grant.values), "{world:#?}");
    assert!((1001..=1010).contains(&grant.values.apple_family_max));
    assert!([32_768, 65_536].contains(&grant.values.max_threadgroup_memory));
}
