//! Names that tell tests apart.

use std::collections::{BTreeMap, BTreeSet};

use super::Test;

/// Settings by name.
type Settings = BTreeMap<String, String>;

/// The settings in which tests of a list differ.
pub fn varying<'a>(tests: impl Iterator<Item = &'a Settings> + Clone) -> BTreeSet<&'a str> {
    let names: BTreeSet<&str> = tests.clone().flat_map(BTreeMap::keys).map(String::as_str).collect();
    let varies = |name: &&str| {
        let mut values = tests.clone().map(|settings| settings.get(*name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    names.into_iter().filter(varies).collect()
}

/// The work, and in brackets the settings that tell it from other tests.
pub fn name(test: Test, settings: &Settings, varying: &BTreeSet<&str>) -> String {
    let shown: Vec<String> =
        varying.iter().filter_map(|name| Some(format!("{name}={}", settings.get(*name)?))).collect();
    if shown.is_empty() { test.to_string() } else { format!("{test} ({})", shown.join(", ")) }
}
