//! Whether answers are right: operations, greedy answers between arms, perplexity, and the profile that follows.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod bundles;

use std::collections::BTreeMap;

use capgate_registry::evidence::codes::Code::{self, *};
use capgate_registry::evidence::correctness::greedy::{Answer, Greedy, Token};
use capgate_registry::evidence::draft::{self, Draft};
use capgate_registry::evidence::judge::{self, Judgement, Verdict};
use capgate_registry::profile::{self, EvidenceKind, Outcome, Profile};

use bundles::Memory;
use bundles::sound::{MANIFEST, codes, log, pin, sound};

const OWN_OPS: &str = "  { path = \"over.ops\", role = \"correctness\", of = \"override\" },\n";
const GOOD_OPS: &str = "Backend 1/2: MTL0\n  ADD(type=f32): OK\n  MUL(type=f32): OK\n  2/2 tests passed\n  Backend MTL0: OK\n\
                        Backend 2/2: CPU\n  Skipping CPU backend\n2/2 backends passed\nOK\n";
const BAD_OPS: &str = "Backend 1/2: MTL0\n  ADD(type=f32): OK\n[MUL] ERR = 0.5 > 0.0000001   MUL(type=f32): FAIL\n  1/2 tests passed\n\n\
                       Failing tests:\n  MUL(type=f32)\n  Backend MTL0: FAIL\nBackend 2/2: CPU\n  Skipping CPU backend\n\
                       1/2 backends passed\nFAIL\n";

/// The sound bundle with these tests of correctness: an arm and what was printed in it.
fn bundle(tests: &[(&str, String)]) -> Memory {
    let mut bundle = sound();
    let mut lines = String::new();
    for (index, (arm, text)) in tests.iter().enumerate() {
        let path = format!("{arm}-{index}.txt");
        let program = "{ name = \"tester\", version = \"b10167\", sha256 = \"77ea18086bba933176cdf2a830c0af1554d5746204c068b718ea4eab67530409\" }";
        lines += &format!(
            "  {{ path = \"{path}\", role = \"correctness\", of = \"{arm}\", program = {program} }},\n"
        );
        bundle.files.insert(path, text.clone().into_bytes());
    }
    bundle.files.remove("over.ops");
    let manifest = MANIFEST.replace(OWN_OPS, &lines);
    bundle.files.insert("bundle.toml".to_owned(), manifest.into_bytes());
    bundle
}

fn judged(mut bundle: Memory) -> (Judgement, Vec<Draft>) {
    pin(&mut bundle);
    let (manifest, judgement) = judge::check(&bundle, None).unwrap_or_else(|error| panic!("{error:?}"));
    let drafts = draft::draft(&manifest, &judgement);
    (judgement, drafts)
}

/// Codes of refusals and warnings for these tests of correctness.
fn found(tests: &[(&str, String)]) -> (Vec<Code>, Vec<Code>) {
    codes(&judged(bundle(tests)).0)
}

fn clean(draft: &Draft) -> Profile {
    let (profile, problems) = profile::lint(draft.toml.as_bytes());
    assert_eq!((problems, draft.blanks), (vec![], 0), "{}", draft.toml);
    profile.unwrap()
}

#[test]
fn right_operations_become_evidence_with_digests() {
    let (judgement, drafts) = judged(bundle(&[("override", GOOD_OPS.to_owned())]));
    assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Publishable, (vec![], vec![])));
    let profile = clean(&drafts[0]);
    assert_eq!((profile.verdict, profile.evidence.len()), (profile::Verdict::Override, 2));
    let item = profile.evidence.iter().find(|item| item.kind == EvidenceKind::Correctness).unwrap();
    assert_eq!((item.outcome, item.values), (Some(Outcome::Pass), Some(profile.overrides[0].values)));
    assert_eq!(Some(format!("sha256:{}", item.bundle)), judgement.bundle);
    let method = item.method.as_deref().unwrap();
    let digest = "sha256:77ea18086bba933176cdf2a830c0af1554d5746204c068b718ea4eab67530409";
    assert_eq!(method, format!("test-backend-ops: 2 operations; by tester b10167 {digest}"));
}

