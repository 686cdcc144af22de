//! A published registry: what is found, what is refused, what a reader notices.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

mod support;

use capgate_registry::combination::Hex;
use capgate_registry::keys::SigningKey;
use capgate_registry::latest;
use capgate_registry::note::{self, Kind, Note};
use capgate_registry::profile::lint;
use capgate_registry::publish::PublishError;
use capgate_registry::reader::{Anchor, Reader, Seen};
use capgate_registry::record::{Doubt, Lookup};
use capgate_registry::snapshot::CatalogueError;
use jiff::SignedDuration;
use support::{World, first_key, key, origin, profile, profile_with, time};

#[test]
fn the_profile_of_the_tests_is_publishable() {
    assert_eq!(lint(profile("one-profile", 1).as_bytes()).1, []);
}

#[test]
fn what_was_published_is_found_and_nothing_else() {
    let world = World::new();
    let toml = profile("one-profile", 1);
    let done = world.publish(&[world.sign(&toml)]).unwrap();
    assert!(done.changed && done.appended.len() == 1);
    assert_eq!(world.live(&toml), ["one-profile"]);
    assert_eq!(world.live(&profile("other-profile", 2)), [""; 0]);
    let record = world.open().unwrap().lookup(&first_key(&toml)).unwrap().unwrap();
    assert_eq!(record.published[0].signers, ["publisher.test"]);
    assert_eq!(world.verify().faults, []);
}

#[test]
fn publishing_the_same_twice_changes_nothing() {
    let world = World::new();
    let note = world.sign(&profile("one-profile", 1));
    world.publish(std::slice::from_ref(&note)).unwrap();
    let before = world.store.files.borrow().clone();
    let again = world.publish(&[note]).unwrap();
    assert!(!again.changed);
    assert_eq!(again.already.len(), 1);
    assert_eq!(*world.store.files.borrow(), before);
}

#[test]
fn rule_7_an_id_with_other_bytes_is_refused() {
    let world = World::new();
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    let other = world.publish(&[world.sign(&profile("one-profile", 2))]);
    assert!(matches!(other, Err(PublishError::OtherBytes(_))), "{other:?}");
    let twice = [world.sign(&profile("two-profile", 2)), world.sign(&profile("two-profile", 3))];
    assert!(matches!(world.publish(&twice), Err(PublishError::OtherBytes(_) | PublishError::Catalogue(_))));
}

#[test]
fn a_second_live_profile_of_a_combination_must_supersede_the_first() {
    let world = World::new();
    world.publish(&[world.sign(&profile("first-one", 1))]).unwrap();
    let second = world.publish(&[world.sign(&profile("second-one", 1))]);
    assert!(matches!(second, Err(PublishError::Conflict { .. })), "{second:?}");
    let toml = profile_with("second-one", 1, "supersedes = \"first-one\"\n");
    world.publish(&[world.sign(&toml)]).unwrap();
    assert_eq!(world.live(&toml), ["second-one"]);
    // What was superseded never returns.
    world.publish(&[world.revocation("second-one", "withdrawn")]).unwrap();
    assert_eq!(world.live(&toml), [""; 0]);
    assert_eq!(world.verify().faults, []);
}

#[test]
fn a_profile_supersedes_only_its_own_combination() {
    let world = World::new();
    world.publish(&[world.sign(&profile("first-one", 1))]).unwrap();
    let other = world.publish(&[world.sign(&profile_with("second-one", 2, "supersedes = \"first-one\"\n"))]);
    assert!(
        matches!(other, Err(PublishError::Catalogue(CatalogueError::OtherCombination { .. }))),
        "{other:?}"
    );
    let unknown = world.publish(&[world.sign(&profile_with("second-one", 2, "supersedes = \"no-such\"\n"))]);
    assert!(matches!(unknown, Err(PublishError::Catalogue(CatalogueError::Unknown(_)))), "{unknown:?}");
}

#[test]
fn revoking_adds_a_record_and_deletes_none() {
    let world = World::new();
    let toml = profile("one-profile", 1);
    world.publish(&[world.sign(&toml)]).unwrap();
    let done = world.publish(&[world.revocation("one-profile", "harmful")]).unwrap();
    assert_eq!(done.latest.log_size, 2);
    let record = world.open().unwrap().lookup(&first_key(&toml)).unwrap().unwrap();
    let revoked = record.published[0].revoked.as_ref().unwrap();
    assert_eq!(revoked.severity.word(), "harmful");
    let again = world.publish(&[world.revocation("one-profile", "harmful")]);
    assert!(matches!(again, Err(PublishError::Catalogue(CatalogueError::Gone(_)))), "{again:?}");
}

