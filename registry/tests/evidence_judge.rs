//! A sound bundle, and everything that can be wrong with one: each change gives exactly the codes it should.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod bundles;

use capgate_registry::evidence::codes::Code::{self, *};
use capgate_registry::evidence::draft;
use capgate_registry::evidence::judge::{self, Verdict};

use bundles::Memory;
use bundles::sound::{BANNER, codes, judged, pin, sound};

#[test]
fn a_sound_bundle_has_nothing_wrong() {
    let mut bundle = sound();
    pin(&mut bundle);
    let judgement = judged(&bundle);
    assert_eq!((&judgement.refusals, &judgement.warnings), (&vec![], &vec![]));
    assert_eq!(judgement.verdict, Verdict::Publishable);
    let row = judgement.rows.iter().find(|row| row.arm == "override" && row.test == "pp512").unwrap();
    assert!(
        (row.ratio_to_stock.unwrap() - 5.0).abs() < 0.01 && (row.ratio_to_host.unwrap() - 0.5).abs() < 0.01
    );
    assert_eq!((row.n, judgement.rows.len()), (10, 8));
    let json = serde_json::to_value(&judgement).unwrap();
    assert_eq!(json["rows"][2]["apple_family_max"], 1007);
    assert_eq!(json["verdict"], "publishable");
}

