//! The chain of trust: half a rotation, gaps, what is forgotten, keys that would count twice.

use capgate_registry::keys::SigningKey;
use capgate_registry::trust::{Compromised, Trust};

use super::content::without;
use super::honest::{History, day, role, roots_of, second_trust, sign_trust};
use super::thief::{Forgery, sign_raw};
use super::{Case, case};
use crate::support::{Memory, key, origin};
use capgate_registry::note::{self, Kind};

pub fn cases(h: &History) -> Vec<Case> {
    [rotations(h), gaps(h), tables(h)].into_iter().flatten().collect()
}

/// Another set of root keys is to follow.
fn third(h: &History) -> (Trust, [SigningKey; 2]) {
    let roots = [key("root-c.test", 41), key("root-d.test", 51)];
    let trust = Trust {
        version: 3,
        log_index: 6,
        issued: day(7),
        root: role(2, &[&roots[0], &roots[1]]),
        ..second_trust(&h.keys)
    };
    (trust, roots)
}

/// The registry under a third version of the trust, whatever that is.
pub fn under(h: &History, trust: Vec<u8>) -> Memory {
    let forgery = Forgery { trust: 3, ..Forgery::of(h) };
    forgery.base.set("trust/3.note", trust);
    forgery.make()
}

fn rotations(h: &History) -> Vec<Case> {
    let (trust, new) = third(h);
    let old = roots_of(&h.keys);
    let new = [&new[0], &new[1]];
    let of = |name, attack, holds: &str, keys: &[&SigningKey], says: &str| {
        case(h, name, attack, under(h, sign_trust(&trust, keys)))
            .holds(holds)
            .lookup("registry-unsigned", &format!("trust/3.note: {says}"))
            .verify("trust/3.note", says)
            .sync("registry-unsigned", says)
    };
    vec![
        of(
            "rotation-by-old-roots-only",
            "The old root keys name new ones that never agreed.",
            "the root keys, the registry key",
            &old,
            "signed by 0 of the 2 keys that are needed",
        ),
        of(
            "rotation-by-new-roots-only",
            "New root keys name themselves.",
            "the registry key",
            &new,
            "signed by 0 of the 2 keys that are needed",
        ),
        of(
            "rotation-by-half-of-the-old",
            "New root keys name themselves, with one old root key of the two that are needed.",
            "one root key, the registry key",
            &[old[0], new[0], new[1]],
            "signed by 1 of the 2 keys that are needed: `root-a.test`",
        ),
    ]
}

fn gaps(h: &History) -> Vec<Case> {
    let (trust, new) = third(h);
    let all = [&h.keys.roots[0], &h.keys.roots[1], &new[0], &new[1]];
    let skipped = {
        let forgery = Forgery { trust: 3, ..Forgery::of(h) };
        forgery.base.files.borrow_mut().remove("trust/2.note");
        forgery.base.set("trust/3.note", sign_trust(&trust, &all));
        forgery.make()
    };
    let renumbered = {
        let store = h.version(6).copy();
        store.set("trust/2.note", sign_trust(&trust, &all));
        store
    };
    vec![
        case(h, "trust-gap", "The trust that `latest.note` names is left out.", without(h, "trust/2.note"))
            .lookup("registry-rollback", "`trust/2.note` is missing")
            .verify("snapshot/latest.note", "`trust/2.note` is missing")
            .sync("moving", "`trust/2.note` is missing"),
        case(
            h,
            "trust-gap-before-the-newest",
            "A version between the first and the newest is left out.",
            skipped,
        )
        .holds("the registry key")
        .lookup("registry-rollback", "`trust/3.note` is missing")
        .verify("snapshot/latest.note", "`trust/3.note` is missing")
        .sync("moving", "`trust/3.note` is missing"),
        case(h, "trust-renumbered", "The third version stands under the second one's name.", renumbered)
            .holds("the root keys")
            .lookup("registry-malformed", "says that it is version 3")
            .verify("trust/2.note", "says that it is version 3")
            .sync("registry-malformed", "says that it is version 3"),
    ]
}

/// Versions that nobody may sign, by the root keys themselves.
fn tables(h: &History) -> Vec<Case> {
    let roots = roots_of(&h.keys);
    let base = Trust { version: 3, log_index: 6, issued: day(7), ..second_trust(&h.keys) };
    let of = |name, attack, toml: String, says: &str| {
        let text = note::compose(Kind::Trust, &origin(), &toml).unwrap();
        case(h, name, attack, under(h, sign_raw(text.as_bytes(), &roots)))
            .holds("the root keys, the registry key")
            .lookup("registry-malformed", says)
            .verify("trust/3.note", says)
            .sync("registry-malformed", says)
    };
    let alias = key("dan.test", 12);
    let twice = role(2, &[&h.keys.alice, &h.keys.bob, &alias]);
    let both = role(2, &[&h.keys.alice, &h.keys.bob, &key("alice-too.test", 1)]);
    let k = &h.keys;
    let forgets = Trust { compromised: Vec::new(), ..base.clone() };
    let back = role(2, &[&k.alice, &k.carol]);
    vec![
        of(
            "trust-lists-one-key-twice",
            "A publisher's key is listed under two names, so that its holder would meet the threshold.",
            Trust { publisher: twice, ..base.clone() }.to_toml(),
            "the key `dan.test` stands under `publisher` and again under `publisher`",
        ),
        of(
            "trust-gives-one-key-two-roles",
            "A root key is a publisher's, too, under another name.",
            Trust { publisher: both, ..base.clone() }.to_toml(),
            "the key `alice-too.test` stands under `root` and again under `publisher`",
        ),
        of(
            "trust-without-threshold",
            "A threshold of zero publishers would grant anything.",
            Trust { publisher: role(0, &[&k.alice]), ..base.clone() }.to_toml(),
            "`publisher` wants 0 signatures of 1 keys",
        ),
        of(
            "trust-forgets-a-compromise",
            "A version does not say any more that a key is compromised.",
            forgets.to_toml(),
            "does not say any more that `carol.test` is compromised",
        ),
        of(
            "trust-takes-a-thief-back",
            "A compromised key is a publisher's again.",
            Trust { publisher: back, ..base.clone() }.to_toml(),
            "the key `carol.test` is compromised and stands under `publisher`",
        ),
        of(
            "trust-reaches-back",
            "A version takes force before the one it follows, and would judge what is past.",
            Trust { log_index: 0, ..base }.to_toml(),
            "takes force before the version it follows",
        ),
    ]
}

/// `bob`'s key turns out to be stolen since before `tested-two`, and the registry key still shows what he signed.
pub fn compromised(h: &History) -> Case {
    let k = &h.keys;
    let mut trust = Trust { version: 3, log_index: 6, issued: day(7), ..second_trust(k) };
    trust.publisher = role(2, &[&k.alice, &k.dave]);
    trust.compromised.push(Compromised { key: k.bob.verifier().clone(), from: 2 });
    let store = under(h, sign_trust(&trust, &roots_of(k)));
    let snapshot = super::thief::latest_of(&store).snapshot_path();
    case(h, "compromised-key", "A profile stays in force whose publisher's key is named as compromised since.", store)
        .holds("the registry key")
        .lookup("registry-unsigned", "signed by 1 of the 2 keys that are needed: `alice.test`")
        .verify(&snapshot, "is not what the log leads to")
        .sync("damaged", "signs 4 records under 1d66b11a47ce192a67082dd95cc5eadcdaa1c562fc77c27600381ed35288c27c, but the log leads to 3")
}