#[test]
fn rule_11_a_stolen_registry_key_cannot_grant() {
    let world = World::new();
    let thief = key("publisher.test", 99);
    let forged =
        capgate_registry::publish::sign_profile(&profile("evil-one", 1), &origin(), &[&thief]).unwrap();
    // The honest path refuses to publish it …
    assert!(matches!(world.publish(std::slice::from_ref(&forged)), Err(PublishError::Note { .. })));
    // … so the thief compiles snapshot, log and latest.note with the registry key and without our checks.
    let stolen = forge_with_registry_key(&world, &thief, &forged);
    let reader = Reader::open(&stolen, &world.anchor()).unwrap();
    let found = reader.lookup(&first_key(&profile("evil-one", 1)));
    assert!(matches!(found, Err(Doubt::Unsigned(_))), "{found:?}");
    let faults = world.verify_store(&stolen).faults;
    assert!(faults.iter().any(|f| f.file.starts_with("log/tile/entries/")), "{faults:?}");
}

/// What a thief with the registry key and the source code can make: everything is signed but the entry.
fn forge_with_registry_key(world: &World, thief: &SigningKey, entry: &[u8]) -> support::Memory {
    use capgate_registry::latest::Latest;
    use capgate_registry::log::{CHECKPOINT, Checkpoint, LogReader, append};
    use capgate_registry::merkle;
    use capgate_registry::snapshot::{Catalogue, Entries, compile};
    struct One(Vec<u8>);
    impl Entries for One {
        fn entry(&self, _: u64) -> std::io::Result<Vec<u8>> {
            Ok(self.0.clone())
        }
    }
    let store = world.store.copy();
    let mut catalogue = Catalogue::default();
    assert!(catalogue.add(0, entry, &support::chain_with(thief)).unwrap());
    let mut snapshot = Vec::new();
    let compiled = compile(&catalogue, &One(entry.to_vec()), &mut snapshot, &mut |_| {}).unwrap();
    let log = append(&LogReader::new(&store, 0), &merkle::empty_root(), [entry]).unwrap();
    let latest = Latest {
        version: 9,
        size: compiled.size,
        root: compiled.root,
        log_size: log.size,
        log_root: log.root,
        trust: 1,
        issued: world.now,
        expires: time("2027-06-01T00:00:00Z"),
    };
    let sign = |text: &str| note::sign(text, &[&world.registry]).unwrap();
    let checkpoint = Checkpoint { origin: origin(), size: log.size, root: log.root };
    store.set(&latest.snapshot_path(), snapshot);
    store.set(latest::PATH, sign(&note::compose(Kind::Latest, &origin(), &latest.to_toml()).unwrap()));
    store.set(CHECKPOINT, sign(&checkpoint.to_text()));
    log.files.into_iter().for_each(|(path, bytes)| store.set(&path, bytes));
    store
}

#[test]
fn a_registry_key_by_another_name_or_a_publisher_cannot_sign_latest() {
    let world = World::new();
    let bytes = world.store.get(latest::PATH);
    let text = Note::parse(&bytes).unwrap().text().to_owned();
    for wrong in [key(support::ORIGIN, 9), key("publisher.test", 2), key("root.test", 1)] {
        let store = world.store.copy();
        store.set(latest::PATH, note::sign(&text, &[&wrong]).unwrap());
        let doubt = Reader::open(&store, &world.anchor()).unwrap_err();
        assert_eq!(doubt.code(), "registry-unsigned", "{doubt}");
    }
}