/// A file, what is replaced in it, by what; then refusals and warnings.
type Change = (&'static str, &'static str, &'static str, &'static [Code], &'static [Code]);

const CHANGES: &[Change] = &[
    // How well it was measured.
    ("over.json", "samples_ns\": [", "samples_ns\": [], \"was\": [", &[NoSamples], &[]),
    ("over.json", "20003000, ", "0, ", &[ZeroSample], &[]),
    ("over.json", "20003000, ", "40003000, ", &[Contended], &[]),
    ("over.json", "20003000, ", "24003000, ", &[], &[Spread]),
    ("over.json", "[20003000, 20001000, 20004000, 20001000, 20005000, 20009000,", "[", &[], &[FewSamples]),
    (
        "over.json",
        "[20003000, 20001000, 20004000, 20001000, 20005000, 20009000, 20002000, 20006000,",
        "[",
        &[TooFewSamples],
        &[],
    ),
    (
        "over.json",
        "[20003000, 20001000, 20004000, 20001000, 20005000, 20009000, 20002000, 20006000, 20005000, 20003000]",
        "[20000000, 20200000, 20400000, 20600000, 20800000, 21000000, 21200000, 21400000, 21600000, 21800000, 22000000]",
        &[Drift],
        &[],
    ),
    ("over.json", "\n]\n", "\n", &[Truncated], &[]),
    ("over.json", "\n]\n", "\n]\nzsh: killed ./llama-bench\n", &[TextAroundJson, Aborted], &[]),
    ("stock.json", "[\n", "loading model\n[\n", &[TextAroundJson], &[]),
    (
        "over.json",
        "\"build_number\": 10167, ",
        "\"build_number\": 10167, \"build_number\": 1, ",
        &[MalformedJson],
        &[],
    ),
    // Whether arms can be compared.
    ("over.json", "ee3d1b54c", "0123456", &[BuildDiffers, NoSharedTest], &[]),
    ("over.json", "10167", "10168", &[BuildDiffers], &[]),
    ("over.json", "1100048384", "1100048385", &[ModelDiffers, NoSharedTest], &[]),
    ("over.json", "667078656", "667078657", &[ModelDiffers, NoSharedTest], &[]),
    ("over.json", "/x/m.gguf", "/x/n.gguf", &[ModelDiffers], &[]),
    ("over.json", "\"n_batch\": 2048", "\"n_batch\": 512", &[SettingsDiffer, NoSharedTest], &[]),
    ("over.json", "\"n_threads\": 8", "\"n_threads\": 4", &[SettingsDiffer, NoSharedTest], &[]),
    ("over.json", "\"flash_attn\": -1", "\"flash_attn\": true", &[SettingsDiffer, NoSharedTest], &[]),
    ("host.json", "\"flash_attn\": -1", "\"flash_attn\": 1", &[SettingsDiffer], &[]),
    ("over.json", "\"n_prompt\": 512", "\"n_prompt\": 256", &[], &[TestsDiffer]),
    ("over.json", "M1 Ultra", "M4 Max", &[MachineDiffers], &[]),
    ("over.json", "Apple Paravirtual device", "Apple M1 Ultra", &[MachineDiffers], &[]),
    ("host.json", "Apple M1 Ultra", "Apple M1 Ultra (Virtual)", &[MachineDiffers], &[]),
    ("cpu.json", "\"n_gpu_layers\": 0", "\"n_gpu_layers\": 99", &[GpuArm], &[]),
    ("over.json", "T18:20", "T19:01", &[], &[ArmsApart]),
    ("bundle.toml", "{ path = \"stock.json\", arm = \"stock\" },", "", &[NoStockArm], &[]),
    ("bundle.toml", "arm = \"cpu\"", "arm = \"stock\"", &[], &[LogMissing, TestsDiffer]),
    // What proves it.
    ("bundle.toml", "{ path = \"over.log\", role = \"log\", of = \"override\" },", "", &[LogMissing], &[]),
    ("bundle.toml", "{ path = \"stock.log\", role = \"log\", of = \"stock\" },", "", &[], &[LogMissing]),
    ("over.log", BANNER, "", &[BannerMissing], &[]),
    ("over.log", "appleFamilyMax=1007", "appleFamilyMax=1009", &[BannerMismatch], &[]),
    ("over.log", "maxThreadgroupMemory=32768", "maxThreadgroupMemory=65536", &[BannerMismatch], &[]),
    ("over.log", "[capgate]", "[LumeMetalCapabilities]", &[BannerMismatch], &[]),
    ("over.log", "stock=1005", "stock=1006", &[StockDiffers], &[]),
    ("over.log", "appleFamilyMax=1007", "familyMax=5001 featureProfile=10", &[ResearchHook], &[]),
    ("over.log", "Apple7  (1007)", "Apple5  (1005)", &[FamilyMismatch], &[]),
    ("over.log", "reduction   = true", "reduction   = false", &[CapabilityMissing], &[]),
    ("over.log", "matrix mul. = true", "matrix mul. = false", &[CapabilityMissing], &[]),
    ("over.log", "bfloat            = true", "bfloat            = false", &[CapabilityMissing], &[]),
    ("over.log", "GPU name:", "GPU nom:", &[CapabilityMissing], &[]),
    ("over.log", "[capgate]", "Abort trap: 6\n[capgate]", &[Aborted], &[]),
    (
        "over.log",
        "[capgate]",
        "ggml_metal_device_init: GPU name:   MTL1 (x)\n[capgate]",
        &[MultipleDevices, FamilyMismatch, CapabilityMissing],
        &[],
    ),
    ("over.probe", "supports_family=true", "supports_family=false", &[ProbeMismatch], &[]),
    ("over.probe", "32768", "65536", &[ProbeMismatch], &[]),
    ("over.probe", "family", "family_of", &[], &[]),
    ("stock.probe", "supports_family=false", "supports_family=true", &[ProbeMismatch], &[]),
    (
        "stock.log",
        "ggml",
        "[TartMetalCapabilities] Enabled for x (appleFamilyMax=1009 maxThreadgroupMemory=65536)\nggml",
        &[StockArmShimmed],
        &[],
    ),
    ("stock.log", "Apple5  (1005)", "Apple7  (1007)", &[StockArmShimmed], &[]),
    ("stock.log", "Apple5  (1005)", "Apple4  (1004)", &[StockDiffers], &[]),
    ("stock.log", "ggml", "GGML_ASSERT(x) failed\nggml", &[Aborted], &[]),
    ("host.log", "Apple7  (1007)", "Apple8  (1008)", &[HostDiffers], &[]),
    (
        "host.log",
        "ggml",
        "[capgate] Enabled for x (appleFamilyMax=1007 maxThreadgroupMemory=32768)\nggml",
        &[StockArmShimmed],
        &[],
    ),
    ("machines.txt", "25F84", "25F80", &[EnvironmentDiffers], &[EnvironmentSilent]),
    ("machines.txt", "Guest macOS: 26.5.2 (25F84)\n", "", &[], &[EnvironmentSilent]),
    (
        "machines.txt",
        "Host macOS",
        "machdep.cpu.brand_string: Apple processor\nHost macOS",
        &[UnknownChip],
        &[],
    ),
    ("over.ops", "9/9 tests", "8/9 tests", &[CorrectnessFailed], &[]),
    ("over.ops", "1/1 backends passed\n", "", &[CorrectnessFailed], &[]),
    // What nobody measured or said.
    ("bundle.toml", "{ path = \"host.json\", arm = \"host\" },", "", &[], &[NoHostArm]),
    (
        "bundle.toml",
        "{ path = \"over.ops\", role = \"correctness\", of = \"override\" },",
        "",
        &[],
        &[NoCorrectness],
    ),
    ("bundle.toml", ", feature_level = \"default\"", "", &[], &[HostPreferenceUnrecorded]),
    (
        "bundle.toml",
        "image = [{ name = \"libggml-metal.so\", sha256 = \"77ea18086bba933176cdf2a830c0af1554d5746204c068b718ea4eab67530409\" }]",
        "",
        &[],
        &[ImagesUnrecorded],
    ),
    (
        "bundle.toml",
        ", shim = { name = \"capgate\", sha256 = \"515b9d84ab67e86d959282e95c194a5ad8a947261514b947d6f7483c57797b31\" }",
        "",
        &[],
        &[ShimUnrecorded],
    ),
    ("bundle.toml", "apple_family = 1007, ", "", &[], &[HostUnrecorded]),
    (
        "bundle.toml",
        "version = \"26.5.2\", build = \"25F84\"",
        "version = \"14.6\", build = \"23G80\"",
        &[StaleMmapGuest, EnvironmentDiffers],
        &[EnvironmentSilent],
    ),
    ("bundle.toml", "verdict = \"override\"", "verdict = \"stock\"", &[], &[BenefitForgone]),
];

fn changed((path, from, to, ..): &Change) -> Memory {
    let mut bundle = sound();
    let file = bundle.files.get_mut(*path).unwrap();
    let text = String::from_utf8(file.clone()).unwrap();
    // Only the first row changes where samples are meant, every row where the whole run is.
    let count = if from.contains("2000") || from.starts_with("samples") { 1 } else { usize::MAX };
    let new = text.replacen(from, to, count);
    assert_ne!(new, text, "{path}: {from}");
    *file = new.into_bytes();
    pin(&mut bundle);
    bundle
}

#[test]
fn each_change_has_its_codes() {
    let mut wrong = Vec::new();
    for change in CHANGES {
        let judgement = judged(&changed(change));
        let sorted = |codes: &[Code]| {
            let mut codes = codes.to_vec();
            codes.sort();
            codes
        };
        let expected = (sorted(change.3), sorted(change.4));
        let found = codes(&judgement);
        let refused = judgement.verdict == Verdict::Refused;
        if found != expected || refused == change.3.is_empty() {
            wrong.push(format!(
                "{}: {:?} -> {:?}\n  expected {expected:?}\n  found    {found:?} {:?}",
                change.0, change.1, change.2, judgement.verdict
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn bytes_are_checked_before_they_are_read() {
    let check = |code: Code, change: &dyn Fn(&mut Memory)| {
        let mut bundle = sound();
        pin(&mut bundle);
        change(&mut bundle);
        let judgement = judged(&bundle);
        assert!(
            judgement.refusals.iter().any(|finding| finding.code == code),
            "{code}: {:?}",
            judgement.refusals
        );
        assert_eq!(judgement.verdict, Verdict::Refused, "{code}");
        assert_eq!(draft::draft(&judge::check(&bundle, None).unwrap().0, &judgement), []);
    };
    check(SumsMissing, &|bundle| drop(bundle.files.remove("SHA256SUMS")));
    check(FileMissing, &|bundle| drop(bundle.files.remove("host.log")));
    check(DigestMismatch, &|bundle| bundle.files.get_mut("old.csv").unwrap().push(b'x'));
    check(Link, &|bundle| bundle.links.push("host.log".to_owned()));
    check(Link, &|bundle| bundle.links.push("elsewhere".to_owned()));
    let add = |line: &'static str| {
        move |bundle: &mut Memory| bundle.files.get_mut("SHA256SUMS").unwrap().extend(line.bytes())
    };
    let digest = "77ea18086bba933176cdf2a830c0af1554d5746204c068b718ea4eab67530409";
    assert_eq!(digest.len(), 64);
    check(SumsPath, &add("77ea18086bba933176cdf2a830c0af1554d5746204c068b718ea4eab67530409  ../x\n"));
    check(SumsPath, &add("77ea18086bba933176cdf2a830c0af1554d5746204c068b718ea4eab67530409  /etc/passwd\n"));
    check(
        SumsDuplicate,
        &add("77ea18086bba933176cdf2a830c0af1554d5746204c068b718ea4eab67530409  ./old.csv\n"),
    );
    check(SumsMalformed, &add("hello\n"));
}

#[test]
fn a_used_but_unlisted_file_is_a_warning() {
    let mut bundle = sound();
    pin(&mut bundle);
    let sums = String::from_utf8(bundle.files["SHA256SUMS"].clone()).unwrap();
    let without: String = sums
        .lines()
        .filter(|line| !line.ends_with("machines.txt") && !line.ends_with("bundle.toml"))
        .map(|line| format!("{line}\n"))
        .collect();
    bundle.files.insert("SHA256SUMS".to_owned(), without.into_bytes());
    let judgement = judged(&bundle);
    assert_eq!(codes(&judgement), (vec![], vec![UnlistedFile]));
    let files: Vec<&str> = judgement.warnings.iter().filter_map(|finding| finding.file.as_deref()).collect();
    assert_eq!(files, ["bundle.toml", "machines.txt"]);
}
