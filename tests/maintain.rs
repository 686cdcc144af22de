//! The commands by which maintainers keep a registry, and what they say to wrong input.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use support::{B10167, B10359, NOW, ORIGIN, World};

const KEYS: &str = "--key alice.key --registry-key registry.key";

#[test]
fn a_key_is_for_its_owner_and_never_overwritten() {
    let world = World::bare();
    let mode = fs::metadata(world.path("root.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = world.read("root.key");
    world.run("keygen other --out root.key").fails(
        1,
        "error: `root.key` exists, and a key is never overwritten\nhelp: choose another name with `--out`\n",
    );
    assert_eq!(world.read("root.key"), before);
    assert!(before.starts_with("PRIVATE+KEY+root.test+"));
    world.run("keygen 'a b' --out k").fails(
        2,
        "error: `a b` is no key name: one to 256 bytes without `+`, white space or control characters\n",
    );
}

#[test]
fn a_pem_gets_a_name_and_is_known_by_its_content() {
    let world = World::bare();
    // RFC 8410, section 10.3: a TEST key, public knowledge.
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
    world.put("pem.key", pem);
    let chmod = "error: the key file `pem.key` can be used by others than its owner (mode 644)\nhelp: chmod 600 pem.key\n";
    fs::set_permissions(world.path("pem.key"), fs::Permissions::from_mode(0o644)).unwrap();
    world.run("keygen bob --import pem.key --out bob.key").fails(1, chmod);
    fs::set_permissions(world.path("pem.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let public = world.run("keygen bob --import pem.key --out bob.key").ok().out;
    assert!(public.starts_with("bob+") && world.read("bob.key").starts_with("PRIVATE+KEY+bob+"));
    let made = world.run(&format!(
        "init registry --origin {ORIGIN} --root-key root.key --publisher {} --registry-key registry.key",
        public.trim()
    ));
    let root = made.ok().out;
    // The PEM has no name of its own; the trust says which key it is.
    let line = format!("publish {B10167} --key pem.key --registry-key registry.key --root {root}");
    world.run(&line).ok();
    let nameless = format!("publish {B10167} --key alice.key --registry-key pem.key --root {root}");
    assert_eq!(world.run(&nameless).exit, 1);
    world.run(&format!(
        "init other --origin {ORIGIN} --root-key pem.key --publisher alice.key --registry-key registry.key"
    )).fails(
        1,
        "error: the key in `pem.key` is none of the keys that may sign here\n\
         help: give it a name: capgate keygen NAME --import pem.key --out FILE\n",
    );
}

#[test]
fn key_files_that_others_can_read_are_refused_everywhere() {
    let world = World::new();
    fs::set_permissions(world.path("registry.key"), fs::Permissions::from_mode(0o640)).unwrap();
    let wanted = "error: the key file `registry.key` can be used by others than its owner (mode 640)\n\
                  help: chmod 600 registry.key\n";
    for line in [
        format!("publish --all {KEYS}"),
        format!("revoke {B10167} --reason x --severity harmful {KEYS}"),
        "renew --registry-key registry.key".to_owned(),
        format!(
            "init r2 --origin {ORIGIN} --root-key root.key --publisher alice.key --registry-key registry.key"
        ),
        format!(
            "init r2 --origin {ORIGIN} --root-key root.key --publisher registry.key --registry-key root.key"
        ),
    ] {
        world.run(&line).fails(1, wanted);
    }
}

#[test]
fn init_refuses_what_readers_would() {
    let world = World::new();
    let init =
        |rest: &str| world.run(&format!("init {rest} --root-key root.key --registry-key registry.key"));
    init(&format!("registry --origin {ORIGIN} --publisher alice.key")).fails(
        1,
        "error: there is a registry already: `trust/1.note` exists\n\
         help: choose another folder, or put profiles into this one with `capgate publish`\n",
    );
    init("r2 --origin other.example --publisher alice.key").fails(
        2,
        "error: the registry key `test.example/gpu` is not named `other.example`\n\
         help: capgate keygen other.example --out registry.key\n",
    );
    init(&format!("r2 --origin {ORIGIN} --publisher alice.key --threshold-publisher 2"))
        .fails(2, "error: `publisher` wants 2 signatures of 1 keys\n");
    let same = init(&format!("r2 --origin {ORIGIN} --publisher root.key"));
    assert_eq!(same.exit, 2);
    assert!(same.err.contains("stands under `root` and again under `publisher`"), "{}", same.err);
    init(&format!("r2 --origin {ORIGIN} --publisher bogus")).fails(
        2,
        "error: `bogus` is neither a file nor a public key: the key has not the form `NAME+HASH+BASE64`\n\
         help: a public key is the line that `capgate keygen` prints\n",
    );
    assert!(!world.path("r2").join("trust").exists());
}

#[test]
fn lint_names_every_problem_of_all_files_at_once() {
    let world = World::bare();
    assert_eq!(world.run("lint").ok().out, "3 profiles, no problem\n");
    world.edit(&format!("profiles.d/{B10167}.toml"), "verdict = \"override\"", "verdict = \"overide\"");
    // Another name for the same combination, a name that is not the id, and an unknown predecessor.
    let copy = world.read(&format!("profiles.d/{B10359}.toml")).replace(B10359, "second");
    world.put("profiles.d/z.toml", &copy.replace("verdict", "supersedes = \"gone\"\nverdict"));
    let run = world.run("lint");
    assert_eq!(run.exit, 4);
    for wanted in [
        "error: `verdict` cannot be `overide`\n --> profiles.d/m1-ultra-25g76-25f84-llama-bench-b10167.toml:3:11",
        "help: did you mean `override`?",
        "error: the file is named `z.toml`, its id is `second`",
        "help: rename the file to `second.toml`",
        "`m1-ultra-25g76-25f84-llama-bench-b10359` and `second` are about the same combination",
        "4 profiles, 3 problems in 2 files\n",
    ] {
        assert!(run.out.contains(wanted), "{wanted}\n{}", run.out);
    }
    assert_eq!(run.err, "hint: `second` supersedes `gone`, which is in none of these files\n");
    let json = world.run("lint --format json");
    assert_eq!(json.exit, 4);
    let json = json.json();
    let problems = json["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 3);
    assert_eq!((&problems[0]["line"], &problems[0]["column"]), (&3.into(), &11.into()));
    world.edit("profiles.d/z.toml", "\"gone\"", &format!("\"{B10359}\""));
    let superseding = world.run("lint profiles.d/z.toml");
    assert!(superseding.out.ends_with("1 profile, 1 problem in 1 file\n"), "{}", superseding.out);
    world
        .run("lint nodir")
        .fails(1, "error: `nodir` cannot be read: No such file or directory (os error 2)\n");
}

#[test]
fn lint_reports_what_is_no_text_at_all() {
    let world = World::bare();
    fs::write(world.path("bad.toml"), b"schema = \"1.0.0\"\nid = \"\xff\"\n").unwrap();
    let run = world.run("lint bad.toml");
    assert_eq!(run.exit, 4);
    assert!(
        run.out.starts_with("error: is not UTF-8 from here on\n --> bad.toml:2:7\nhelp: "),
        "{}",
        run.out
    );
}

#[test]
fn publishing_twice_changes_nothing_and_other_bytes_are_refused() {
    let world = World::new();
    let first = world.publish(B10167).ok();
    assert!(
        first.out.starts_with(&format!("published {B10167} (log index 0)\nin force: version 2, 1 record,"))
    );
    let note = world.read("registry/snapshot/latest.note");
    let again = world.publish(B10167).ok();
    assert!(
        again.out.starts_with(&format!("already published {B10167}, with the same content\nnothing changed"))
    );
    assert_eq!(world.read("registry/snapshot/latest.note"), note);
    world.edit(&format!("profiles.d/{B10167}.toml"), "7 to 16 times", "about 10 times");
    world.publish(B10167).fails(
        4,
        &format!(
            "error: `{B10167}` was published before with other content; give the new profile an id of its own and \
             `supersedes`\n"
        ),
    );
}

#[test]
fn a_profile_follows_the_one_it_supersedes_in_one_publication() {
    let world = World::new();
    // Sorted by name, the newer one comes first.
    let newer = world.read(&format!("profiles.d/{B10359}.toml")).replace(B10359, "a-newer");
    let newer = newer.replacen("verdict", &format!("supersedes = \"{B10359}\"\nverdict"), 1);
    world.put("profiles.d/a-newer.toml", &newer);
    world.publish("--all").ok();
    let listed = world.run(&format!("list --format json --now {NOW}")).ok().json();
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a-newer", B10167, "m1-ultra-25g76-25f84-mlx-lm-0-31-3"]);
}

#[test]
fn init_gives_a_registry_a_folder_of_its_own() {
    let world = World::new();
    fs::create_dir(world.path("taken")).unwrap();
    world.put("taken/notes.txt", "mine");
    let line = format!(
        "init taken --origin {ORIGIN} --root-key root.key --publisher alice.key --registry-key registry.key"
    );
    world.run(&line).fails(
        1,
        "error: the folder `taken` is not empty: it holds `notes.txt`\nhelp: give the registry a folder of its own\n",
    );
    assert!(!world.path("taken/trust").exists());
}

#[test]
fn a_registry_that_expired_is_no_good_one() {
    let world = World::published();
    let run = world.run("verify registry --now 2027-03-01T00:00:00Z");
    assert_eq!(run.exit, 4);
    assert!(run.out.ends_with("no fault, but it expired\n"), "{}", run.out);
    let run = world.run("verify registry --now 2020-01-01T00:00:00Z");
    assert_eq!(run.exit, 4);
    assert!(run.out.ends_with("no fault, but no reader believes it before it was signed\n"), "{}", run.out);
    let run = world.run("renew --registry-key registry.key --now 2099-01-01T00:00:00Z");
    assert!(run.err.contains("`--now 2099-01-01T00:00:00Z` is still to come"), "{}", run.err);
}

#[test]
fn publish_says_what_is_wrong_with_its_input() {
    let world = World::new();
    world
        .run(&format!("publish nope {KEYS}"))
        .fails(1, "error: there is no profile `nope` in `profiles.d`\n");
    let typo = B10167.replace("b10167", "b10168");
    world.run(&format!("publish {typo} {KEYS}")).fails(
        1,
        &format!("error: there is no profile `{typo}` in `profiles.d`\nhelp: did you mean `{B10167}`?\n"),
    );
    world.run("publish --all --key root.key --registry-key registry.key").fails(
        1,
        "error: the key `root.test` in `root.key` is no publisher key here\nhelp: the publisher keys are `alice.test`\n",
    );
    world.run(&format!("publish --all {KEYS} --registry nodir")).fails(
        1,
        "error: there is no registry folder `nodir`\n\
         help: make a registry with `capgate init`, or name the folder that holds one\n",
    );
    let other = "1".repeat(64);
    let wrong = world.run(&format!("publish --all {KEYS} --root sha256:{other}"));
    assert_eq!(wrong.exit, 4);
    assert!(wrong.err.starts_with("error: the registry belongs to another root of trust:"), "{}", wrong.err);
    world.edit(&format!("profiles.d/{B10167}.toml"), "verdict = \"override\"", "verdict = \"overide\"");
    let bad = world.run(&format!("publish {B10167} {KEYS}"));
    assert_eq!((bad.exit, bad.out.as_str()), (4, ""));
    assert!(
        bad.err.ends_with("error: nothing was published: 1 problem\nhelp: capgate lint profiles.d\n"),
        "{}",
        bad.err
    );
    // A problem in another file does not matter.
    world.publish(B10359).ok();
    assert_eq!(world.run(&format!("publish {KEYS}")).exit, 2);
}

#[test]
fn revoking_keeps_the_record_and_happens_once() {
    let world = World::published();
    let revoke = |id: &str, reason: &str| {
        let args = ["revoke", id, "--reason", reason, "--severity", "harmful", "--key", "alice.key"];
        let output = world
            .command()
            .args(args)
            .args(["--registry-key", "registry.key", "--now", NOW])
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(revoke(B10359, "wrong \"answers\" with C:\\long prompts"), (0, String::new()));
    let listed = world.run(&format!("list --revoked --format json --now {NOW}")).ok().json();
    let revoked = listed.as_array().unwrap().iter().find(|entry| entry["id"] == B10359).unwrap();
    assert_eq!(revoked["revoked"]["reason"], "wrong \"answers\" with C:\\long prompts");
    assert_eq!(
        world.run(&format!("list --format json --now {NOW}")).ok().json().as_array().unwrap().len(),
        2
    );
    let first = "is revoked since log index 3 (harmful): wrong \"answers\" with C:\\long prompts";
    assert_eq!(revoke(B10359, "x"), (4, format!("error: `{B10359}` {first}; nothing was changed\n")));
    // Publishing it again is no success: it stays out of force.
    let again = world.publish(B10359);
    let stays = format!("warning: `{B10359}` {first}; it stays out of force\n");
    assert_eq!((again.exit, again.err.starts_with(&stays)), (3, true), "{}", again.err);
    assert!(again.out.starts_with("nothing changed: version 3, "), "{}", again.out);
    let json = world.publish(&format!("--format json {B10359}"));
    assert_eq!((json.exit, &json.json()["revoked"][0]["log_index"]), (3, &3.into()));
    assert_eq!(
        (json.json()["already"].as_array().unwrap().len(), &json.json()["changed"]),
        (0, &false.into())
    );
    let all = world.publish("--all");
    assert_eq!(all.exit, 3);
    assert!(
        all.out.contains(&format!("already published {B10167}, ")) && all.err.starts_with(&stays),
        "{}",
        all.err
    );
    assert!(!all.out.contains(&format!("already published {B10359}")), "{}", all.out);
    let near = format!("error: `{B10167}x` is not in this registry\nhelp: did you mean `{B10167}`?\n");
    assert_eq!(revoke(&format!("{B10167}x"), "x"), (4, near));
    let bogus = "error: `bogus` is not in this registry\nhelp: `capgate list` shows what is in force\n";
    assert_eq!(revoke("bogus", "x"), (4, bogus.to_owned()));
    let (exit, err) = revoke("Bad_Id", "x");
    assert_eq!(exit, 2);
    assert!(err.starts_with("error: `Bad_Id` is no id:"), "{err}");
    let tab = (2, "error: the reason cannot be published: the character U+0009 is not allowed\n".to_owned());
    assert_eq!(revoke(B10167, "a\tb"), tab);
    world.run(&format!("verify --now {NOW}")).ok();
}

#[test]
fn renewing_moves_the_end_and_everybody_is_warned_before_it() {
    let world = World::published();
    let late = "2026-12-22T00:00:00Z";
    let warning = "warning: the registry expires 2026-12-31T00:00:00Z; its maintainer should run \
                   `capgate renew --registry registry`\n";
    let list = world.run(&format!("list --now {late}")).ok();
    assert!(list.err.starts_with(warning), "{}", list.err);
    let expired = world.run("list --now 2027-01-01T00:00:00Z");
    expired.fails(
        4,
        "error: the registry expired: version 2 ended 2026-12-31T00:00:00Z; its maintainer must run `capgate renew`\n",
    );
    world.run("renew --registry-key alice.key").fails(
        1,
        "error: the key `alice.test` in `alice.key` is no registry key here\nhelp: the registry keys are `test.example/gpu`\n",
    );
    // What expired can be renewed.
    let renewed = world.run("renew --registry-key registry.key --days 10 --now 2027-01-02T00:00:00Z").ok();
    assert_eq!(renewed.out, "renewed: version 3, expires 2027-01-12T00:00:00Z\n");
    world.run("list --now 2027-01-03T00:00:00Z").ok();
}

#[test]
fn verify_names_the_changed_file() {
    let world = World::published();
    assert!(world.run(&format!("verify --now {NOW}")).ok().out.ends_with("verified: no fault\n"));
    let mut snapshots = fs::read_dir(world.path("registry/snapshot")).unwrap().map(|e| e.unwrap().path());
    let newest = snapshots.find(|path| path.to_string_lossy().contains("/2-")).unwrap();
    let mut bytes = fs::read(&newest).unwrap();
    bytes[100] ^= 1;
    fs::write(&newest, bytes).unwrap();
    let run = world.run(&format!("verify --now {NOW}"));
    assert_eq!(run.exit, 4);
    let name = format!("fault: `snapshot/{}`", newest.file_name().unwrap().to_string_lossy());
    assert!(run.out.contains(&name), "{}", run.out);
    let json = world.run(&format!("verify --format json --now {NOW}"));
    assert_eq!(json.exit, 4);
    assert!(!json.json()["faults"].as_array().unwrap().is_empty());
    world.run("verify nodir").fails(
        1,
        "error: there is no registry folder `nodir`\n\
         help: make a registry with `capgate init`, or name the folder that holds one\n",
    );
}

#[test]
fn listing_filters_by_chip_build_program_and_verdict() {
    let world = World::published();
    let count = |filter: &str| {
        world.run(&format!("list {filter} --format json --now {NOW}")).ok().json().as_array().unwrap().len()
    };
    assert_eq!(count(""), 3);
    assert_eq!(count("--verdict stock"), 1);
    assert_eq!(count("--chip 'Apple M1 Ultra'"), 3);
    assert_eq!(count("--chip 'Apple M1'"), 0);
    assert_eq!((count("--os 25G76"), count("--os 25F84"), count("--os 25G90")), (3, 3, 0));
    assert_eq!(count("--workload llama-bench"), 2);
    let digest = "28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7";
    assert_eq!(
        (count(&format!("--workload {digest}")), count(&format!("--workload sha256:{digest}"))),
        (1, 1)
    );
    world.run("list --verdict maybe").fails(
        2,
        "error: invalid value 'maybe' for '--verdict <VERDICT>'\n  [possible values: override, stock]\n\n\
         For more information, try '--help'.\n",
    );
}
