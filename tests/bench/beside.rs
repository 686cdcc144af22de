//! Programs that load the same images: run once in each arm, and judged by their logs and their output alone.

use std::fs;

use crate::lab::{Lab, NAMED, Ran, files, llama};

fn beside(lab: &Lab) -> Ran {
    // The same stand-in under another name: it prints an answer.
    let other = lab.path("llama-answer");
    fs::copy(llama(), &other).unwrap();
    let also = format!("{} -m tiny.gguf --answer", other.display());
    let mut command = lab.bench_with(
        "--override 1009/65536 --rounds 3 --out bundle --source https://example.org/bundle",
        "-m tiny.gguf -p 64 -n 16 -r 2",
    );
    // Options stand before the program.
    let words: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    let mut with = lab.capgate();
    with.arg(&words[0]).arg("--also").arg(also).args(&words[1..]);
    std::mem::swap(&mut command, &mut with);
    crate::lab::run(&mut command)
}

#[test]
fn a_program_that_answers_the_same_gets_a_draft_of_its_own() {
    let lab = Lab::new();
    let ran = beside(&lab).exits(0);
    assert!(ran.out.contains("tiny.gguf llama-answer 1: publishable\n"), "{}", ran.out);
    lab.has_no_trial();
    let drafts = files(&lab.path("bundle/profiles"));
    let name = "m1-ultra-25g76-25f84-llama-answer-b10167.toml";
    assert_eq!(drafts, [name, "m1-ultra-25g76-25f84-llama-bench-b10167.toml"]);
    let draft = fs::read_to_string(lab.path("bundle/profiles").join(name)).unwrap();
    assert!(draft.contains("kind = \"correctness\"\n") && draft.contains("outcome = \"pass\"\n"), "{draft}");
    assert!(!draft.contains("kind = \"speed\""), "{draft}");
    let decided = fs::read_to_string(lab.path(&format!("bundle/also/01/{NAMED}.decisions.jsonl"))).unwrap();
    assert_eq!(decided.matches("\"outcome\":\"grant\"").count(), 2);
    lab.run("evidence check bundle").exits(0);
}

#[test]
fn a_program_that_answers_otherwise_is_refused_and_does_not_drag_the_measured_one_along() {
    let lab = Lab::new().does("wrong", "override");
    let ran = beside(&lab).exits(4);
    assert!(ran.out.contains("tiny.gguf: publishable\n"), "{}", ran.out);
    assert!(ran.out.contains("tiny.gguf llama-answer 1: refused\n"), "{}", ran.out);
    assert!(lab.refusals("bundle").contains(&"correctness-failed".to_owned()));
}

#[test]
fn a_program_without_values_or_with_another_model_is_wrong_usage() {
    let lab = Lab::new();
    let other = llama().display().to_string();
    for (options, said) in [
        (
            vec!["--cpu".to_owned(), "--also".to_owned(), format!("{other} -m tiny.gguf")],
            "`--also` has no values",
        ),
        (
            vec!["--override".into(), "1009/65536".into(), "--also".into(), format!("{other} -m other.gguf")],
            "does not load `tiny.gguf`",
        ),
    ] {
        let mut command = lab.capgate();
        command
            .args(["bench", "--out", "bundle", "--readings", "readings", "--prefix"])
            .arg(lab.guest.prefix());
        command.arg("--library").arg(&crate::built::built().library).args(&options);
        command.arg("--").arg(&other).args(["-m", "tiny.gguf"]);
        let ran = crate::lab::run(&mut command).exits(2);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}