#[test]
fn a_fast_arm_with_wrong_output_is_refused_and_makes_a_stock_profile() {
    let (judgement, drafts) = judged(bundle(&[("override", BAD_OPS.to_owned())]));
    assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Refused, (vec![CorrectnessFailed], vec![])));
    assert!(judgement.rows.iter().any(|row| row.ratio_to_stock.is_some_and(|ratio| ratio > 4.0)));
    assert!(judgement.refusals[0].message.ends_with("1 of 2 operations are right; wrong: MUL(type=f32)"));
    let profile = clean(&drafts[0]);
    assert_eq!((profile.verdict, profile.overrides.len()), (profile::Verdict::Stock, 0));
    let item = profile.evidence.iter().find(|item| item.kind == EvidenceKind::Correctness).unwrap();
    assert_eq!(item.outcome, Some(Outcome::Fail));
    assert!(item.method.as_deref().unwrap().starts_with("test-backend-ops: 2 operations, 1 wrong; "));
}

#[test]
fn wrong_output_beside_another_fault_makes_no_profile() {
    let mut bundle = bundle(&[("override", BAD_OPS.to_owned())]);
    bundle.files.insert("over.log".to_owned(), log("Apple Paravirtual device", 1007, true).into_bytes());
    let (judgement, drafts) = judged(bundle);
    assert_eq!((codes(&judgement).0, drafts.len()), (vec![BannerMissing, CorrectnessFailed], 0));
}

#[test]
fn wrong_output_bears_out_a_verdict_of_stock() {
    let mut bundle = bundle(&[("override", BAD_OPS.to_owned())]);
    let manifest = String::from_utf8(bundle.files["bundle.toml"].clone()).unwrap();
    let manifest = manifest.replace("verdict = \"override\"", "verdict = \"stock\"");
    bundle.files.insert("bundle.toml".to_owned(), manifest.into_bytes());
    let (judgement, drafts) = judged(bundle);
    assert_eq!(judgement.verdict, Verdict::Stock);
    assert_eq!(codes(&judgement), (vec![], vec![CorrectnessFailed, BenefitForgone]));
    assert_eq!(clean(&drafts[0]).verdict, profile::Verdict::Stock);
}

#[test]
fn operations_that_leave_the_gpu_out_show_nothing() {
    let skipped = "Testing 1 devices\n\nBackend 1/1: CPU\n  Skipping CPU backend\n1/1 backends passed\nOK\n";
    assert_eq!(found(&[("override", skipped.to_owned())]), (vec![], vec![NoCorrectness, NothingTested]));
    let blas = GOOD_OPS.replace("1/2: MTL0", "1/2: BLAS");
    assert_eq!(found(&[("override", blas)]), (vec![], vec![NoCorrectness, NothingTested]));
    let sql = "INSERT INTO test_backend_ops (op_name, op_params, test_mode, supported, passed) VALUES ('ADD', '', 'test', '1', '1');\n";
    assert_eq!(found(&[("override", sql.to_owned())]), (vec![], vec![NoCorrectness, NothingTested]));
    let sql = sql.replace("'1');", "'0');");
    assert_eq!(found(&[("override", sql)]), (vec![CorrectnessFailed], vec![]));
}

/// Answers to two prompts, each a word a token; `-` ends one.
fn answers(first: &str, second: &str) -> String {
    with_seed("1", first, second)
}

fn with_seed(seed: &str, first: &str, second: &str) -> String {
    let answer = |(prompt, words): (&str, &str)| Answer {
        prompt: prompt.to_owned(),
        tokens: words
            .split_whitespace()
            .map(|word| Token {
                id: Some(word.len() as u64 * 1000 + u64::from(word.as_bytes()[0])),
                text: format!(" {word}"),
            })
            .collect(),
    };
    let answers = [("The capital of France is", first), ("Count:", second)].map(answer).to_vec();
    Greedy { settings: BTreeMap::from([("seed".to_owned(), seed.to_owned())]), answers }.to_lines()
}

