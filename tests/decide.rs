//! Lookups, explanations, decision logs and site policies through the real command.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use support::{B10167, B10359, NOW, World};

fn world() -> World {
    let world = World::published();
    world.facts("tested.toml", B10167, &[]);
    world.facts("updated.toml", B10167, &[("host_os_build", Some("25G90"))]);
    world
}

fn lookup(world: &World, rest: &str) -> support::Run {
    world.run(&format!("lookup --now {NOW} {rest}"))
}

#[test]
fn exactly_the_tested_combination_is_granted() {
    let world = world();
    let run = lookup(&world, "--facts tested.toml --format json").ok();
    let json = run.json();
    assert_eq!(json["outcome"], "grant");
    assert_eq!((&json["apple_family_max"], &json["max_threadgroup_memory"]), (&1009.into(), &65536.into()));
    assert_eq!(json["profile"], B10167);
    assert_eq!((&json["reason"], &json["nearest"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    let human = lookup(&world, "--facts tested.toml").ok();
    assert!(
        human.out.starts_with("grant: Apple family 1009, 65,536 bytes of threadgroup memory\n"),
        "{}",
        human.out
    );
}

#[test]
fn every_other_one_is_stock_with_its_reason_and_the_nearest_profile() {
    let world = world();
    let json = lookup(&world, "--facts updated.toml --format json");
    assert_eq!(json.exit, 3);
    let json = json.json();
    assert_eq!((&json["outcome"], &json["reason"]), (&"stock".into(), &"no-profile".into()));
    assert_eq!(json["nearest"]["profile"], B10167);
    let difference = &json["nearest"]["differences"][0];
    assert_eq!(
        (&difference["part"], &difference["here"], &difference["tested"]),
        (&"host_os_build".into(), &"25G90".into(), &"25G76".into())
    );
    for (fact, reason) in [
        ("host_chip", "fact-host-chip-missing"),
        ("host_os_build", "fact-host-os-build-missing"),
        ("guest_os_build", "fact-guest-os-build-missing"),
        ("workload", "fact-workload-missing"),
    ] {
        world.facts("unknown.toml", B10167, &[(fact, None)]);
        let run = lookup(&world, "--facts unknown.toml --format json");
        assert_eq!((run.exit, &run.json()["reason"]), (3, &reason.into()));
    }
    let off = world
        .command()
        .args(["lookup", "--facts", "tested.toml"])
        .env("CAPGATE_DISABLE", "1")
        .output()
        .unwrap();
    assert!(off.status.code() == Some(3) && off.stdout.starts_with(b"stock: disabled\n"));
}

#[test]
fn a_registry_in_doubt_is_stock_and_says_which_doubt() {
    let world = world();
    for (rest, reason) in [
        ("--registry nodir".to_owned(), "registry-missing"),
        (format!("--root sha256:{}", "1".repeat(64)), "registry-wrong-key"),
    ] {
        let run = lookup(&world, &format!("--facts tested.toml --format json {rest}"));
        assert_eq!((run.exit, &run.json()["reason"]), (3, &reason.into()));
    }
    for (now, reason) in
        [("2027-01-01T00:00:00Z", "registry-expired"), ("2026-01-01T00:00:00Z", "clock-behind")]
    {
        let run = world.run(&format!("lookup --facts tested.toml --format json --now {now}"));
        assert_eq!((run.exit, &run.json()["reason"]), (3, &reason.into()));
    }
}

#[test]
fn a_program_is_known_by_the_bytes_of_its_file() {
    let world = world();
    world.put("program", "not llama-bench");
    let run = lookup(&world, "--facts tested.toml --workload program --format json");
    assert_eq!((run.exit, &run.json()["reason"]), (3, &"no-profile".into()));
    for supposed in ["workload=sha256:12", "host_os_build=zzz", "host_chip=M1\u{e9}", "colour=red"] {
        let run = world.run(&format!("explain --facts tested.toml --if {supposed}"));
        assert_eq!(run.exit, 2, "{supposed}: {}", run.err);
    }
    lookup(&world, "--facts tested.toml --workload nofile").fails(
        1,
        "error: the program `nofile` cannot be read: No such file or directory (os error 2)\n\
         help: name its executable file, or give `sha256:` and 64 digits\n",
    );
    lookup(&world, "--facts nofile")
        .fails(1, "error: the facts file `nofile` cannot be read: No such file or directory (os error 2)\n");
    world.put("typo.toml", "host_chp = \"Apple M1 Ultra\"\n");
    let typo = lookup(&world, "--facts typo.toml");
    assert_eq!(typo.exit, 4);
    assert!(typo.err.contains("help: did you mean `host_chip`?"), "{}", typo.err);
    assert!(typo.err.ends_with("error: the facts file `typo.toml` has 1 problem\n"), "{}", typo.err);
}

#[test]
fn a_site_policy_narrows_and_a_typo_in_it_is_stock() {
    let world = world();
    let deny = "schema = \"1.0.0\"\nmode = \"enforce\"\n[[deny]]\nid = \"no-llama\"\nreason = \"a test\"\n\
                owner = \"me\"\nworkload_name = \"llama-bench\"\n";
    world.put("site.toml", deny);
    let run = lookup(&world, "--facts tested.toml --policy site.toml --format json");
    assert_eq!(
        (run.exit, &run.json()["reason"], &run.json()["rule"]),
        (3, &"site-denied".into(), &"no-llama".into())
    );
    world.run("policy check site.toml").ok();
    world.put("site.toml", &deny.replace("workload_name", "workload_nmae"));
    let run = lookup(&world, "--facts tested.toml --policy site.toml --format json");
    assert_eq!((run.exit, &run.json()["reason"]), (3, &"site-malformed".into()));
    assert!(run.err.contains("help: did you mean `workload_name`?"), "{}", run.err);
    let check = world.run("policy check site.toml");
    assert_eq!(check.exit, 4);
    assert!(
        check.out.contains("error: unknown key `deny[0].workload_nmae`\n --> site.toml:7:1"),
        "{}",
        check.out
    );
    let last = "the policy cannot be used, and every program would stay stock: 2 problems\n";
    assert!(check.out.ends_with(last), "{}", check.out);
    let run = lookup(&world, "--facts tested.toml --policy nofile --format json");
    assert_eq!((run.exit, &run.json()["reason"]), (3, &"site-unreadable".into()));
    world
        .run("policy check nofile")
        .fails(1, "error: `nofile` cannot be read: No such file or directory (os error 2)\n");
}

#[test]
fn a_rule_that_expired_is_a_warning() {
    let world = world();
    world.put(
        "site.toml",
        "schema = \"1.0.0\"\nmode = \"enforce\"\n[[deny]]\nid = \"old\"\nreason = \"a test\"\nowner = \"me\"\n\
         expires = 2026-11-01T00:00:00Z\nworkload_name = \"llama-bench\"\n",
    );
    let check = world.run(&format!("policy check site.toml --now {NOW}")).ok();
    assert!(
        check.out.starts_with("warning: ") && check.out.ends_with("the policy can be used\n"),
        "{}",
        check.out
    );
}

#[test]
fn what_cannot_be_logged_is_not_granted() {
    let world = world();
    fs::create_dir(world.path("folder")).unwrap();
    world.put("real.jsonl", "");
    symlink("real.jsonl", world.path("link.jsonl")).unwrap();
    fs::hard_link(world.path("real.jsonl"), world.path("second.jsonl")).unwrap();
    let fifo = world.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for log in ["folder", "missing/log", "link.jsonl", "real.jsonl", "fifo", "/dev/full"] {
        let run = lookup(&world, &format!("--facts tested.toml --log {log} --format json"));
        assert_eq!((run.exit, &run.json()["reason"]), (3, &"log-unwritable".into()), "{log}");
        let stock = lookup(&world, &format!("--facts updated.toml --log {log} --format json"));
        assert_eq!(stock.json()["reason"], "no-profile");
    }
    assert_eq!(world.read("real.jsonl"), "");
}

#[test]
fn decisions_stand_in_the_log_and_torn_lines_hide_none() {
    let world = world();
    for facts in ["tested.toml", "updated.toml"] {
        lookup(&world, &format!("--facts {facts} --log log.jsonl"));
    }
    assert_eq!(fs::metadata(world.path("log.jsonl")).unwrap().permissions().mode() & 0o777, 0o600);
    let good = world.read("log.jsonl");
    let first: serde_json::Value = serde_json::from_str(good.lines().next().unwrap()).unwrap();
    for (key, value) in [("outcome", "grant"), ("host_source", "file"), ("profile", B10167), ("time", NOW)] {
        assert_eq!(first[key], value);
    }
    world.put("torn.jsonl", &format!("{{\"a\": 1}}\nnot json\n{good}{}", good.get(..40).unwrap()));
    let run = world.run("audit list torn.jsonl --format json");
    assert_eq!(run.exit, 4, "lines that capgate never wrote");
    assert_eq!(run.json()["decisions"].as_array().unwrap().len(), 2);
    let lines: Vec<i64> =
        run.json()["malformed"].as_array().unwrap().iter().map(|m| m["line"].as_i64().unwrap()).collect();
    assert_eq!(lines, [1, 2, 5]);
    assert!(
        run.err.contains("warning: `torn.jsonl` line 5 is torn: it does not end in a newline\n"),
        "{}",
        run.err
    );
    // A line that was not finished is what a crash leaves.
    world.put("crash.jsonl", &format!("{good}{}", good.get(..40).unwrap()));
    assert_eq!(world.run("audit list crash.jsonl").exit, 0);
    world
        .run("audit list log.jsonl --reason no-profil")
        .fails(2, "error: there is no reason `no-profil`\nhelp: did you mean `no-profile`?\n");
    let count = |filter: &str| {
        let run = world.run(&format!("audit list log.jsonl --format json {filter}")).ok();
        run.json()["decisions"].as_array().unwrap().len()
    };
    assert_eq!((count("--outcome grant"), count("--outcome stock"), count("--reason no-profile")), (1, 1, 1));
    assert_eq!((count(&format!("--since {NOW}")), count(&format!("--until {NOW}"))), (2, 0));
    world
        .run("audit list nofile")
        .fails(1, "error: `nofile` cannot be read: No such file or directory (os error 2)\n");
}

#[test]
fn explaining_says_what_an_update_would_change() {
    let world = world();
    let run =
        world.run(&format!("explain --facts tested.toml --if host_os_build=25G90 --format json --now {NOW}"));
    assert_eq!(run.exit, 3);
    let json = run.json();
    assert_eq!((&json["before"]["outcome"], &json["outcome"]), (&"grant".into(), &"stock".into()));
    let choices: Vec<&str> =
        json["choices"].as_array().unwrap().iter().map(|choice| choice["code"].as_str().unwrap()).collect();
    assert_eq!(choices, ["stay-stock", "hold-update", "measure"]);
    world.run(&format!("explain --facts updated.toml --if host_os_build=25G76 --now {NOW}")).ok();
    let already = world.run(&format!("explain --facts updated.toml --now {NOW}"));
    assert!(
        already.out.contains("stay on, or go back to, host OS build 25G76, which was tested"),
        "{}",
        already.out
    );
    world.run("explain --if host_os=25G90").fails(
        2,
        "error: invalid value 'host_os=25G90' for '--if <FACT=VALUE>': write it as FACT=VALUE, with one of host_chip, \
         host_os_build, guest_os_build, workload\n\nFor more information, try '--help'.\n",
    );
}

#[test]
fn a_logged_decision_is_explained_by_its_id() {
    let world = world();
    let id =
        lookup(&world, "--facts tested.toml --log log.jsonl --format json").ok().json()["decision"].clone();
    let id = id.as_str().unwrap();
    let revoked = world.run(&format!(
        "revoke {B10167} --reason wrong --severity harmful --key alice.key --registry-key registry.key --now {NOW}"
    ));
    revoked.ok();
    let run = world.run(&format!("explain {id} --log log.jsonl --format json --now {NOW}"));
    assert_eq!(run.exit, 3);
    assert_eq!(
        (&run.json()["logged"]["outcome"], &run.json()["reason"]),
        (&"grant".into(), &"revoked".into())
    );
    world.run(&format!("explain {id}")).fails(
        2,
        &format!(
            "error: `{id}` is the id of a decision, and no log is given\n\
             help: name the log that holds it with `--log FILE`\n"
        ),
    );
    let other = "0".repeat(32);
    world.run(&format!("explain {other} --log log.jsonl")).fails(
        1,
        &format!("error: the decision `{other}` is not in `log.jsonl`\nhelp: capgate audit list log.jsonl\n"),
    );
}

#[test]
fn a_logged_refusal_is_explained_as_it_was() {
    let world = world();
    world.facts("updated.toml", B10167, &[("host_os_build", Some("25G90"))]);
    let run = lookup(&world, "--facts updated.toml --log log.jsonl --format json");
    assert_eq!(run.exit, 3);
    let id = run.json()["decision"].as_str().unwrap().to_owned();
    let run = world.run(&format!("explain {id} --log log.jsonl --now {NOW}"));
    let logged = run.out.split("the same combination today").next().unwrap();
    assert!(logged.contains("stock: no-profile: "), "{logged}");
    assert!(logged.contains("Nobody has published a test of exactly this combination."), "{logged}");
    assert!(logged.contains("(the publishers of the registry can)"), "{logged}");
}

#[test]
fn a_facts_file_and_a_host_statement_are_not_taken_together() {
    let run = lookup(&world(), "--facts tested.toml --host-note nosuch");
    assert_eq!(run.exit, 2, "{}", run.err);
}

#[test]
fn this_machine_stays_stock_unless_everything_is_known() {
    let world = world();
    let run = lookup(&world, "--format json");
    assert_eq!(run.exit, 3);
    let reason = run.json()["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("fact-") || reason.starts_with("host-"), "{reason}");
    let probe = world.run("probe --format json").ok().json();
    assert!(probe["kernel"].is_string() && probe["notes"].is_array());
    assert!(world.run("probe").ok().out.contains("OS build:"));
}

#[test]
fn a_revoked_profile_is_never_the_nearest() {
    let world = world();
    let revoke = format!(
        "revoke {B10359} --reason wrong --severity withdrawn --key alice.key --registry-key registry.key --now {NOW}"
    );
    world.run(&revoke).ok();
    world.facts("revoked.toml", B10359, &[("host_os_build", Some("25G90"))]);
    let json = lookup(&world, "--facts revoked.toml --format json").json();
    assert_eq!(json["nearest"]["profile"], B10167);
}
