//! What somebody who serves the files can do without any key.

use capgate_registry::latest;
use capgate_registry::log::CHECKPOINT;
use capgate_registry::merkle::Hash;
use capgate_registry::publish::{self, LIFE, Terms};
use capgate_registry::trust::Trust;

use super::honest::{History, day, first_trust, keys, role};
use super::thief::latest_of;
use super::{Case, case};
use crate::support::{Memory, ORIGIN, key, origin, profile};

pub fn cases(h: &History) -> Vec<Case> {
    [arbitrary(h), mixes(h)].into_iter().flatten().collect()
}

fn arbitrary(h: &History) -> Vec<Case> {
    let page = with(h, latest::PATH, b"<!doctype html>\n<title>Sign in</title>\n".to_vec());
    let snapshot = latest_of(h.version(6)).snapshot_path();
    let length = h.version(6).get(&snapshot).len();
    let noise: Vec<u8> = (0..length as u64 / 32).flat_map(|n| Hash::of(&n.to_be_bytes()).0).collect();
    vec![
        case(h, "arbitrary-content", "A page to sign in to a network comes in place of `latest.note`.", page)
            .lookup("registry-malformed", "the note has no signatures")
            .verify(latest::PATH, "the note has no signatures")
            .sync("registry-malformed", "the note has no signatures"),
        case(h, "arbitrary-nothing", "`latest.note` is an empty file.", with(h, latest::PATH, Vec::new()))
            .lookup("registry-malformed", "the note's last line does not end in a line feed")
            .verify(latest::PATH, "the note's last line does not end in a line feed")
            .sync("registry-malformed", "the note's last line does not end in a line feed"),
        case(
            h,
            "arbitrary-snapshot",
            "The snapshot is noise of the right length.",
            with(h, &snapshot, noise),
        )
        .lookup("registry-corrupt", "its header does not fit the signed size")
        .verify(&snapshot, "is not what the log leads to")
        .sync_heals(6),
        case(
            h,
            "another-registry",
            "Another registry stands here, sound in itself, with the same origin and key names.",
            another(h),
        )
        .lookup("registry-wrong-key", "the first root is sha256:")
        .verify("trust/1.note", "the first root is sha256:")
        .sync("registry-wrong-key", "the first root is sha256:"),
    ]
}

/// The honest registry with one file changed.
pub fn with(h: &History, path: &str, bytes: Vec<u8>) -> Memory {
    let store = h.version(6).copy();
    store.set(path, bytes);
    store
}

pub fn without(h: &History, path: &str) -> Memory {
    let store = h.version(6).copy();
    assert!(store.files.borrow_mut().remove(path).is_some(), "{path}");
    store
}

/// Everything is well signed, by keys of the attacker's own with the names of the others.
fn another(_: &History) -> Memory {
    let honest = keys();
    let own = |seed: u8, like: &str| key(like, 100 + seed);
    let (root_a, root_b) = (own(1, "root-a.test"), own(2, "root-b.test"));
    let (alice, bob, registry) = (own(3, "alice.test"), own(4, "bob.test"), own(5, ORIGIN));
    let trust = Trust {
        root: role(2, &[&root_a, &root_b]),
        publisher: role(2, &[&alice, &bob]),
        registry: role(1, &[&registry]),
        ..first_trust(&honest)
    };
    let store = Memory::default();
    let pin = publish::init(&store, &origin(), &trust, &[&root_a, &root_b]).unwrap();
    let note = publish::sign_profile(&profile("tested-two", 1), &origin(), &[&alice, &bob]).unwrap();
    let threads = std::num::NonZero::<usize>::MIN;
    let terms = Terms { keys: &[registry], now: day(6), life: LIFE, renew: true, threads };
    publish::publish(&store, &pin, &[note], &terms, &mut |_| {}).unwrap();
    store
}

fn mixes(h: &History) -> Vec<Case> {
    let (new, old) = (h.version(6), h.version(5));
    let (snapshot, older) = (latest_of(new).snapshot_path(), latest_of(old).snapshot_path());
    let missing = format!("`{older}` does not exist");
    let bundle = "log/tile/entries/000.p/6";
    vec![
        case(
            h,
            "mix-old-snapshot",
            "Yesterday's snapshot stands under the name of today's.",
            with(h, &snapshot, old.get(&older)),
        )
        .lookup("registry-corrupt", "its header does not fit the signed size")
        .verify(&snapshot, "is not what the log leads to")
        .sync_heals(6),
        case(
            h,
            "mix-old-latest",
            "Yesterday's `latest.note` stands among today's files.",
            with(h, latest::PATH, old.get(latest::PATH)),
        )
        .lookup("registry-missing", &missing)
        .verify(&older, "is missing")
        .sync(
            "moving",
            "`log/staged/5-1141210fdef59f8be991198ec5f8c20c9c58255fcacc4844083c95d5fbd11686` is missing",
        ),
        case(
            h,
            "mix-old-checkpoint",
            "Yesterday's checkpoint stands among today's files.",
            with(h, CHECKPOINT, old.get(CHECKPOINT)),
        )
        .lookup_grants("tested-two")
        .verify(CHECKPOINT, "is of another log than `snapshot/latest.note`")
        .sync(
            "moving",
            "`log/staged/6-57556a944196ecf53f488f58e808f881f88141b70fe3ec3c67af78516128e0b6` is missing",
        ),
        case(
            h,
            "mix-old-entries",
            "Yesterday's bundle of entries stands under the name of today's.",
            with(h, bundle, old.get("log/tile/entries/000.p/5")),
        )
        .lookup_grants("tested-two")
        .verify(bundle, "the bundle holds 5 entries, its name says 6")
        .sync("damaged", "the bundle holds 5 entries, its name says 6"),
    ]
}
