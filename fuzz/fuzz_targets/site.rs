//! A site policy: what parses has no problem that makes it unreadable, and every problem stands inside the file.
#![no_main]

use capgate_policy::site::{MAX_POLICY, SitePolicy, check};
use capgate_registry::document::Severity;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let problems = check(bytes, "2026-12-01T00:00:00Z".parse().unwrap());
    assert!(
        problems
            .iter()
            .all(|problem| problem.span.start <= problem.span.end && problem.span.end <= bytes.len())
    );
    let malformed = problems.iter().any(|problem| problem.severity == Severity::Malformed);
    match SitePolicy::parse(bytes) {
        Ok(policy) => {
            assert!(!malformed && bytes.len() <= MAX_POLICY);
            assert!(policy.deny.iter().all(|rule| !rule.when.is_empty()), "a rule that denies everything");
        }
        Err(problems) => assert!(malformed && !problems.is_empty()),
    }
});
