//! What llama.cpp's own programs print: `tests/fixtures/llama-cpp`, whose README says how each file was made.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::path::PathBuf;

use capgate_registry::evidence::codes::Code;
use capgate_registry::evidence::correctness::ops::{BackendOps, Form};
use capgate_registry::evidence::correctness::{Output, completion, ops, perplexity, read};
use capgate_registry::evidence::identify::{Kind, inspect};

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/llama-cpp").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn operations(name: &str) -> BackendOps {
    ops::read(&fixture(name)).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn a_run_that_ended_well_is_right_and_on_a_processor_shows_nothing() {
    let run = operations("ops.txt");
    assert!(run.is_right() && run.is_complete && !run.tested_a_gpu(), "{run:?}");
    assert_eq!((run.passed, run.tried, run.backends[0].name.as_str()), (63, 63, "CPU"));
    let codes: Vec<Code> = run.findings().iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::NothingTested]);
    let skipped = operations("ops-skipped.txt");
    assert!(skipped.is_right() && !skipped.tested_a_gpu() && skipped.tried == 0, "{skipped:?}");
}

#[test]
fn a_run_that_was_cut_off_is_wrong() {
    let run = operations("ops-killed.txt");
    assert!(!run.is_complete && run.failed.is_empty(), "{run:?}");
    let [finding] = run.findings().try_into().unwrap();
    assert_eq!(finding.code, Code::CorrectnessFailed);
    assert!(finding.message.ends_with("the run did not finish"), "{}", finding.message);
}

#[test]
fn the_forms_for_machines_are_known_and_do_not_say_how_the_run_ended() {
    let sql = operations("ops.sql");
    assert_eq!((sql.form, sql.passed, sql.tried, sql.is_complete), (Form::Sql, 12, 12, false));
    let wrong =
        String::from_utf8(fixture("ops.sql")).unwrap().replacen("'test', '1', '1'", "'test', '1', '0'", 1);
    assert_eq!(ops::read(wrong.as_bytes()).unwrap().failed, ["ABS(type=f16,ne_a=[128,2,2,2],v=0)"]);
    assert_eq!(operations("ops.csv").form, Form::Csv);
    for name in ["ops.sql", "ops.csv"] {
        assert_eq!(operations(name).findings()[0].code, Code::NothingTested, "{name}");
    }
}

#[test]
fn perplexities_of_other_kernels_differ_by_less_than_their_error_would_hide() {
    let runs = ["perplexity.txt", "perplexity-other.txt"].map(|name| match read(&fixture(name)) {
        Ok(Output::Perplexity(run)) => run,
        other => panic!("{name}: {other:?}"),
    });
    assert_eq!((runs[0].estimate, runs[0].error, runs[0].chunks.len()), (Some(807.522), Some(55.13187), 6));
    assert!(runs[0].is_comparable(&runs[1]), "{runs:?}");
    let found = perplexity::difference(&runs[1], &runs[0]).unwrap();
    assert!(found.paired && (found.relative - 9.25e-5).abs() < 1e-6, "{found:?}");
    // What the program prints as the error is seven per cent; that of the pairs is a thousandth of it.
    assert!(found.error < 2e-4, "{found:?}");
}

/// It ended with exit status 0, and half of its output was lost.
#[test]
fn a_run_over_a_text_that_lost_its_end_is_wrong() {
    let run = perplexity::read(&fixture("perplexity-cut.txt")).unwrap();
    assert_eq!((run.estimate, run.chunks.len(), run.is_finished), (None, 3, false));
    assert_eq!(run.wrong(), Some("the run over the text did not finish"));
    assert!(!inspect("perplexity-cut.txt", &fixture("perplexity-cut.txt")).serves);
}

#[test]
fn an_answer_has_its_tokens_with_text_and_number() {
    let found = completion::read(&fixture("completion.jsonl"), Some(&fixture("completion.session"))).unwrap();
    let numbers: Vec<u64> = found.tokens.iter().filter_map(|token| token.id).collect();
    assert_eq!(numbers, [265, 246, 100, 265, 291, 262, 180, 167, 63, 163, 219, 275]);
    let text: Vec<&str> = found.tokens.iter().map(|token| token.text.as_str()).collect();
    assert_eq!((text[0], text[2], text[4], text[11]), ("f", "a", " n", "p"));
    assert!(
        found.log.contains("sampler seed: 1\n") && !found.log.contains("saving final output"),
        "{}",
        found.log
    );
}

#[test]
fn single_files_are_recognised() {
    for (name, kind, serves) in [
        ("ops.txt", Kind::BackendOps, true),
        ("ops-killed.txt", Kind::BackendOps, false),
        ("ops.sql", Kind::BackendOps, true),
        ("perplexity.txt", Kind::Perplexity, true),
    ] {
        let found = inspect(name, &fixture(name));
        assert_eq!((found.kind, found.serves), (kind, serves), "{name}: {found:?}");
    }
}
