//! What bundles amount to: sets apart, rounds pooled, real logs as proof, manifests with every problem.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod bundles;

use std::path::PathBuf;

use capgate_registry::evidence::codes::Code::{self, *};
use capgate_registry::evidence::draft;
use capgate_registry::evidence::judge::{self, CheckError, Judgement, Verdict};
use proptest::prelude::*;

use bundles::sound::{MANIFEST, codes, judged, log, pin, rows, sound};

#[test]
fn no_gain_is_no_benefit_and_a_stock_profile() {
    let mut bundle = sound();
    let stock = bundle.files["stock.json"].clone();
    let later = String::from_utf8(stock).unwrap().replace("T18:00", "T18:20").replace("003000", "004000");
    bundle.files.insert("over.json".to_owned(), later.into_bytes());
    pin(&mut bundle);
    let (manifest, judgement) = judge::check(&bundle, None).unwrap();
    assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::NoBenefit, (vec![], vec![])));
    let drafts = draft::draft(&manifest, &judgement);
    assert!(drafts[0].toml.contains("verdict = \"stock\""), "{}", drafts[0].toml);
    let (_, problems) = capgate_registry::profile::lint(drafts[0].toml.as_bytes());
    assert_eq!(problems, [], "{}", drafts[0].toml);
}

#[test]
fn sets_are_judged_apart() {
    let mut bundle = sound();
    let second = r#"{ path = "over2.json", arm = "override", claims = { apple_family_max = 1009, max_threadgroup_memory = 65536 }, shim = { name = "lume", sha256 = "515b9d84ab67e86d959282e95c194a5ad8a947261514b947d6f7483c57797b31" } },
  { path = "over2.log", role = "log", of = "override", claims = { apple_family_max = 1009, max_threadgroup_memory = 65536 } },"#;
    let claims = "of = \"override\", claims = { apple_family_max = 1007, max_threadgroup_memory = 32768 }";
    let manifest = MANIFEST
        .replace("of = \"override\"", claims)
        .replace("  { path = \"host.json\"", &format!("  {second}\n  {{ path = \"host.json\""));
    bundle.files.insert("bundle.toml".to_owned(), manifest.into_bytes());
    let times = String::from_utf8(bundle.files["over.json"].clone())
        .unwrap()
        .replace("T18:20", "T18:30")
        .replace("20003000", "20003100");
    bundle.files.insert("over2.json".to_owned(), times.into_bytes());
    bundle.files.insert("over2.log".to_owned(), log("Apple Paravirtual device", 1005, false).into_bytes());
    pin(&mut bundle);
    let (manifest, judgement) = judge::check(&bundle, None).unwrap();
    let verdicts: Vec<Verdict> = judgement.workloads[0].sets.iter().map(|set| set.verdict).collect();
    assert_eq!(verdicts, [Verdict::Publishable, Verdict::Refused]);
    assert_eq!(judgement.verdict, Verdict::Publishable);
    assert_eq!(codes(&judgement).0, [BannerMissing, FamilyMismatch, CapabilityMissing]);
    let drafts = draft::draft(&manifest, &judgement);
    assert!(!drafts[0].toml.contains("1009"), "{}", drafts[0].toml);
}