#[test]
fn age_clock_pin_and_rollback_are_judged() {
    let world = World::new();
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    let latest = world.open().unwrap().latest().clone();
    let anchor = world.anchor();
    let code = |anchor: &Anchor| Reader::open(&world.store, anchor).map(drop).map_err(|d| d.code());
    assert_eq!(code(&anchor), Ok(()));
    assert_eq!(code(&Anchor { now: latest.expires, ..anchor }), Err("registry-expired"));
    let last = latest.expires - SignedDuration::from_secs(1);
    assert_eq!(code(&Anchor { now: last, ..anchor }), Ok(()));
    assert_eq!(
        code(&Anchor { now: world.now - SignedDuration::from_secs(1), ..anchor }),
        Err("clock-behind")
    );
    let later = Seen { time: Some(anchor.now + SignedDuration::from_secs(1)), ..Seen::default() };
    assert_eq!(code(&Anchor { seen: later, ..anchor }), Err("clock-behind"));
    let newer = Seen { version: latest.version + 1, ..Seen::default() };
    assert_eq!(code(&Anchor { seen: newer, ..anchor }), Err("registry-rollback"));
    let fork = Seen {
        version: latest.version,
        root: Some(capgate_registry::merkle::empty_root()),
        ..Seen::default()
    };
    assert_eq!(code(&Anchor { seen: fork, ..anchor }), Err("registry-rollback"));
    let other = capgate_registry::merkle::Hash::of(b"another root");
    assert_eq!(code(&Anchor { pin: other, ..anchor }), Err("registry-wrong-key"));
    assert_eq!(Reader::open(&support::Memory::default(), &anchor).unwrap_err().code(), "registry-missing");
}

#[test]
fn renewing_signs_the_same_content_for_longer() {
    let mut world = World::new();
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    let before = world.open().unwrap().latest().clone();
    world.now += SignedDuration::from_hours(24 * 25);
    assert!(before.nearly_expired(world.now));
    let done = world.publish_to(&world.store, &[], true).unwrap();
    assert_eq!((done.latest.root, done.latest.log_root), (before.root, before.log_root));
    assert_eq!(done.latest.version, before.version + 1);
    assert!(done.latest.expires > before.expires && !done.latest.nearly_expired(world.now));
    assert_eq!(world.verify().faults, []);
}

#[test]
fn a_profile_without_a_digest_is_listed_and_never_found_by_a_combination() {
    let world = World::new();
    let toml = profile("listed-only", 1)
        .replace("verdict = \"override\"", "verdict = \"stock\"")
        .lines()
        .filter(|l| {
            !l.starts_with("sha256 = \"0") && !l.starts_with("override") && !l.starts_with("apple_family_max")
        })
        .filter(|l| {
            !l.starts_with("[[override")
                && !l.starts_with("acknowledges")
                && *l != "max_threadgroup_memory = 65536"
        })
        .collect::<Vec<_>>()
        .join("\n")
        + "\n";
    assert_eq!(lint(toml.as_bytes()).1, []);
    world.publish(&[world.sign(&toml)]).unwrap();
    let reader = world.open().unwrap();
    let listed: Vec<_> = reader.records().map(|r| r.unwrap().published[0].profile.id.to_string()).collect();
    assert_eq!(listed, ["listed-only"]);
    assert_eq!(reader.lookup(&Hex([1; 32])).unwrap(), None);
}

#[test]
fn too_few_registry_keys_are_refused_before_anything_is_written() {
    let world = World::new();
    let before = world.store.files.borrow().clone();
    let keys: [SigningKey; 1] = [key("somebody.else", 3)];
    let terms = capgate_registry::publish::Terms {
        keys: &keys,
        now: world.now,
        life: capgate_registry::publish::LIFE,
        renew: true,
        threads: std::num::NonZero::<usize>::MIN,
    };
    let refused = capgate_registry::publish::publish(&world.store, &world.pin, &[], &terms, &mut |_| {});
    assert!(matches!(refused, Err(PublishError::Note { .. })), "{refused:?}");
    let after: Vec<_> =
        world.store.files.borrow().keys().filter(|k| !before.contains_key(*k)).cloned().collect();
    assert_eq!(after, [""; 0]);
}

#[test]
fn a_profile_supersedes_only_what_it_covers_under_every_digest() {
    let world = World::new();
    let both = profile("both-digests", 1).replace(
        "version = \"b10167\"\n",
        "version = \"b10167\"\ncdhash = \"1111111111111111111111111111111111111111\"\n",
    );
    world.publish(&[world.sign(&both)]).unwrap();
    let one = world.publish(&[world.sign(&profile_with("one-digest", 1, "supersedes = \"both-digests\"\n"))]);
    assert!(matches!(one, Err(PublishError::Catalogue(CatalogueError::OtherCombination { .. }))), "{one:?}");
}