#[test]
fn an_answer_is_right_where_another_arm_gives_exactly_the_same() {
    let (paris, lyon) = ("Paris is in France", "Paris lies in France");
    let count = "one two three";
    for (name, tests, refusals, warnings) in [
        (
            "as stock",
            vec![("stock", answers(paris, count)), ("override", answers(paris, count))],
            vec![],
            vec![],
        ),
        (
            "as the host, which rounds otherwise than the processor",
            vec![
                ("cpu", answers(lyon, count)),
                ("host", answers(paris, count)),
                ("override", answers(paris, count)),
            ],
            vec![],
            vec![],
        ),
        (
            "as one arm in one prompt and as another in the other",
            vec![
                ("cpu", answers(paris, "one two")),
                ("host", answers(lyon, count)),
                ("override", answers(paris, count)),
            ],
            vec![],
            vec![],
        ),
        (
            "as no arm",
            vec![("stock", answers(paris, count)), ("override", answers("Paris is the capital", count))],
            vec![CorrectnessFailed],
            vec![],
        ),
        (
            "as no arm, although the others agree that far",
            vec![
                ("cpu", answers("Paris is in France", count)),
                ("stock", answers("Paris is in Europe", count)),
                ("override", answers("Paris was in France", count)),
            ],
            vec![CorrectnessFailed],
            vec![],
        ),
        (
            "as no arm, where the others disagree already",
            vec![
                ("cpu", answers("Paris is in France", count)),
                ("stock", answers("Paris was in France", count)),
                ("override", answers("Paris is on earth", count)),
            ],
            vec![],
            vec![ReferencesDiffer],
        ),
        (
            "cut short",
            vec![("stock", answers(paris, count)), ("override", answers("Paris is", count))],
            vec![CorrectnessFailed],
            vec![],
        ),
        (
            "with another seed",
            vec![("stock", with_seed("2", paris, count)), ("override", answers(paris, count))],
            vec![],
            vec![NoCorrectness, PromptsDiffer],
        ),
        (
            "silent in both",
            vec![("stock", answers("", "")), ("override", answers("", ""))],
            vec![],
            vec![NoCorrectness],
        ),
        ("alone", vec![("override", answers(paris, count))], vec![], vec![NoCorrectness]),
    ] {
        assert_eq!(found(&tests), (refusals, warnings), "{name}");
    }
}

#[test]
fn the_first_divergence_is_reported_with_arm_prompt_token_and_both_tokens() {
    let (judgement, _) = judged(bundle(&[
        ("stock", answers("Paris is in France", "one two three")),
        ("override", answers("Paris is in France", "one three two")),
    ]));
    let message = &judgement.refusals[0].message;
    assert_eq!(
        message,
        "its answer is that of no other arm: prompt 2, token 2: ` three` (5116), not ` two` (3116) by stock"
    );
    let report = &judgement.correctness[0].outputs[0];
    assert_eq!((report.reference, report.prompts, report.same, report.tokens), ("stock", 2, 1, 7));
    let json = serde_json::to_value(&judgement).unwrap();
    let divergence = &json["correctness"][0]["outputs"][0]["divergences"][0];
    assert_eq!((divergence["prompt"].as_u64(), divergence["token"].as_u64()), (Some(2), Some(2)));
    assert_eq!(divergence["found"]["id"].as_u64(), Some(5116));
    assert_eq!(json["correctness"][0]["outcome"], "fail");
}

#[test]
fn malformed_answers_are_a_finding_of_their_own() {
    let good = answers("Paris", "one");
    let bad = good.replace("\"tokens\"", "\"token\"");
    let (refusals, warnings) = found(&[("stock", good), ("override", bad)]);
    assert_eq!((refusals, warnings), (vec![MissingField], vec![NoCorrectness]));
}

fn perplexity(scale: f64, chunks: usize) -> String {
    let mut text = format!(
        "perplexity: calculating perplexity over {chunks} chunks, n_ctx=128, batch_size=512, n_seq=4\n"
    );
    let estimate = |chunk: usize| scale * (5.0 + (chunk % 3) as f64 * 0.25);
    for chunk in 0..chunks {
        text += &format!("[{}]{:.4},", chunk + 1, estimate(chunk));
    }
    text + &format!("\nFinal estimate: PPL = {:.4} +/- 0.21341\n", estimate(chunks - 1))
}

#[test]
fn a_perplexity_is_right_within_one_per_cent_of_another_arms() {
    for (name, other, refusals, warnings) in [
        ("the same", perplexity(1.0, 6), vec![], vec![]),
        ("rounded otherwise", perplexity(1.002, 6), vec![], vec![]),
        ("worse", perplexity(1.02, 6), vec![CorrectnessFailed], vec![]),
        ("too good", perplexity(0.98, 6), vec![CorrectnessFailed], vec![]),
        ("of another text", perplexity(1.0, 5), vec![], vec![NoCorrectness, PromptsDiffer]),
        ("no number", perplexity(1.0, 6).replace("PPL = 5", "PPL = nan"), vec![CorrectnessFailed], vec![]),
        ("unfinished", perplexity(1.0, 6).replace("Final", "Fin"), vec![CorrectnessFailed], vec![]),
    ] {
        assert_eq!(
            found(&[("cpu", perplexity(1.0, 6)), ("override", other)]),
            (refusals, warnings),
            "{name}"
        );
    }
    let (judgement, drafts) =
        judged(bundle(&[("cpu", perplexity(1.0, 6)), ("override", perplexity(1.002, 6))]));
    let report = &judgement.correctness[0].perplexity[0];
    assert!(report.difference.paired && (report.difference.relative - 0.002).abs() < 1e-4, "{report:?}");
    assert!(report.difference.error < 1e-4, "{report:?}");
    assert!(drafts[0].toml.contains("method = \"perplexity 5.511: +0.200 % ± 0.00"), "{}", drafts[0].toml);
}