#[test]
fn rounds_of_an_arm_are_pooled() {
    let mut bundle = sound();
    let row = |time: &str, ns: u64| {
        let text = rows("Apple M1 Ultra (Virtual)", "Apple Paravirtual device", time, 2, -1);
        let samples = text.split("\"samples_ns\": [").nth(1).unwrap().split(']').next().unwrap().to_owned();
        let one = text.replacen(&samples, &ns.to_string(), 1);
        format!("{}\n]\n", one.split(",\n{").next().unwrap())
    };
    let mut files = String::new();
    for (round, ns) in [20_000_000, 20_400_000, 20_200_000_u64].iter().enumerate() {
        bundle
            .files
            .insert(format!("r{round}.json"), row(&format!("2026-08-09T18:2{round}:00Z"), *ns).into_bytes());
        bundle.files.insert(format!("r{round}.log"), bundle.files["over.log"].clone());
        let values = "claims = { apple_family_max = 1007, max_threadgroup_memory = 32768 }";
        let shim = "shim = { name = \"capgate\", sha256 = \"515b9d84ab67e86d959282e95c194a5ad8a947261514b947d6f7483c57797b31\" }";
        files += &format!(
            "  {{ path = \"r{round}.json\", arm = \"override\", {values}, {shim} }},\n  {{ path = \"r{round}.log\", role = \"log\", of = \"override\" }},\n"
        );
    }
    let kept = |line: &&str| !line.contains("over.json") && !line.contains("over.log") && *line != "]";
    let manifest: String = MANIFEST.lines().filter(kept).map(|line| format!("{line}\n")).collect();
    bundle.files.insert("bundle.toml".to_owned(), format!("{manifest}{files}]\n").into_bytes());
    pin(&mut bundle);
    let judgement = judged(&bundle);
    let row = judgement.rows.iter().find(|row| row.arm == "override").unwrap();
    assert_eq!((row.n, row.files.len(), row.test.as_str()), (3, 3, "pp512"));
    assert_eq!(codes(&judgement), (vec![], vec![FewSamples, TestsDiffer]));

    bundle.files.insert("r2.log".to_owned(), b"nothing\n".to_vec());
    pin(&mut bundle);
    assert_eq!(codes(&judged(&bundle)).0, [BannerMissing, CapabilityMissing]);
}

#[test]
fn outputs_with_a_fixed_seed_are_compared() {
    for (output, expected) in [("Paris\n", vec![]), ("Rome\n", vec![CorrectnessFailed])] {
        let mut bundle = sound();
        let manifest = MANIFEST
            .replace("old.csv\", arm = \"control\"", "stock.out\", role = \"correctness\", of = \"stock\"");
        bundle.files.insert("bundle.toml".to_owned(), manifest.into_bytes());
        bundle.files.insert("stock.out".to_owned(), b"Paris\n".to_vec());
        bundle.files.insert("over.ops".to_owned(), output.as_bytes().to_vec());
        pin(&mut bundle);
        assert_eq!(codes(&judged(&bundle)), (expected, vec![]));
    }
}

/// The sound bundle with other claims, and a log that somebody really has in place of one of its own.
fn with_log(claims: &str, path: &str, log: &str) -> Judgement {
    let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/cases").join(log);
    let mut bundle = sound();
    let manifest = MANIFEST
        .replace("{ apple_family_max = 1007, max_threadgroup_memory = 32768 }", claims)
        .replace("name = \"capgate\"", "name = \"lume\"")
        .replace("  { path = \"over.probe\", role = \"probe\", of = \"override\" },\n", "");
    bundle.files.insert("bundle.toml".to_owned(), manifest.into_bytes());
    bundle.files.insert(path.to_owned(), std::fs::read(fixture).unwrap());
    pin(&mut bundle);
    judged(&bundle)
}

#[test]
fn logs_that_people_have_prove_what_they_prove() {
    let nine = "{ apple_family_max = 1009, max_threadgroup_memory = 65536 }";
    let nine_small = "{ apple_family_max = 1009, max_threadgroup_memory = 32768 }";
    let said =
        |judgement: &Judgement, code: Code| judgement.refusals.iter().any(|finding| finding.code == code);

    let banner = "24-banner-disagrees-with-profile.stderr";
    assert_eq!(codes(&with_log(nine, "over.log", banner)).0, [BannerMismatch]);
    assert_eq!(codes(&with_log(nine_small, "over.log", banner)).0, []);

    let silent = with_log(nine, "over.log", "25-shim-fail-open.stderr");
    assert_eq!(codes(&silent).0, [BannerMissing, FamilyMismatch, CapabilityMissing]);
    assert!(silent.refusals.iter().any(|finding| finding.message.contains("shim not active")));

    assert!(said(&with_log(nine, "stock.log", "26-tart-banner.stderr"), StockArmShimmed));
    assert!(said(&with_log(nine, "over.log", "26-tart-banner.stderr"), BannerMismatch));
    assert!(said(&with_log(nine, "over.log", "22-virtual-devices.stderr"), MultipleDevices));
    assert!(said(&with_log(nine, "over.log", "03-mlx-residency-set.stderr"), ResearchHook));
    assert!(said(&with_log(nine, "stock.log", "02-ghactions-timestamps-abort.log"), Aborted));
    assert!(said(&with_log(nine, "stock.log", "01-ghactions-2024-no-apple-family.stderr"), StockDiffers));
}

