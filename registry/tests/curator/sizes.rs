//! More than a reader should have to bear: depth, length, numbers of things, data without end.

use capgate_registry::latest;
use capgate_registry::note::{self, Kind};

use super::content::with;
use super::honest::{History, sign_profile};
use super::keys::{evil, in_force};
use super::thief::{latest_of, sign_raw, signature_line, text_of};
use super::{Case, case};
use crate::support::origin;

/// Stands in for data without end: far more than any reader takes, and little for a test.
const ENDLESS: usize = 4 << 20;

pub fn cases(h: &History) -> Vec<Case> {
    [documents(h), signatures(h), endless(h), slow(h)].into_iter().flatten().collect()
}

fn deep(levels: usize) -> String {
    format!("deep = {}{}\n", "[".repeat(levels), "]".repeat(levels))
}

fn documents(h: &History) -> Vec<Case> {
    let k = &h.keys;
    let latest = |more: &str| {
        let text = text_of(&h.version(6).get(latest::PATH)) + more;
        with(h, latest::PATH, sign_raw(text.as_bytes(), &[&k.registry]))
    };
    let profile = |more: &str| in_force(h, &sign_profile(&(evil() + more), &[&k.alice, &k.bob]));
    let bundle = "log/tile/entries/000.p/7";
    let too_long = "has 60001 bytes, more than the 16000 that are accepted";
    let comment = format!("# {}\n", "x".repeat(60_001 - evil().len() - 3));
    let of_profile = |name, attack, more: &str, says: &str| {
        case(h, name, attack, profile(more))
            .holds("the registry key, two publishers' keys")
            .lookup("registry-malformed", says)
            .verify(bundle, says)
            .sync("entry", says)
    };
    let of_latest = |name, attack, more: &str, says: &str| {
        case(h, name, attack, latest(more))
            .holds("the registry key")
            .lookup("registry-malformed", says)
            .verify(latest::PATH, says)
            .sync("registry-malformed", says)
    };
    let keys: String = (0..1_000).map(|n| format!("k{n} = {n}\n")).collect();
    vec![
        of_latest("deep-latest", "`latest.note` holds lists in lists, 5,000 deep.", &deep(5_000), "not TOML"),
        of_latest(
            "dotted-latest",
            "A key of `latest.note` has 5,000 parts.",
            &format!("a{} = 1\n", ".a".repeat(5_000)),
            "not TOML",
        ),
        of_latest("crowded-latest", "`latest.note` holds 1,000 more keys.", &keys, "unknown key `k0`"),
        of_profile("deep-profile", "A profile holds lists in lists, 6,000 deep.", &deep(6_000), "not TOML"),
        of_profile("huge-profile", "A profile has 60,001 bytes.", &comment, too_long).made_by_test(),
    ]
}

fn signatures(h: &History) -> Vec<Case> {
    let honest = h.version(6).get(latest::PATH);
    let lines = |count: usize| {
        let line = signature_line("x", [0; 4], &[0]);
        with(h, latest::PATH, [honest.clone(), line.repeat(count).into_bytes()].concat())
    };
    let many = "the note has more than 100 signatures";
    let long = "more than the 16384 that are accepted";
    vec![
        case(
            h,
            "signatures-900",
            "900 signature lines of strangers follow that of the registry key.",
            lines(900),
        )
        .lookup("registry-malformed", many)
        .verify(latest::PATH, many)
        .sync("registry-malformed", many),
        case(
            h,
            "signatures-10000",
            "10,000 signature lines of strangers follow that of the registry key.",
            lines(10_000),
        )
        .made_by_test()
        .lookup("registry-unreadable", long)
        .verify(latest::PATH, long)
        .sync("fetch", long),
    ]
}

fn endless(h: &History) -> Vec<Case> {
    let endless = |path: &str| with(h, path, vec![b'#'; ENDLESS]);
    let snapshot = latest_of(h.version(6)).snapshot_path();
    let bundle = "log/tile/entries/000.p/6";
    let trust = endless("trust/2.note");
    let huge_trust = {
        let toml = super::honest::second_trust(&h.keys).to_toml() + &"# filler\n".repeat(7_400);
        let text = note::compose(Kind::Trust, &origin(), &toml).unwrap();
        with(h, "trust/2.note", sign_raw(text.as_bytes(), &super::honest::roots_of(&h.keys)))
    };
    let too_much = "has 4194304 bytes, more than";
    vec![
        case(h, "endless-latest", "`latest.note` does not end.", endless(latest::PATH))
            .made_by_test()
            .lookup("registry-unreadable", too_much)
            .verify(latest::PATH, too_much)
            .sync("fetch", too_much),
        case(h, "endless-trust", "A version of the trust does not end.", trust)
            .made_by_test()
            .lookup("registry-unreadable", too_much)
            .verify("trust/2.note", too_much)
            .sync("fetch", too_much),
        case(h, "huge-trust", "A version of the trust has more than 64 KiB.", huge_trust)
            .made_by_test()
            .holds("the root keys")
            .lookup("registry-unreadable", "more than the 65536 that are accepted")
            .verify("trust/2.note", "more than the 65536 that are accepted")
            .sync("fetch", "more than the 65536 that are accepted"),
        case(h, "endless-snapshot", "The snapshot does not end.", endless(&snapshot))
            .made_by_test()
            .lookup("registry-corrupt", "its header does not fit the signed size")
            .verify(&snapshot, "is not what the log leads to")
            .sync_heals(6),
        case(h, "endless-entries", "A bundle of entries does not end.", endless(bundle))
            .made_by_test()
            .lookup_grants("tested-two")
            .verify(bundle, too_much)
            .sync("fetch", too_much),
        case(h, "endless-checkpoint", "The checkpoint does not end.", endless("log/checkpoint"))
            .made_by_test()
            .lookup_grants("tested-two")
            .verify("log/checkpoint", too_much)
            .sync("fetch", too_much),
    ]
}

/// A server that accepts a request and does not answer, until whoever reads the store gives up.
fn slow(h: &History) -> Vec<Case> {
    let says = "timed out";
    let mut case = case(h, "slow-server", "The server never sends `latest.note`.", h.version(6).copy())
        .made_by_test()
        .lookup("registry-unreadable", says)
        .verify(latest::PATH, says)
        .sync("fetch", says);
    case.silent = Some(latest::PATH);
    vec![case]
}
