//! A bundle that `capgate bench --correctness` made with real programs of llama.cpp: `tests/fixtures/real-bundle.md` says how.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::path::Path;

use support::World;

#[test]
fn what_real_programs_left_is_whole_and_their_answers_are_compared() {
    let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/real-bundle");
    let world = World::bare();
    let run = world.run(&format!("evidence check {} --format json", bundle.display()));
    let judged = run.json();
    // Nothing is damaged, missing or unlisted; what the judge may refuse here is a machine that was not quiet.
    for finding in judged["refusals"].as_array().unwrap() {
        assert_eq!(finding["code"], "contended", "{finding}");
    }
    for finding in judged["warnings"].as_array().unwrap() {
        assert_ne!(finding["code"], "unlisted-file", "{finding}");
    }
    let tests: Vec<(&str, &str)> = judged["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["arm"].as_str().unwrap(), row["test"].as_str().unwrap()))
        .collect();
    assert_eq!(tests.len(), 4, "{tests:?}");
    assert!(tests.iter().any(|(arm, _)| *arm == "stock") && tests.iter().any(|(arm, _)| *arm == "cpu"));

    let [tested] = judged["correctness"].as_array().unwrap().as_slice() else { panic!("{judged}") };
    assert_eq!((&tested["arm"], &tested["outputs"][0]["reference"]), (&"cpu".into(), &"stock".into()));
    // Both arms run on the processor, so every answer is the same: 6 prompts, 64 tokens each.
    let outputs = &tested["outputs"][0];
    assert_eq!(
        (&outputs["same"], &outputs["prompts"], &outputs["tokens"]),
        (&6.into(), &6.into(), &384.into())
    );
    assert_eq!(tested["perplexity"][0]["difference"]["relative"], 0.0);
    let programs = tested["programs"].as_array().unwrap();
    assert!(programs.iter().all(|program| program.as_str().unwrap().contains(" sha256:")), "{programs:?}");
}
