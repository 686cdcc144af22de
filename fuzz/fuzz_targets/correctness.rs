//! Tests of correctness, on any bytes: what is right has nothing that failed, answers are written and read as the same
//! again, and two runs differ in the same place whichever is asked first.
#![no_main]

use capgate_registry::evidence::correctness::{Output, completion, greedy, ops, perplexity, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let output = read(bytes);
    if let Some(ops) = ops::read(bytes) {
        assert!(!ops.is_right() || (ops.failed.is_empty() && ops.passed == ops.tried && ops.is_complete));
        assert!(ops.failed_names().len() <= ops.failed.len());
        assert!(ops.findings().iter().all(|finding| !finding.message.chars().any(char::is_control)));
    }
    if let Ok(Output::Greedy(answers)) = &output {
        let text = answers.to_lines();
        assert_eq!(greedy::read(text.as_bytes()), Some(Ok(answers.clone())));
        for pair in answers.answers.windows(2) {
            let [one, other] = pair else { continue };
            assert_eq!(greedy::diverges_at(one, other), greedy::diverges_at(other, one));
            let said = greedy::divergence(0, one, other).map(|found| found.to_string());
            assert_eq!(said.is_some(), greedy::diverges_at(one, other).is_some());
        }
    }
    let middle = bytes.len() / 2;
    let (left, right) = bytes.split_at(middle);
    if let (Some(one), Some(other)) = (perplexity::read(left), perplexity::read(right)) {
        let found = perplexity::difference(&one, &other);
        assert_eq!(found.is_some(), perplexity::difference(&other, &one).is_some());
        assert!(found.is_none_or(|found| found.relative.is_finite()));
    }
    if let Some(found) = completion::read(left, Some(right)) {
        assert!(found.tokens.len() <= greedy::MOST_TOKENS);
    }
    let text = greedy::of_text(bytes);
    assert_eq!(greedy::divergence(0, &text.answers[0], &text.answers[0]), None);
});
