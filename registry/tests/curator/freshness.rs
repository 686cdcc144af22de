//! Old registries that were sound once, and clocks that were turned.

use jiff::SignedDuration;

use super::honest::{History, day};
use super::thief::Forgery;
use super::{Case, case};
use crate::support::{Memory, time};

pub fn cases(h: &History) -> Vec<Case> {
    [rollbacks(h), freezes(h), clocks(h)].into_iter().flatten().collect()
}

fn rollbacks(h: &History) -> Vec<Case> {
    let seen = h.seen(6);
    let forgotten = Forgery { version: 9, ..Forgery::over(h.version(4), &h.keys.first_registry) };
    vec![
        case(
            h,
            "rollback-of-snapshot",
            "The registry of the day before is served again.",
            h.version(5).copy(),
        )
        .seen(seen)
        .copy("honest")
        .lookup("registry-rollback", "version 5 after version 6")
        .verify_holds()
        .sync("registry-rollback", "version 5 after version 6"),
        case(
            h,
            "rollback-of-log",
            "Under a higher version stands a log that forgot its newest entries.",
            short_log(h),
        )
        .holds("the registry key")
        .seen(seen)
        .copy("honest")
        .lookup("registry-rollback", "a log of 4 entries is not the one of 6 that was seen")
        .verify_holds()
        .sync("registry-rollback", "a log of 4 entries is not the one of 6 that was seen"),
        case(
            h,
            "rollback-of-trust",
            "A retired registry key signs a higher version under its own old trust.",
            forgotten.make(),
        )
        .holds("a retired registry key")
        .seen(seen)
        .copy("honest")
        .lookup("registry-rollback", "trust version 1 after trust version 2")
        .verify_holds()
        .sync("registry-rollback", "trust version 1 after trust version 2"),
        case(
            h,
            "another-log-of-one-size",
            "Under a higher version stands another log of the same length.",
            other_log(h),
        )
        .holds("the registry key")
        .seen(seen)
        .copy("honest")
        .lookup("registry-rollback", "a log of 6 entries is not the one of 6 that was seen")
        .verify_holds()
        .sync("fork", "somebody shows different histories to different readers"),
        case(h, "rewritten-log", "A longer log stands here, from which a revocation is gone.", rewritten(h))
            .holds("the registry key")
            .seen(seen)
            .copy("honest")
            .lookup_grants("tested-two")
            .verify_holds()
            .sync("fork", "somebody shows different histories to different readers"),
        case(
            h,
            "rewritten-log-after-the-copy-is-lost",
            "The same is shown where of the honest log nothing is left but what was seen of it.",
            rewritten(h),
        )
        .holds("the registry key")
        .seen(seen)
        .copy("nothing")
        .lookup_grants("tested-two")
        .verify_holds()
        .sync("fork", "somebody shows different histories to different readers"),
        case(
            h,
            "another-content-of-one-version",
            "A version that was seen exists a second time with other content.",
            second_six(h),
        )
        .holds("the registry key")
        .seen(seen)
        .copy("honest")
        .lookup("registry-rollback", "version 6 exists with two contents")
        .verify("snapshot/latest.note", "signs 3 records under")
        .sync("registry-rollback", "version 6 exists with two contents"),
    ]
}

/// Version 9 with the log of version 3.
fn short_log(h: &History) -> Memory {
    let forgery = Forgery { version: 9, trust: 2, ..Forgery::over(h.version(3), &h.keys.registry) };
    forgery.base.set("trust/2.note", h.version(6).get("trust/2.note"));
    forgery.make()
}

/// Version 9 with five honest entries and another sixth.
fn other_log(h: &History) -> Memory {
    let forgery = Forgery { version: 9, ..Forgery::over(h.version(5), &h.keys.registry) };
    let toml = crate::support::profile("fifth-one", 5);
    let note = super::honest::sign_profile(&toml, &[&h.keys.bob, &h.keys.dave]);
    let record = super::thief::record(&toml, 5, &note);
    forgery.log(&note).record(&record).make()
}

/// Version 9 without the revocation at index 4, and with two entries more.
fn rewritten(h: &History) -> Memory {
    let forgery = Forgery { version: 9, trust: 2, ..Forgery::over(h.version(3), &h.keys.registry) };
    forgery.base.set("trust/2.note", h.version(6).get("trust/2.note"));
    let more = (4..).zip(["fourth-one", "fifth-one", "sixth-one"]);
    let forgery = more.fold(forgery, |forgery, (index, id)| {
        let toml = crate::support::profile(id, index);
        let note = super::honest::sign_profile(&toml, &[&h.keys.alice, &h.keys.bob]);
        let record = super::thief::record(&toml, index, &note);
        forgery.log(&note).record(&record)
    });
    forgery.make()
}

/// Version 6 without one of its records.
fn second_six(h: &History) -> Memory {
    let mut forgery = Forgery { version: 6, ..Forgery::of(h) };
    forgery.records.pop();
    forgery.make()
}

fn freezes(h: &History) -> Vec<Case> {
    let late = time("2027-11-20T00:00:00Z");
    let outlives = Forgery::of(h).make_with(|latest| {
        latest.issued = late;
        latest.expires = time("2028-12-01T00:00:00Z");
    });
    vec![
        case(
            h,
            "freeze",
            "The newest registry is served long after it expired, so that nobody sees a revocation.",
            h.version(6).copy(),
        )
        .now(day(51))
        .twin("honest-renewed")
        .copy("honest")
        .lookup("registry-expired", "version 6 ended 2027-01-05T00:00:00Z")
        .verify("snapshot/latest.note", "it expired 2027-01-05T00:00:00Z")
        .sync("registry-expired", "version 6 ended 2027-01-05T00:00:00Z"),
        case(
            h,
            "freeze-of-trust",
            "The registry key signs for longer than the trust lasts that it stands in.",
            outlives,
        )
        .holds("the registry key")
        .now(time("2027-12-02T00:00:00Z"))
        .twin("freeze-of-trust")
        .twin_now(late)
        .lookup("registry-expired", "trust version 2 ended 2027-12-01T00:00:00Z")
        .verify("snapshot/latest.note", "its trust expired 2027-12-01T00:00:00Z")
        .sync("registry-expired", "trust version 2 ended 2027-12-01T00:00:00Z"),
    ]
}

fn clocks(h: &History) -> Vec<Case> {
    let renewed = h.seen(7);
    vec![
        case(
            h,
            "clock-set-back",
            "The clock is set back to when an old registry was fresh, which hides that it expired.",
            h.version(6).copy(),
        )
        .holds("the reader's clock")
        .seen(capgate_registry::reader::Seen { time: renewed.time, ..h.seen(6) })
        .now(day(8))
        .twin("honest-renewed")
        .twin_now(day(51))
        .copy("honest")
        .lookup("clock-behind", "it says 2026-12-08T00:00:00Z, and 2027-01-19T00:00:00Z was signed already")
        .verify_holds()
        .sync("clock-behind", "it says 2026-12-08T00:00:00Z, and 2027-01-19T00:00:00Z was signed already"),
        case(
            h,
            "clock-before-signature",
            "The clock stands before the registry was signed.",
            h.version(6).copy(),
        )
        .holds("the reader's clock")
        .now(day(6) - SignedDuration::from_secs(1))
        .twin_now(day(6))
        .copy("honest-before")
        .lookup("clock-behind", "it says 2026-12-05T23:59:59Z, and 2026-12-06T00:00:00Z was signed already")
        .verify_holds()
        .sync("clock-behind", "it says 2026-12-05T23:59:59Z, and 2026-12-06T00:00:00Z was signed already"),
    ]
}
