//! Stolen, retired, compromised and missing keys.

use capgate_registry::latest;
use capgate_registry::note;

use super::content::with;
use super::honest::{History, sign_profile};
use super::thief::{Forgery, latest_of, record, set_latest, signature_line, text_of};
use super::{Case, case};
use crate::support::{Memory, ORIGIN, key, profile};

pub fn cases(h: &History) -> Vec<Case> {
    [registry_key(h), publishers(h), counted_twice(h)].into_iter().flatten().collect()
}

/// A thief of the registry key logs `note` and puts it in force for the wanted combination.
pub fn in_force(h: &History, note: &[u8]) -> Memory {
    in_force_after(Forgery::of(h), note)
}

fn in_force_after(forgery: Forgery<'_>, note: &[u8]) -> Memory {
    let index = forgery.entries.len() as u64;
    let record = record(&evil(), index, note);
    forgery.log(note).record(&record).make()
}

/// What a thief would like to be granted.
pub fn evil() -> String {
    profile("evil-one", 1)
}

fn registry_key(h: &History) -> Vec<Case> {
    let honest = h.version(6).get(latest::PATH);
    let text = text_of(&honest);
    let impostor = key(ORIGIN, 99);
    let wrong_bits = note::sign(&text, &[&impostor]).unwrap();
    let hash = h.keys.registry.verifier().hash();
    let forged = signature_line(ORIGIN, hash, &impostor.sign(text.as_bytes()).unwrap());
    let forged = format!("{text}\n{forged}").into_bytes();
    let longer = String::from_utf8(honest).unwrap().replace("2027-01-05", "2037-01-05").into_bytes();
    let retired = h.version(6).copy();
    set_latest(&retired, &latest_of(&retired), &[&h.keys.first_registry]);
    let path = latest::PATH;
    let nobody = "signed by 0 of the 1 keys that are needed";
    let invalid = "the signature by `registry.test/capgate` does not verify";
    vec![
        case(
            h,
            "key-wrong-bits",
            "A key of the attacker's own, with the registry key's name, signs `latest.note`.",
            with(h, path, wrong_bits),
        )
        .lookup("registry-unsigned", nobody)
        .verify(path, nobody)
        .sync("registry-unsigned", nobody),
        case(
            h,
            "key-wrong-bits-right-hash",
            "The same, with the four bytes of the registry key's hash in its line.",
            with(h, path, forged),
        )
        .lookup("registry-unsigned", invalid)
        .verify(path, invalid)
        .sync("registry-unsigned", invalid),
        case(
            h,
            "signature-over-other-bytes",
            "`latest.note` is made to last ten years longer, and keeps its signature.",
            with(h, path, longer),
        )
        .lookup("registry-unsigned", invalid)
        .verify(path, invalid)
        .sync("registry-unsigned", invalid),
        case(
            h,
            "revoked-registry-key",
            "The registry key that the rotation took out signs `latest.note`.",
            retired,
        )
        .holds("a retired registry key")
        .lookup("registry-unsigned", nobody)
        .verify(path, nobody)
        .sync("registry-unsigned", nobody),
        case(h, "publisher-as-registry", "Two publishers sign `latest.note`.", {
            let store = h.version(6).copy();
            set_latest(&store, &latest_of(&store), &[&h.keys.alice, &h.keys.bob]);
            store
        })
        .holds("two publishers' keys")
        .lookup("registry-unsigned", nobody)
        .verify(path, nobody)
        .sync("registry-unsigned", nobody),
    ]
}

const BUNDLE: &str = "log/tile/entries/000.p/7";