#[test]
fn an_arm_with_wrong_operations_vouches_for_nobody() {
    let tests = [
        ("stock", answers("Paris", "one")),
        ("stock", BAD_OPS.to_owned()),
        ("override", answers("Paris", "one")),
    ];
    assert_eq!(found(&tests), (vec![], vec![NoCorrectness, ReferenceWrong]));
}

#[test]
fn one_sound_set_keeps_its_profile_beside_a_wrong_one() {
    let mut bundle = bundle(&[]);
    let nine = "claims = { apple_family_max = 1009, max_threadgroup_memory = 32768 }";
    let seven = "claims = { apple_family_max = 1007, max_threadgroup_memory = 32768 }";
    let shim = "shim = { name = \"capgate\", sha256 = \"515b9d84ab67e86d959282e95c194a5ad8a947261514b947d6f7483c57797b31\" }";
    let more = format!(
        "  {{ path = \"nine.json\", arm = \"override\", {nine}, {shim} }},\n  {{ path = \"nine.log\", role = \"log\", of = \"override\", {nine} }},\n  \
           {{ path = \"nine.ops\", role = \"correctness\", of = \"override\", {nine} }},\n  {{ path = \"seven.ops\", role = \"correctness\", of = \"override\", {seven} }},\n"
    );
    let manifest = String::from_utf8(bundle.files["bundle.toml"].clone()).unwrap();
    let manifest = manifest
        .replace("of = \"override\" }", &format!("of = \"override\", {seven} }}"))
        .replace("  { path = \"host.json\"", &format!("{more}  {{ path = \"host.json\""));
    bundle.files.insert("bundle.toml".to_owned(), manifest.into_bytes());
    let text = |path: &str| String::from_utf8(bundle.files[path].clone()).unwrap();
    let json = text("over.json").replace("T18:20", "T18:30").replace("20003000", "20003100");
    let log = text("over.log")
        .replace("appleFamilyMax=1007", "appleFamilyMax=1009")
        .replace("Apple7  (1007)", "Apple9  (1009)");
    for (path, text) in [
        ("nine.json", json),
        ("nine.log", log),
        ("nine.ops", BAD_OPS.to_owned()),
        ("seven.ops", GOOD_OPS.to_owned()),
    ] {
        bundle.files.insert(path.to_owned(), text.into_bytes());
    }
    let (judgement, drafts) = judged(bundle.clone());
    assert_eq!(codes(&judgement), (vec![CorrectnessFailed], vec![AboveHostFamily]));
    let profile = clean(&drafts[0]);
    let families: Vec<u64> = profile.overrides.iter().map(|set| set.values.apple_family_max).collect();
    assert_eq!(families, [1007]);

    // Right in both: the least sufficient comes first, whatever the order of the manifest.
    bundle.files.insert("nine.ops".to_owned(), GOOD_OPS.into());
    let (judgement, drafts) = judged(bundle.clone());
    let ladder = judgement.workloads[0].ladder.as_ref().unwrap();
    assert_eq!(ladder.sufficient.unwrap().apple_family_max, 1007);
    let families = |draft: &Draft| -> Vec<u64> {
        clean(draft).overrides.iter().map(|set| set.values.apple_family_max).collect()
    };
    assert_eq!(families(&drafts[0]), [1007, 1009]);
    let slower = String::from_utf8(bundle.files["over.json"].clone()).unwrap().replace("2000", "2900");
    bundle.files.insert("over.json".to_owned(), slower.into_bytes());
    let (judgement, drafts) = judged(bundle);
    assert_eq!(judgement.workloads[0].ladder.as_ref().unwrap().sufficient.unwrap().apple_family_max, 1009);
    assert_eq!(families(&drafts[0]), [1009, 1007]);
}
