//! The three published bundles, judged: medians as published, and exactly the codes of the committed tables.
//!
//! The bundles are not part of the project. They are read from `$CAPGATE_SHARED/evidence`, or from `../shared/evidence`
//! beside the workspace; where neither exists the tests say so and pass.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod bundles;

use std::path::PathBuf;

use capgate_registry::evidence::judge::{self, Judgement, Verdict};
use capgate_registry::evidence::manifest::Manifest;

use bundles::Folder;

const BUNDLES: [&str; 3] =
    ["2026-08-09-m1-ultra", "2026-08-10-m1-ultra-gemma4", "2026-08-11-m1-ultra-muse-glimmer-64g"];

fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn committed(name: &str) -> Vec<u8> {
    let path = workspace().join("tests/evidence").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The bundle's folder, or none with a word about it.
fn published(bundle: &str) -> Option<Folder> {
    let shared =
        std::env::var_os("CAPGATE_SHARED").map_or_else(|| workspace().join("../shared"), PathBuf::from);
    let path = shared.join("evidence").join(bundle);
    if path.is_dir() {
        return Some(Folder(path));
    }
    eprintln!(
        "skipped: {} does not exist; set CAPGATE_SHARED to the folder that holds `evidence`",
        path.display()
    );
    None
}

fn judged(bundle: &str) -> Option<(Manifest, Judgement)> {
    let folder = published(bundle)?;
    Some(judge::check(&folder, Some(&committed(&format!("{bundle}.toml")))).unwrap())
}

/// Every finding as a line `severity code workload file`, with `-` where it names none.
fn lines(judgement: &Judgement) -> Vec<String> {
    let all = judgement.warnings.iter().chain(&judgement.refusals);
    let mut lines: Vec<String> = all
        .map(|finding| {
            let severity = if finding.refuses() { "refusal" } else { "warning" };
            let workload = finding.workload.as_deref().unwrap_or("-");
            format!("{severity} {} {workload} {}", finding.code, finding.file.as_deref().unwrap_or("-"))
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn codes_are_exactly_those_of_the_tables() {
    for bundle in BUNDLES {
        let Some((_, judgement)) = judged(bundle) else { return };
        let table = String::from_utf8(committed(&format!("{bundle}.codes.txt"))).unwrap();
        let mut expected: Vec<String> = table
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect();
        expected.sort();
        assert_eq!(lines(&judgement), expected, "{bundle}");
    }
}

#[test]
fn medians_are_the_published_ones() {
    for (bundle, workload, test, stock, changed, host) in [
        (BUNDLES[0], "tinyllama", "pp512", 431.8625, 4786.70, Some(4871.99)),
        (BUNDLES[0], "tinyllama", "tg128", 12.6307, 206.5965, Some(286.7055)),
        (BUNDLES[0], "mlx-lm", "pp512", 1_656.553_891, 1_665.467_057, None),
        (BUNDLES[0], "mlx-lm", "tg128", 172.088_180, 170.860_477, None),
        (BUNDLES[1], "gemma4-12b", "pp512", 71.65675, 515.763, Some(517.8775)),
        (BUNDLES[1], "gemma4-12b", "tg128", 3.41483, 49.66695, Some(52.3818)),
        (BUNDLES[2], "muse-glimmer-30b", "pp512", 25.8328, 194.971, None),
        (BUNDLES[2], "muse-glimmer-30b", "tg128", 2.37551, 21.0823, None),
    ] {
        let Some((_, judgement)) = judged(bundle) else { return };
        let median = |arm: &str| {
            let mut rows = judgement.rows.iter();
            rows.find(|row| (row.workload.as_str(), row.test.as_str(), row.arm) == (workload, test, arm))
                .map(|row| row.median)
        };
        for (arm, expected) in [("stock", Some(stock)), ("override", Some(changed)), ("host", host)] {
            let (Some(expected), Some(found)) = (expected, median(arm)) else {
                assert_eq!(median(arm), expected, "{workload} {test} {arm}");
                continue;
            };
            let off = (found - expected).abs() / expected;
            assert!(off <= 1e-5, "{workload} {test} {arm}: {found} is not {expected}");
        }
    }
}

#[test]
fn spreads_and_verdicts_are_the_known_ones() {
    for (bundle, workload, verdict, stock_tg128_cv) in [
        (BUNDLES[0], "tinyllama", Verdict::Publishable, Some(0.1106)),
        (BUNDLES[0], "mlx-lm", Verdict::Stock, None),
        (BUNDLES[1], "gemma4-12b", Verdict::Publishable, None),
        (BUNDLES[2], "muse-glimmer-30b", Verdict::Publishable, Some(0.0623)),
    ] {
        let Some((_, judgement)) = judged(bundle) else { return };
        let found = judgement.workloads.iter().find(|judged| judged.workload == workload).unwrap();
        assert_eq!(found.verdict, verdict, "{workload}");
        let mut rows = judgement.rows.iter();
        let row = rows
            .find(|row| (row.workload.as_str(), row.test.as_str(), row.arm) == (workload, "tg128", "stock"));
        if let Some(cv) = stock_tg128_cv {
            assert!((row.unwrap().cv.unwrap() - cv).abs() < 0.000_05, "{workload}: {row:?}");
        }
    }
}

#[test]
fn the_override_arm_ran_88_minutes_later() {
    let Some((_, judgement)) = judged(BUNDLES[0]) else { return };
    let apart = judgement.warnings.iter().find(|finding| finding.code.name() == "arms-apart").unwrap();
    assert!(apart.message.contains("88 minutes"), "{}", apart.message);
    assert!(apart.message.contains("2026-08-09T18:13:03Z") && apart.message.contains("2026-08-09T19:41:47Z"));
}

#[test]
fn a_changed_byte_is_refused() {
    let Some(folder) = published(BUNDLES[1]) else { return };
    let manifest = committed(&format!("{}.toml", BUNDLES[1]));
    let mut memory = folder.into_memory();
    let file = memory.files.get_mut("gemma4-stock-10x.json").unwrap();
    let last = file.len() - 2;
    file.truncate(last);
    let (_, judgement) = judge::check(&memory, Some(&manifest)).unwrap();
    assert_eq!(judgement.verdict, Verdict::Refused);
    assert!(judgement.refusals.iter().any(|finding| finding.code.name() == "digest-mismatch"));
}
