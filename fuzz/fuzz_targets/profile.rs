//! Linting names every problem at a place inside the file; what lints clean reads, and has the keys it says. What is recalled
//! of a profile is what it says.
#![no_main]

use capgate_registry::document::{Severity, position};
use capgate_registry::profile::{MAX_BYTES, Profile, Recalled, Verdict, lint, recall};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (profile, problems) = lint(bytes);
    for problem in &problems {
        assert!(problem.span.start <= problem.span.end && problem.span.end <= bytes.len(), "{problem:?}");
        let (line, column) = position(bytes, problem.span.start);
        assert!(line >= 1 && column >= 1);
        assert!(!problem.message.chars().any(char::is_control), "{problem:?}");
    }
    let malformed = problems.iter().any(|problem| problem.severity == Severity::Malformed);
    assert_eq!(profile.is_none(), malformed);
    assert_eq!(Profile::parse(bytes).ok(), profile);
    let Some(profile) = profile else { return };
    assert!(bytes.len() <= MAX_BYTES);
    let combinations = profile.combinations();
    let keys: Vec<_> = combinations.iter().map(|combination| combination.key()).collect();
    assert_eq!(profile.keys(), if keys.is_empty() { vec![profile.id.key()] } else { keys });
    if let Some(recalled) = std::str::from_utf8(bytes).ok().and_then(recall) {
        let (id, supersedes) = (profile.id.clone(), profile.supersedes.clone());
        assert_eq!(recalled, Recalled { id, keys: profile.keys(), supersedes });
    }
    assert!(combinations.iter().all(|combination| combination.canonical().lines().count() == 5));
    if problems.is_empty() && profile.verdict == Verdict::Override {
        assert!(!profile.overrides.is_empty());
        for set in &profile.overrides {
            assert!(set.values.within_bounds() && profile.evidence_for(set.values).count() > 0);
        }
    }
});