fn publishers(h: &History) -> Vec<Case> {
    let k = &h.keys;
    let strangers = [key("alice.test", 98), key("bob.test", 99)];
    let stolen = sign_profile(&evil(), &[&strangers[0], &strangers[1]]);
    let changed = {
        let note = String::from_utf8(sign_profile(&evil(), &[&k.alice, &k.bob])).unwrap();
        note.replace("apple_family_max = 1009", "apple_family_max = 1010").into_bytes()
    };
    let few = |said: &str| format!("signed by {said} of the 2 keys that are needed");
    let both = |case: Case, says: &str| {
        case.lookup("registry-unsigned", says).verify(BUNDLE, &format!("entry 6: {says}")).sync("entry", says)
    };
    let stolen = case(
        h,
        "stolen-registry-key",
        "The registry key puts a profile in force that no publisher signed.",
        in_force(h, &stolen),
    )
    .holds("the registry key");
    let unmet = case(
        h,
        "threshold-unmet",
        "One publisher of the two that are needed signed the profile.",
        in_force(h, &sign_profile(&evil(), &[&k.alice])),
    )
    .holds("the registry key, one publisher's key");
    let changed = case(
        h,
        "profile-over-other-bytes",
        "A profile is changed after its publishers signed it.",
        in_force(h, &changed),
    )
    .holds("the registry key");
    let revoked = case(
        h,
        "revoked-publisher",
        "A publisher signs whom the rotation took out.",
        in_force(h, &sign_profile(&evil(), &[&k.alice, &k.carol])),
    )
    .holds("the registry key, one publisher's key, a retired publisher's key");
    vec![
        both(stolen, &few("0")),
        both(unmet, &few("1")),
        both(changed, "the signature by `alice.test` does not verify"),
        both(revoked, &few("1")),
        super::trust::compromised(h),
    ]
}

fn counted_twice(h: &History) -> Vec<Case> {
    let k = &h.keys;
    let once = String::from_utf8(sign_profile(&evil(), &[&k.alice])).unwrap();
    let text = text_of(once.as_bytes());
    let line = once.strip_prefix(&format!("{text}\n")).unwrap();
    let renamed =
        signature_line("bob.test", k.bob.verifier().hash(), &k.alice.sign(text.as_bytes()).unwrap());
    let own_hash = key("bob.test", 2).verifier().hash();
    let other_name = signature_line("bob.test", own_hash, &k.alice.sign(text.as_bytes()).unwrap());
    let enough = String::from_utf8(sign_profile(&evil(), &[&k.alice, &k.bob])).unwrap();
    let false_line = signature_line("dave.test", k.dave.verifier().hash(), &[7; 64]);
    let few = "signed by 1 of the 2 keys that are needed: `alice.test`";
    let invalid = "the signature by `bob.test` does not verify";
    let of = |name, attack, note: String| {
        case(h, name, attack, in_force(h, note.as_bytes())).holds("the registry key, one publisher's key")
    };
    vec![
        of(
            "duplicate-key-ids",
            "A publisher's signature stands twice in a profile, towards a threshold of two.",
            format!("{once}{line}"),
        )
        .lookup("registry-unsigned", few)
        .verify(BUNDLE, few)
        .sync("entry", few),
        case(
            h,
            "false-line-in-a-publishers-name",
            "A third line, in a publisher's name and no signature, follows those of the two that are needed.",
            in_force(h, format!("{enough}{false_line}").as_bytes()),
        )
        .holds("the registry key")
        .lookup("registry-unsigned", "the signature by `dave.test` does not verify")
        .verify(BUNDLE, "the signature by `dave.test` does not verify")
        .sync("entry", "the signature by `dave.test` does not verify"),
        of(
            "one-key-under-two-names",
            "A publisher signs a second time under another publisher's name.",
            format!("{once}{other_name}"),
        )
        .lookup("registry-unsigned", few)
        .verify(BUNDLE, few)
        .sync("entry", few),
        of(
            "one-key-under-anothers-id",
            "A publisher signs a second time under the name and key hash of another.",
            format!("{once}{renamed}"),
        )
        .lookup("registry-unsigned", invalid)
        .verify(BUNDLE, invalid)
        .sync("entry", invalid),
    ]
}
