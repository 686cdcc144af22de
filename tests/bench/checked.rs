//! `--correctness`: whether each arm answers rightly, by stand-ins for llama.cpp's programs in the real trials.

use std::fs;

use serde_json::Value;

use crate::lab::{Lab, NAMED, Ran, files, llama, run};

const SOURCE: &str = "--rounds 3 --out bundle --source https://example.org/bundle";

/// The measured stand-in with its like beside it, under the names that llama.cpp's programs have.
fn checked(lab: &Lab, options: &str) -> Ran {
    let folder = lab.path("built");
    fs::create_dir_all(&folder).unwrap();
    for name in ["llama-bench", "test-backend-ops", "llama-completion", "llama-perplexity"] {
        fs::copy(llama(), folder.join(name)).unwrap();
    }
    fs::write(lab.path("text.txt"), "a text\n").unwrap();
    let words = format!("--override 1009/65536 {SOURCE} {options}");
    let mut command = lab.bench_with(&words, "");
    let words: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    let (_, before) = words.split_last().unwrap();
    command = lab.capgate();
    command.args(before).arg(folder.join("llama-bench"));
    run(command.args(["-m", "tiny.gguf", "-p", "64", "-n", "16", "-r", "2"]))
}

fn judged(lab: &Lab, exit: i32) -> Value {
    lab.run("evidence check bundle --format json").exits(exit).json()
}

fn draft(lab: &Lab) -> String {
    let name = "m1-ultra-25g76-25f84-llama-bench-b10167.toml";
    assert_eq!(files(&lab.path("bundle/profiles")), [name]);
    fs::read_to_string(lab.path("bundle/profiles").join(name)).unwrap()
}

#[test]
fn right_answers_become_evidence_in_the_draft() {
    let lab = Lab::new();
    let ran = checked(&lab, "--cpu --correctness --text text.txt").exits(0);
    assert!(ran.out.contains("tiny.gguf: answers of override 1009 / 65536: pass; "), "{}", ran.out);
    lab.has_no_trial();
    let judged = judged(&lab, 0);
    let [tested, cpu] = judged["correctness"].as_array().unwrap().as_slice() else { panic!("{judged}") };
    assert_eq!(
        (&cpu["arm"], &cpu["outcome"], &cpu["outputs"][0]["same"]),
        (&"cpu".into(), &Value::Null, &6.into())
    );
    assert_eq!((&tested["outcome"], &tested["operations_tried"]), (&"pass".into(), &2.into()));
    let outputs = tested["outputs"].as_array().unwrap();
    let references: Vec<&str> = outputs.iter().map(|one| one["reference"].as_str().unwrap()).collect();
    assert_eq!(references, ["stock", "cpu"]);
    assert_eq!(
        (&outputs[0]["prompts"], &outputs[0]["same"], &outputs[0]["tokens"]),
        (&6.into(), &6.into(), &24.into())
    );
    assert_eq!(tested["perplexity"].as_array().unwrap().len(), 2);
    let codes: Vec<&str> =
        judged["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap()).collect();
    assert!(!codes.contains(&"no-correctness"), "{codes:?}");

    let draft = draft(&lab);
    assert!(draft.contains("kind = \"correctness\"\n") && draft.contains("outcome = \"pass\"\n"), "{draft}");
    let digests =
        draft.matches("test-backend-ops sha256:").count() + draft.matches("llama-completion sha256:").count();
    assert_eq!(digests, 2, "{draft}");

    // Every process of the override arm was granted by its own trial, and its log is held against the claim.
    let folder = lab.path("bundle/correctness/02");
    let decisions: Vec<String> =
        files(&folder).into_iter().filter(|name| name.ends_with(".decisions.jsonl")).collect();
    assert_eq!(decisions.len(), 6, "{decisions:?}");
    for name in decisions {
        let lines = fs::read_to_string(folder.join(&name)).unwrap();
        assert!(lines.contains("\"outcome\":\"grant\"") && lines.contains("trial/"), "{lines}");
    }
    let log = fs::read_to_string(folder.join(format!("{NAMED}.log"))).unwrap();
    assert_eq!(log.matches("[capgate] Enabled for").count(), 6, "{log}");
}

#[test]
fn a_fast_arm_with_wrong_output_is_refused_and_drafts_stock() {
    let lab = Lab::new().does("wrong", "override");
    let ran = checked(&lab, "--correctness").exits(4);
    assert!(ran.out.contains("tiny.gguf: answers of override 1009 / 65536: fail; "), "{}", ran.out);
    assert_eq!(lab.refusals("bundle"), ["correctness-failed"]);
    let judged = judged(&lab, 4);
    let tested = &judged["correctness"][0];
    assert_eq!(tested["operations_failed"], serde_json::json!(["MUL(type=f32)"]));
    let divergence = &tested["outputs"][0]["divergences"][0];
    assert_eq!((&divergence["prompt"], &divergence["token"]), (&1.into(), &3.into()));
    assert_eq!(
        (&divergence["found"]["text"], &divergence["expected"]["text"]),
        (&" four".into(), &" three".into())
    );
    let fast =
        judged["rows"].as_array().unwrap().iter().any(|row| row["ratio_to_stock"].as_f64() > Some(9.0));
    assert!(fast, "{judged}");
    let draft = draft(&lab);
    assert!(draft.contains("verdict = \"stock\"\n") && draft.contains("outcome = \"fail\"\n"), "{draft}");
    assert!(!draft.contains("[[override]]"), "{draft}");
}

#[test]
fn a_stock_arm_that_is_wrong_itself_vouches_for_nobody() {
    let lab = Lab::new().does("wrong", "stock");
    let ran = checked(&lab, "--correctness").exits(0);
    assert!(ran.out.contains("warning[reference-wrong]"), "{}", ran.out);
    // The operations of the override are right; its answers are held against nobody's.
    let judged = judged(&lab, 0);
    assert_eq!(judged["correctness"][0]["outcome"], "pass");
    assert_eq!(judged["correctness"][0]["outputs"], serde_json::json!([]));
}

#[test]
fn prompts_and_programs_can_be_named() {
    let lab = Lab::new();
    fs::write(lab.path("prompts.txt"), "One prompt:\n\nAnother prompt:\n").unwrap();
    checked(&lab, "--correctness --prompts prompts.txt --ops built/test-backend-ops").exits(0);
    let answers = fs::read_to_string(lab.path("bundle/correctness/02/stock.answers.jsonl")).unwrap();
    assert_eq!(answers.lines().count(), 3);
    assert!(answers.contains("{\"prompt\":\"Another prompt:\",\"tokens\":[{\"text\":\" one\"}"), "{answers}");
}

#[test]
fn what_cannot_be_tested_with_is_said_before_anything_runs() {
    let lab = Lab::new();
    fs::write(lab.path("empty.txt"), "\n\n").unwrap();
    for (options, exit, said) in [
        ("--ops built/test-backend-ops", 2, "--correctness"),
        ("--correctness --ops built/nothing", 1, "built/nothing"),
        ("--correctness --prompts nothing.txt", 1, "the prompts `nothing.txt` cannot be read"),
        ("--correctness --prompts empty.txt", 4, "`empty.txt` holds 0 prompts"),
    ] {
        let ran = checked(&lab, options).exits(exit);
        assert!(ran.err.contains(said), "{}", ran.err);
        assert!(!lab.path("bundle").exists(), "{options}");
    }
}
