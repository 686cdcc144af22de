//! Every input that people were seen to have, and what is right for it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::path::PathBuf;

use capgate_registry::evidence::codes::Code::{self, *};
use capgate_registry::evidence::identify::{Inspection, Kind, inspect};
use capgate_registry::evidence::{environment, llama_bench, log_dialect, probe};

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn look(name: &str) -> Inspection {
    inspect(name, &fixture(name))
}

fn codes(findings: &[capgate_registry::evidence::finding::Finding]) -> Vec<Code> {
    let mut codes: Vec<Code> = findings.iter().map(|finding| finding.code).collect();
    codes.sort();
    codes.dedup();
    codes
}

/// File, kind, refusals, warnings (each code once).
type Case = (&'static str, Kind, &'static [Code], &'static [Code]);

const CASES: &[Case] = &[
    ("cases/01-ghactions-2024-no-apple-family.stderr", Kind::Log, &[], &[]),
    ("cases/02-ghactions-timestamps-abort.log", Kind::Log, &[Aborted], &[]),
    ("cases/03-mlx-residency-set.stderr", Kind::Log, &[Aborted, ResearchHook], &[]),
    (
        "cases/06-log-lines-before-json.txt",
        Kind::LlamaBench,
        &[TextAroundJson, Aborted],
        &[FewSamples, Spread],
    ),
    ("cases/07-truncated-killed.json", Kind::LlamaBench, &[Truncated, Contended], &[]),
    ("cases/09-reps-zero.json", Kind::LlamaBench, &[NoSamples], &[]),
    ("cases/11-fields-2023.json", Kind::LlamaBench, &[], &[FewSamples]),
    ("cases/12-fields-2025-bool-flash-attn.json", Kind::LlamaBench, &[], &[FewSamples]),
    ("cases/13-llama-bench.csv", Kind::LlamaBenchMeans, &[NoSamplesFormat], &[]),
    ("cases/15-llama-bench.jsonl", Kind::LlamaBench, &[], &[TooFewSamples]),
    ("cases/19-throttling-trend.json", Kind::LlamaBench, &[Contended, Drift], &[]),
    ("cases/20-contended-real.json", Kind::LlamaBench, &[Contended], &[FewSamples]),
    ("cases/22-virtual-devices.stderr", Kind::Log, &[MultipleDevices], &[]),
    ("cases/24-banner-disagrees-with-profile.stderr", Kind::Log, &[], &[]),
    ("cases/25-shim-fail-open.stderr", Kind::Log, &[], &[]),
    ("cases/26-tart-banner.stderr", Kind::Log, &[], &[]),
    ("cases/28-csrutil-custom.txt", Kind::Environment, &[], &[]),
    ("cases/30-sw_vers-rsr.txt", Kind::Environment, &[], &[]),
    ("cases/31-compat-version-16.txt", Kind::Environment, &[], &[CompatVersion, BetaBuild]),
    ("cases/32-crash-report-beta.txt", Kind::Environment, &[], &[BetaBuild]),
    ("cases/33-system_profiler-vm.txt", Kind::Environment, &[], &[]),
    ("cases/35-brand-apple-processor.txt", Kind::Environment, &[UnknownChip], &[]),
    ("cases/36-anka-probe-and-r1.txt", Kind::Probe, &[], &[TooFewSamples]),
    ("cases/37-wrong-output-fast.txt", Kind::Unknown, &[UnknownKind], &[]),
    ("llama-bench/both.json", Kind::LlamaBench, &[], &[TooFewSamples]),
    ("llama-bench/both.md", Kind::LlamaBenchMeans, &[NoSamplesFormat], &[]),
    ("llama-bench/contended.json", Kind::LlamaBench, &[Contended], &[FewSamples]),
    ("llama-bench/contended.stderr", Kind::Empty, &[EmptyFile], &[]),
    ("llama-bench/matrix.jsonl", Kind::LlamaBench, &[], &[TooFewSamples]),
    ("llama-bench/matrix.md", Kind::LlamaBenchMeans, &[NoSamplesFormat], &[]),
    ("llama-bench/missing-model.json", Kind::LlamaBench, &[Truncated], &[]),
    ("llama-bench/missing-model.stderr", Kind::Log, &[Aborted], &[]),
    ("llama-bench/nonascii-path.csv", Kind::LlamaBenchMeans, &[NoSamplesFormat], &[]),
    ("llama-bench/nonascii-path.json", Kind::LlamaBench, &[], &[GarbledPath, TooFewSamples]),
    ("llama-bench/quiet.csv", Kind::LlamaBenchMeans, &[NoSamplesFormat], &[]),
    ("llama-bench/quiet.csv.stderr", Kind::Empty, &[EmptyFile], &[]),
    ("llama-bench/quiet.json", Kind::LlamaBench, &[], &[FewSamples, Spread]),
    ("llama-bench/quiet.json.stderr", Kind::Empty, &[EmptyFile], &[]),
    ("llama-bench/quiet.jsonl", Kind::LlamaBench, &[Drift], &[FewSamples, Spread]),
    ("llama-bench/quiet.jsonl.stderr", Kind::Empty, &[EmptyFile], &[]),
    ("llama-bench/quiet.md", Kind::LlamaBenchMeans, &[NoSamplesFormat], &[]),
    ("llama-bench/quiet.md.stderr", Kind::Empty, &[EmptyFile], &[]),
    ("llama-bench/quiet.sql", Kind::LlamaBenchMeans, &[NoSamplesFormat], &[]),
    ("llama-bench/quiet.sql.stderr", Kind::Empty, &[EmptyFile], &[]),
    ("llama-bench/reps-0.json", Kind::LlamaBench, &[NoSamples], &[]),
    ("llama-bench/reps-0.stderr", Kind::Empty, &[EmptyFile], &[]),
    ("llama-bench/reps-1.json", Kind::LlamaBench, &[TooFewSamples], &[]),
    ("llama-bench/reps-1.stderr", Kind::Empty, &[EmptyFile], &[]),
    ("llama-bench/small-10x.json", Kind::LlamaBench, &[Contended], &[]),
    ("llama-bench/small-512-128-10x.json", Kind::LlamaBench, &[], &[Spread]),
    ("llama-bench/truncated-killed.json", Kind::LlamaBench, &[Truncated, Contended], &[]),
];

#[test]
fn every_file_is_what_it_is_said_to_be() {
    let mut wrong = Vec::new();
    for (name, kind, refusals, warnings) in CASES {
        let found = look(name);
        let sorted = |codes: &[Code]| {
            let mut codes = codes.to_vec();
            codes.sort();
            codes
        };
        let expected = (*kind, sorted(refusals), sorted(warnings), refusals.is_empty());
        let actual = (found.kind, codes(&found.refusals), codes(&found.warnings), found.serves);
        if expected != actual {
            wrong.push(format!("{name}\n  expected {expected:?}\n  found    {actual:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_fixture_is_left_out() {
    for folder in ["cases", "llama-bench"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(folder);
        for entry in std::fs::read_dir(path).unwrap() {
            let name = format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap());
            assert!(CASES.iter().any(|case| case.0 == name), "{name}");
        }
    }
}

fn message(name: &str, code: Code) -> String {
    let found = look(name);
    found.refusals.iter().chain(&found.warnings).find(|finding| finding.code == code).unwrap().message.clone()
}

#[test]
fn messages_say_where() {
    let around = message("cases/06-log-lines-before-json.txt", TextAroundJson);
    let bytes = fixture("cases/06-log-lines-before-json.txt");
    let start = bytes.iter().position(|byte| *byte == b'[').unwrap();
    assert!(around.contains(&format!("bytes 0..{}, ", start - 1)), "{around}");
    assert!(around.contains(&format!("..{};", bytes.len() - 1)), "{around}");
    assert!(message("cases/06-log-lines-before-json.txt", Aborted).contains("segmentation fault"));
    let truncated = message("cases/07-truncated-killed.json", Truncated);
    assert_eq!(truncated, "truncated after row 1 (pp64), closing ] missing");
    assert!(message("llama-bench/missing-model.json", Truncated).contains("before the first row"));
    assert!(message("cases/13-llama-bench.csv", NoSamplesFormat).contains("rerun with -o json or jsonl"));
    assert!(message("cases/36-anka-probe-and-r1.txt", TooFewSamples).contains("not enough samples"));
    assert!(message("cases/31-compat-version-16.txt", CompatVersion).contains("`25A5295e` is macOS 26"));
}

#[test]
fn an_old_log_without_an_apple_family() {
    let log = log_dialect::read(&fixture("cases/01-ghactions-2024-no-apple-family.stderr"));
    let device = log.device().unwrap();
    assert_eq!((device.apple_family, device.common_family), (None, Some(3003)));
    assert_eq!((device.simdgroup_reduction, device.simdgroup_matrix), (Some(false), Some(false)));
    assert_eq!(device.working_set_mb, Some(5010.80));
    assert_eq!(log.skipped_kernels, 2);
    assert!(device.is_paravirtual());
}

#[test]
fn times_colours_and_an_abort() {
    let log = log_dialect::read(&fixture("cases/02-ghactions-timestamps-abort.log"));
    let device = log.device().unwrap();
    assert_eq!((device.label.as_deref(), device.name.as_str()), (Some("MTL0"), "Apple Paravirtual device"));
    assert_eq!((device.apple_family, device.simdgroup_reduction), (Some(1005), Some(false)));
    let lines: Vec<usize> = log.aborts.iter().map(|abort| abort.line).collect();
    assert_eq!(lines, [7, 8, 9]);
}

#[test]
fn one_gpu_twice() {
    let log = log_dialect::read(&fixture("cases/22-virtual-devices.stderr"));
    let labels: Vec<&str> = log.devices.iter().filter_map(|device| device.label.as_deref()).collect();
    assert_eq!(labels, ["MTL0", "MTL1"]);
    assert_eq!(log.devices[0].bfloat, Some(true));
}

#[test]
fn banners() {
    for (name, shim, values) in [
        ("cases/24-banner-disagrees-with-profile.stderr", "lume", (Some(1009), Some(32768))),
        ("cases/26-tart-banner.stderr", "tart", (Some(1008), Some(65536))),
        ("cases/03-mlx-residency-set.stderr", "lume", (None, Some(65536))),
    ] {
        let log = log_dialect::read(&fixture(name));
        let [banner] = log.banners.as_slice() else { panic!("{name}") };
        assert_eq!(banner.shim.name(), shim);
        assert_eq!((banner.apple_family_max, banner.max_threadgroup_memory), values, "{name}");
    }
    let silent = log_dialect::read(&fixture("cases/25-shim-fail-open.stderr"));
    assert_eq!((silent.banners.len(), silent.device().unwrap().apple_family), (0, Some(1005)));
}

#[test]
fn generations_of_fields() {
    for (name, generation) in [
        ("cases/11-fields-2023.json", "2023 (28 fields)"),
        ("cases/12-fields-2025-bool-flash-attn.json", "2025 (36 fields)"),
        ("cases/07-truncated-killed.json", "2026 (42 fields)"),
    ] {
        assert_eq!(look(name).generation.as_deref(), Some(generation), "{name}");
    }
    let file = llama_bench::read(&fixture("cases/12-fields-2025-bool-flash-attn.json")).unwrap();
    assert_eq!(file.rows[0].settings.get("flash_attn").map(String::as_str), Some("0"));
    assert_eq!(file.rows[0].settings.get("load_mode").map(String::as_str), Some("mmap"));
}

#[test]
fn the_matrix_has_twelve_tests() {
    let found = look("cases/15-llama-bench.jsonl");
    let mut names: Vec<&str> = found.rows.iter().map(|row| row.test.as_str()).collect();
    assert_eq!(names[0], "pp16 (n_threads=1)");
    assert!(names.contains(&"pp16+tg8 @ d32 (n_threads=2)"));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 12);
}

#[test]
fn machines() {
    let read = |name: &str| environment::read(&fixture(name)).unwrap();
    let rapid = read("cases/30-sw_vers-rsr.txt");
    assert_eq!(rapid.os[0].version.as_deref(), Some("13.4.1"));
    assert_eq!(rapid.os[0].extra.as_deref(), Some("c"));
    assert_eq!(rapid.os[0].build.as_deref(), Some("22F770820d"));
    let compat = read("cases/31-compat-version-16.txt");
    assert_eq!(compat.os[0].version.as_deref(), Some("26.0"));
    assert_eq!(compat.os[0].compat, ["16.0"]);
    let guest = read("cases/33-system_profiler-vm.txt");
    assert_eq!((guest.chips[0].name.as_str(), guest.is_guest), ("Apple M4 Pro", Some(true)));
    let sip = read("cases/28-csrutil-custom.txt").sip.unwrap();
    assert_eq!(sip.state, environment::SipState::Custom);
    assert_eq!(
        (sip.parts.len(), sip.parts["Kext Signing"], sip.parts["NVRAM Protections"]),
        (10, true, false)
    );
    let unnamed = read("cases/35-brand-apple-processor.txt");
    assert_eq!((unnamed.chips.len(), unnamed.unnamed_chip.as_deref()), (0, Some("Apple processor")));
}

#[test]
fn the_other_probe_dialect() {
    let probe = probe::read(&fixture("cases/36-anka-probe-and-r1.txt")).unwrap();
    let said: Vec<_> = probe
        .answers
        .iter()
        .map(|a| {
            (a.section.as_deref().unwrap(), a.supports_family.unwrap(), a.max_threadgroup_memory.unwrap())
        })
        .collect();
    assert_eq!(said, [("STOCK", false, 32768), ("BOOSTED", true, 65536)]);
}