#[test]
fn a_copied_arm_is_refused() {
    let mut bundle = sound();
    bundle.files.insert("over.json".to_owned(), bundle.files["stock.json"].clone());
    pin(&mut bundle);
    assert_eq!(codes(&judged(&bundle)).0, [DuplicateSamples]);
}

#[test]
fn a_file_is_one_thing() {
    let mut bundle = sound();
    let manifest = MANIFEST.replace("path = \"host.json\"", "path = \"stock.json\"");
    bundle.files.insert("bundle.toml".to_owned(), manifest.into_bytes());
    assert!(
        matches!(judge::check(&bundle, None), Err(CheckError::Manifest(problems)) if problems.len() == 1)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_any_file_panics_or_goes_unnoticed(
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        is_pinned in any::<bool>(),
    ) {
        let mut bundle = sound();
        pin(&mut bundle);
        let paths: Vec<String> = bundle.files.keys().cloned().collect();
        let path = which.get(&paths);
        let file = bundle.files.get_mut(path).unwrap();
        let place = place.index(file.len());
        let old = std::mem::replace(&mut file[place], byte);
        if is_pinned && path != "SHA256SUMS" {
            pin(&mut bundle);
        }
        let result = judge::check(&bundle, None);
        if let Ok((manifest, judgement)) = &result {
            let _drafts = draft::draft(manifest, judgement);
            prop_assert!(is_pinned || old == byte || judgement.verdict == Verdict::Refused, "{path} {place} {byte}");
        }
    }
}

#[test]
fn a_manifest_says_all_its_problems() {
    let bad = MANIFEST
        .replace("verdict = \"override\"", "verdict = \"overide\"")
        .replace("path = \"stock.json\"", "path = \"../stock.json\"")
        .replace("role = \"probe\", of = \"stock\"", "role = \"prob\", of = \"stock\"")
        .replace("old.csv\", arm = \"control\"", "old.csv\"")
        .replace("25F84", "24F84");
    let mut bundle = sound();
    bundle.files.insert("bundle.toml".to_owned(), bad.into_bytes());
    let Err(CheckError::Manifest(problems)) = judge::check(&bundle, None) else { panic!("accepted") };
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages.len(), 5, "{messages:#?}");
    bundle.files.remove("bundle.toml");
    assert!(matches!(judge::check(&bundle, None), Err(CheckError::NoManifest(_))));
}

#[test]
fn a_silent_bundle_leaves_blanks_that_nobody_can_publish() {
    let mut bundle = sound();
    let digest = |text: &str| format!(", sha256 = \"{text}\"");
    let manifest = MANIFEST
        .replace("source = \"https://example.org/bundle\"\n", "")
        .replace(&digest("28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7"), "")
        .replace(&digest("9fecc3b3cd76bba89d504f29b616eedf7da85b96540e490ca5824d3f7d2776a0"), "")
        .replace(&digest("515b9d84ab67e86d959282e95c194a5ad8a947261514b947d6f7483c57797b31"), "")
        .replace(", model = \"VirtualMac2,1\"", "")
        .replace("apple_family = 1007, max_threadgroup_memory = 32768, feature", "feature");
    bundle.files.insert("bundle.toml".to_owned(), manifest.into_bytes());
    pin(&mut bundle);
    let (manifest, judgement) = judge::check(&bundle, None).unwrap();
    assert_eq!(codes(&judgement), (vec![], vec![ShimUnrecorded, HostUnrecorded]));
    let drafts = draft::draft(&manifest, &judgement);
    let [draft] = drafts.as_slice() else { panic!("{drafts:?}") };
    assert_eq!((draft.blanks, draft.toml.matches("FILL-IN: ").count()), (10, 10), "{}", draft.toml);
    assert!(capgate_registry::profile::Profile::parse(draft.toml.as_bytes()).is_err());
}
