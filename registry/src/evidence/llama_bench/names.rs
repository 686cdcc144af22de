//! Names that tell tests apart.

use std::collections::{BTreeMap, BTreeSet};

use super::Test;

/// A name for each test: the work, and in brackets the settings in which tests of the list differ.
pub fn distinct_names(tests: &[(Test, &BTreeMap<String, String>)]) -> Vec<String> {
    let names: BTreeSet<&String> = tests.iter().flat_map(|(_, settings)| settings.keys()).collect();
    let varies = |name: &&String| {
        let mut values = tests.iter().map(|(_, settings)| settings.get(*name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let varying: Vec<&String> = names.into_iter().filter(varies).collect();
    tests
        .iter()
        .map(|(test, settings)| {
            let shown: Vec<String> = varying
                .iter()
                .map(|name| format!("{name}={}", settings.get(*name).map_or("", String::as_str)))
                .collect();
            if shown.is_empty() { test.to_string() } else { format!("{test} ({})", shown.join(", ")) }
        })
        .collect()
}
