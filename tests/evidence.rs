//! Evidence through the real command. Tests that need the published bundles say so and pass where they are not.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::path::{Path, PathBuf};

use support::{B10167, World};

const BUNDLE: &str = "2026-08-09-m1-ultra";

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn published(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("CAPGATE_SHARED").map_or_else(|| here().join("../shared"), PathBuf::from);
    let path = shared.join("evidence").join(name);
    if !path.is_dir() {
        eprintln!("skipped: {} does not exist; set CAPGATE_SHARED", path.display());
        return None;
    }
    Some(path.canonicalize().unwrap())
}

fn manifest(name: &str) -> String {
    here().join(format!("tests/evidence/{name}.toml")).display().to_string()
}

#[test]
fn a_published_bundle_is_judged_in_both_formats() {
    let Some(bundle) = published(BUNDLE) else { return };
    let world = World::bare();
    let line = format!("evidence check {} --manifest {}", bundle.display(), manifest(BUNDLE));
    let human = world.run(&line).ok();
    assert!(
        human.out.contains("tinyllama: publishable\n") && human.out.contains("warning[spread]:"),
        "{}",
        human.out
    );
    let json = world.run(&format!("{line} --format json")).ok().json();
    assert_eq!(json["rows"].as_array().unwrap().len(), 10);
    for key in ["workload", "test", "arm", "n", "median", "cv"] {
        assert!(!json["rows"][0][key].is_null(), "{key}");
    }
    for key in ["code", "message", "file"] {
        assert!(json["warnings"][0].get(key).is_some(), "{key}");
    }
    assert!(json["refusals"].as_array().unwrap().is_empty() && json["verdict"].is_string());
}

#[test]
fn a_draft_is_written_once() {
    let Some(bundle) = published(BUNDLE) else { return };
    let world = World::bare();
    std::fs::create_dir(world.path("drafts")).unwrap();
    let line = format!("evidence draft {} --manifest {} --out drafts", bundle.display(), manifest(BUNDLE));
    world.run(&line).ok();
    assert!(world.run("lint drafts").ok().out.starts_with("2 profiles, no problem"));
    world
        .run(&line)
        .fails(1, &format!("error: `drafts/{B10167}.toml` exists, and a profile is never overwritten\n"));
}

#[test]
fn publishing_judges_the_evidence_again() {
    let Some(bundle) = published(BUNDLE) else { return };
    let world = World::new();
    let evidence = format!("--evidence {} --manifest {}", bundle.display(), manifest(BUNDLE));
    let profile = format!("profiles.d/{B10167}.toml");
    world.edit(&profile, "median = 4786.701", "median = 5786.701");
    world.edit(&profile, "\"arms-apart\", ", "");
    let run = world.publish(&format!("{B10167} {evidence}"));
    assert_eq!(run.exit, 4);
    for wanted in [
        "pp512 override is n = 10, median = 4786.7",
        "the warning `arms-apart` is missing in `warnings`",
        "error: nothing was published: the evidence does not bear out 2 statements\n",
    ] {
        assert!(run.err.contains(wanted), "{wanted}\n{}", run.err);
    }
    world.edit(&profile, "median = 5786.701", "median = 4786.701");
    world.edit(
        &profile,
        "warnings = [\"above-host-family\", \"above-host-memory\", ",
        "warnings = [\"above-host-family\", \"above-host-memory\", \"arms-apart\", ",
    );
    world.publish(&format!("--all {evidence}")).ok();
}

#[test]
fn wrong_input_is_named() {
    let world = World::new();
    std::fs::create_dir(world.path("empty")).unwrap();
    world.put("bad.toml", "host = 1\n");
    world.run("evidence check nodir").fails(1, "error: there is no bundle folder `nodir`\n");
    world
        .run("evidence check empty")
        .fails(1, "error: `empty` holds no `bundle.toml`\nhelp: give one with `--manifest FILE`\n");
    let run = world.run("evidence check empty --manifest bad.toml");
    assert_eq!(run.exit, 4);
    assert!(run.err.ends_with("error: `bad.toml` has 3 problems\n"), "{}", run.err);
    world.run("evidence draft nodir").fails(1, "error: there is no bundle folder `nodir`\n");
    let inspect = world.run("evidence inspect bad.toml");
    assert_eq!(inspect.exit, 4);
    assert!(
        inspect.out.contains("refused[unknown-kind]:") && inspect.out.ends_with("cannot serve as evidence\n")
    );
    world
        .run("evidence inspect nofile")
        .fails(1, "error: `nofile` cannot be read: No such file or directory (os error 2)\n");
    world.run("publish --all --evidence empty --evidence empty --manifest bad.toml --key alice.key --registry-key registry.key").fails(
        2,
        "error: give `--manifest` once for each `--evidence`, or never\n\
         help: put the manifest into the bundle as `bundle.toml` where some have one and some have none\n",
    );
}

#[test]
fn inspect_looks_at_every_file_although_one_is_missing() {
    let name = "tests/fixtures/llama-bench/both.json";
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = support::run_in(here, &format!("evidence inspect nowhere-1 {name} nowhere-2"));
    assert_eq!(run.exit, 1);
    assert!(run.out.contains(name), "{}", run.out);
    assert!(run.err.contains("`nowhere-1`") && run.err.contains("`nowhere-2`"), "{}", run.err);
    let run = support::run_in(here, &format!("evidence inspect --format json {name} nowhere"));
    assert_eq!((run.exit, run.out.as_str()), (1, ""));
}
