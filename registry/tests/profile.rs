//! Profiles: a good one passes, and each broken rule in `tests/profiles/bad` is named where it stands.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};

use capgate_registry::document::{self, Severity};
use capgate_registry::profile::{MAX_BYTES, Profile, lint};
use proptest::prelude::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/profiles")
}

struct Expected {
    name: String,
    message: String,
}

fn expected() -> Vec<Expected> {
    let table: toml::Table = fs::read_to_string(folder().join("bad.toml")).unwrap().parse().unwrap();
    let row = |(name, row): (&String, &toml::Value)| Expected {
        name: name.clone(),
        message: row["message"].as_str().unwrap().to_owned(),
    };
    table.iter().map(row).collect()
}

#[test]
fn each_broken_rule_is_named() {
    let good = fs::read(folder().join("good.toml")).unwrap();
    assert_eq!(lint(&good).1, []);
    let rows = expected();
    let files = fs::read_dir(folder().join("bad")).unwrap().count();
    assert_eq!(files, rows.len(), "every file has a row and every row a file");
    for Expected { name, message } in rows {
        let toml = fs::read(folder().join("bad").join(format!("{name}.toml"))).unwrap();
        let (_, problems) = lint(&toml);
        let found: Vec<_> = problems.iter().map(|p| p.message.as_str()).collect();
        assert!(found.iter().any(|found| found.contains(&message)), "{name}: {found:?}");
    }
}

#[test]
fn a_malformed_set_is_not_reported_as_a_missing_one() {
    let good = fs::read_to_string(folder().join("good.toml")).unwrap();
    let malformed = good.replacen("apple_family_max = 1009", "apple_family_max = 0x3f1", 1);
    let problems = Profile::parse(malformed.as_bytes()).unwrap_err();
    assert!(problems[0].message.contains("is not written in decimal digits alone"), "{problems:?}");
    // An empty list is still one.
    let (before, rest) = good.split_once("[[override]]").unwrap();
    let (_, after) = rest.split_once("[[").unwrap();
    let none = format!("override = []\n{before}[[{after}");
    let (_, problems) = lint(none.as_bytes());
    assert!(problems.iter().any(|p| p.message.contains("without a tested set")), "{problems:?}");
}

#[test]
fn broken_rules_do_not_make_a_profile_unreadable_but_broken_form_does() {
    let read = |name: &str| fs::read(folder().join("bad").join(name)).unwrap();
    assert!(Profile::parse(&read("family-out-of-bounds.toml")).is_ok());
    assert!(Profile::parse(&read("acknowledge-family.toml")).is_ok());
    for form in ["schema-too-new.toml", "unknown-key.toml", "digest-zero.toml", "build-grammar.toml"] {
        let problems = Profile::parse(&read(form)).unwrap_err();
        assert!(problems.iter().any(|p| p.severity == Severity::Malformed), "{form}");
    }
}

#[test]
fn problems_stand_where_they_are() {
    let toml = fs::read(folder().join("bad/digest-upper.toml")).unwrap();
    let problem = &lint(&toml).1[0];
    assert_eq!(document::position(&toml, problem.span.start), (21, 10));
}

#[test]
fn one_file_with_many_problems_reports_all_of_them() {
    let good = fs::read_to_string(folder().join("good.toml")).unwrap();
    let bad = good
        .replace("schema = \"1.0.0\"", "schema = \"2.0.0\"")
        .replace("\"25G76\"", "\"25g76\"")
        .replace("feature_level", "feature_levle")
        .replace("28faa552", "28FAA552");
    let (profile, problems) = lint(bad.as_bytes());
    assert!(profile.is_none());
    assert!(problems.len() >= 5, "{problems:#?}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = lint(&bytes);
    }

    #[test]
    fn no_change_to_a_good_profile_makes_it_panic(at in 0usize..1500, byte in any::<u8>(), cut in 0usize..1500) {
        let mut toml = fs::read(folder().join("good.toml")).unwrap();
        if let Some(slot) = toml.get_mut(at) { *slot = byte; }
        toml.truncate(cut.max(100));
        let (_, problems) = lint(&toml);
        for problem in problems {
            prop_assert!(problem.span.start <= toml.len() && problem.span.end <= toml.len().max(MAX_BYTES));
        }
    }
}

/// Figures of the published bundles, as read from their raw files.
#[test]
fn the_shipped_profiles_break_no_rule_and_say_what_was_measured() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiles.d");
    let mut ids = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let (profile, problems) = lint(&fs::read(&path).unwrap());
        assert_eq!(problems, [], "{}", path.display());
        let profile = profile.unwrap();
        assert_eq!(path.file_stem().unwrap().to_str(), Some(profile.id.as_str()));
        let ratios: Vec<String> = profile
            .evidence
            .iter()
            .flat_map(|item| &item.tests)
            .map(|test| format!("{} {:.2}", test.name, test.changed.unwrap().median / test.stock.median))
            .collect();
        ids.push(format!("{}: {}", profile.id, ratios.join(", ")));
    }
    ids.sort();
    assert_eq!(
        ids,
        [
            "m1-ultra-25g76-25f84-llama-bench-b10167: pp512 11.08, tg128 16.36, pp512 7.20, tg128 14.54",
            "m1-ultra-25g76-25f84-llama-bench-b10359: pp512 7.55, tg128 8.87",
            "m1-ultra-25g76-25f84-mlx-lm-0-31-3: pp512 1.01, tg128 0.99",
        ]
    );
}