#[test]
fn attack_deleted_latest_does_not_start_a_second_history() {
    let world = World::new();
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    world.publish(&[world.revocation("one-profile", "harmful")]).unwrap();
    let log = world.store.get("log/checkpoint");
    world.store.files.borrow_mut().remove(latest::PATH);
    let again = world.publish(&[world.sign(&profile("one-profile", 1))]);
    assert!(matches!(again, Err(PublishError::Uncommitted { .. })), "{again:?}");
    assert_eq!(world.store.get("log/checkpoint"), log);
}

#[test]
fn attack_a_store_put_back_to_yesterday_does_not_fork_the_log() {
    let world = World::new();
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    let yesterday = world.store.files.borrow().clone();
    world.publish(&[world.revocation("one-profile", "harmful")]).unwrap();
    let seen = world.open().unwrap().seen();
    let checkpoint = world.store.get("log/checkpoint");
    *world.store.files.borrow_mut() = yesterday;
    // The checkpoint that others hold is still there: the log may not be signed again beside it.
    world.store.set("log/checkpoint", checkpoint);
    let forked = world.publish(&[world.sign(&profile("two-profile", 2))]);
    assert!(matches!(forked, Err(PublishError::Fork { .. }) | Err(PublishError::Store(_))), "{forked:?}");
    // Where nothing of it is left, whoever saw the newer log refuses another one of its size. (A longer one is for
    // consistency proofs to refuse, which syncing will bring.)
    world.store.files.borrow_mut().remove("log/checkpoint");
    world.publish(&[world.sign(&profile("two-profile", 2))]).unwrap();
    let doubt = Reader::open(&world.store, &Anchor { seen, ..world.anchor() }).unwrap_err();
    assert_eq!(doubt.code(), "registry-rollback");
}

#[test]
fn a_lost_checkpoint_is_signed_again() {
    let world = World::new();
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    world.store.files.borrow_mut().remove("log/checkpoint");
    let next = world.publish(&[world.sign(&profile("two-profile", 2))]).unwrap();
    assert!(next.completed && next.latest.log_size == 2);
    assert_eq!(world.verify().faults, []);
}

#[test]
fn attack_a_racing_publisher_does_not_remove_what_another_has_staged() {
    let world = World::new();
    let staged = "log/staged/9-0000000000000000000000000000000000000000000000000000000000000001";
    world.store.set(staged, b"capgate staged v1\n".to_vec());
    world.store.set("snapshot/99-x.snap", vec![]);
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    assert!(world.store.files.borrow().contains_key(staged));
    assert!(world.store.files.borrow().contains_key("snapshot/99-x.snap"));
}

#[test]
fn a_smaller_or_other_log_than_the_one_seen_is_a_rollback() {
    let world = World::new();
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    let seen = world.open().unwrap().seen();
    let code =
        |seen| Reader::open(&world.store, &Anchor { seen, ..world.anchor() }).map_err(|d| d.code()).map(drop);
    assert_eq!(code(seen), Ok(()));
    assert_eq!(code(Seen { log_size: 2, ..seen }), Err("registry-rollback"));
    let other = Some(capgate_registry::merkle::Hash::of(b"another log"));
    assert_eq!(code(Seen { log_root: other, ..seen }), Err("registry-rollback"));
}

#[test]
fn verify_names_a_foreign_snapshot_and_a_foreign_signature() {
    let world = World::new();
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    let current = world.store.get(&world.open().unwrap().latest().snapshot_path());
    let root = world.open().unwrap().latest().root;
    let foreign = format!("snapshot/77-{root}.snapshot");
    world.store.set(&foreign, current.clone());
    // One that nothing names yet was left by a publication, or by a sync, that stopped.
    let unread = format!("snapshot/77-{root}.snap");
    world.store.set(&unread, current);
    let checkpoint =
        note::add_signature(&world.store.get("log/checkpoint"), &key("somebody.else", 44)).unwrap();
    world.store.set("log/checkpoint", checkpoint);
    let report = world.verify();
    assert_eq!(report.faults.iter().map(|f| f.file.as_str()).collect::<Vec<_>>(), [foreign]);
    assert!(report.notes.iter().any(|note| note.contains("somebody.else")), "{:?}", report.notes);
    assert!(report.notes.iter().any(|note| note.contains(&unread)), "{:?}", report.notes);
}

#[test]
fn verify_says_when_the_trust_ends() {
    let mut world = World::new();
    let notes = |world: &World| world.verify().notes.join("\n");
    assert!(!notes(&world).contains("trust expire"));
    world.now = time("2027-11-02T00:00:00Z");
    world.publish_to(&world.store, &[], true).unwrap();
    assert!(notes(&world).contains("its trust expires 2027-12-01"), "{}", notes(&world));
    world.now = time("2027-12-02T00:00:00Z");
    assert!(notes(&world).contains("its trust expired 2027-12-01"), "{}", notes(&world));
}

#[test]
fn attack_a_signed_size_that_nobody_has_does_not_keep_verify_busy() {
    let world = World::new();
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    let mut claimed = world.open().unwrap().latest().clone();
    claimed.log_size = 1 << 60;
    let text = note::compose(Kind::Latest, &origin(), &claimed.to_toml()).unwrap();
    world.store.set(latest::PATH, note::sign(&text, &[&world.registry]).unwrap());
    let faults = world.verify().faults;
    assert!(faults.iter().any(|f| f.file == "log/checkpoint"), "{faults:?}");
}

#[test]
fn attack_a_record_from_beyond_the_log_is_corrupt() {
    let world = World::new();
    world.publish(&[world.sign(&profile("one-profile", 1))]).unwrap();
    let mut claimed = world.open().unwrap().latest().clone();
    claimed.log_size = 0;
    let text = note::compose(Kind::Latest, &origin(), &claimed.to_toml()).unwrap();
    world.store.set(latest::PATH, note::sign(&text, &[&world.registry]).unwrap());
    let found = world.open().unwrap().lookup(&first_key(&profile("one-profile", 1)));
    assert!(matches!(found, Err(Doubt::Corrupt(_))), "{found:?}");
}

#[test]
fn what_came_since_a_checkpoint_is_audited_alone() {
    use capgate_registry::log::CHECKPOINT;
    use capgate_registry::verify::since;
    let world = World::new();
    let mut kept = vec![world.store.get(CHECKPOINT)];
    for n in 0..6 {
        world.publish(&[world.sign(&profile(&format!("profile-{n}"), n))]).unwrap();
        kept.push(world.store.get(CHECKPOINT));
    }
    world.publish(&[world.revocation("profile-2", "harmful")]).unwrap();
    let audit = |store: &support::Memory, earlier: &[u8]| {
        since(store, &world.pin, earlier, world.anchor().now, &mut |_| {})
    };
    for (size, earlier) in (0..).zip(&kept) {
        let report = audit(&world.store, earlier);
        assert_eq!(report.faults, []);
        assert_eq!((report.since, report.entries, report.new.len() as u64), (Some(size), 7 - size, 7 - size));
        let last = report.new.last().unwrap();
        assert_eq!((last.index, last.what, last.id.as_str(), last.counts), (6, "revoked", "profile-2", true));
        assert_eq!(last.signers, ["publisher.test"]);
    }
    // Nothing came since: nothing is new.
    assert_eq!(audit(&world.store, &world.store.get(CHECKPOINT)).new, []);
    // Another history, a newer checkpoint, and what nobody signed are named.
    let other = World::new();
    let notes: Vec<Vec<u8>> = (50..60).map(|n| other.sign(&profile(&format!("other-{n}"), n))).collect();
    other.publish(&notes).unwrap();
    let names = |store: &support::Memory, earlier: &[u8], says: &str| {
        let faults = audit(store, earlier).faults;
        assert!(faults.iter().any(|fault| fault.what.contains(says)), "{says}: {faults:?}");
    };
    names(&other.store, &kept[4], "was rewritten");
    names(&world.store, &other.store.get(CHECKPOINT), "7 entries, and 10 were signed before");
    names(&world.store, b"origin\n0\nroot\n", "no signatures");
    let damaged = world.store.copy();
    let bundle = "log/tile/entries/000.p/7";
    let mut bytes = damaged.get(bundle);
    let at = bytes.len() - 200;
    bytes[at] ^= 1;
    damaged.set(bundle, bytes);
    assert_ne!(audit(&damaged, &kept[3]).faults, []);
}
