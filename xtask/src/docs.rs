//! Documents: what they point to must exist.

use std::fs;
use std::path::Path;

const DOCUMENTS: [&str; 15] = [
    "README.md",
    "CHANGELOG.md",
    "keys/README.md",
    "docs/format.md",
    "docs/policy.md",
    "docs/operations.md",
    "docs/maintaining.md",
    "docs/macos.md",
    "docs/shim.md",
    "docs/doctor.md",
    "docs/threat-model.md",
    "docs/benchmarks.md",
    "docs/correctness.md",
    "docs/evidence-codes.md",
    "registry/tests/museum/README.md",
];

/// Checks every link to a file and every test or case that a document names.
pub fn check() -> Result<String, String> {
    let mut documents: Vec<String> = DOCUMENTS.iter().map(|&path| path.to_owned()).collect();
    let notes = fs::read_dir("docs/design").map_err(|e| format!("docs/design: {e}"))?;
    documents.extend(notes.flatten().map(|entry| entry.path().display().to_string()));
    documents.sort();
    let (mut links, mut tests, mut faults) = (0, 0, Vec::new());
    for document in &documents {
        let text = fs::read_to_string(document).map_err(|e| format!("{document}: {e}"))?;
        let folder = Path::new(document).parent().unwrap_or(Path::new(""));
        for target in link_targets(&text) {
            links += 1;
            if !folder.join(target).exists() {
                faults.push(format!("{document}: the link to `{target}` leads nowhere"));
            }
        }
        for (file, test) in named_tests(&text) {
            tests += 1;
            let source = fs::read_to_string(file).unwrap_or_default();
            let found = test.is_none_or(|test| source.contains(&format!("fn {test}(")));
            if source.is_empty() || !found {
                faults.push(format!("{document}: there is no `{file}` with `{}`", test.unwrap_or_default()));
            }
        }
    }
    if faults.is_empty() {
        Ok(format!("{} documents, {links} links and {tests} named tests exist", documents.len()))
    } else {
        Err(faults.join("\n"))
    }
}

/// Targets of `[…](target)` that are files here, without their fragment.
fn link_targets(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    files.filter_map(|target| target.split('#').next()).collect()
}

/// Names in backticks such as `tests/a.rs::name` and `policy/tests/cases/a.toml`.
fn named_tests(text: &str) -> Vec<(&str, Option<&str>)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|word| match word.split_once(".rs::") {
            Some((file, test)) => Some((word.get(..file.len() + 3)?, Some(test))),
            None => {
                (word.starts_with("policy/tests/cases/") && word.ends_with(".toml")).then_some((word, None))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_tests_are_found() {
        let text = "[a](b.md#c) [d](https://e) `tests/f.rs::g`, `policy/tests/cases/h.toml` and `tests/i.rs`";
        assert_eq!(link_targets(text), ["b.md"]);
        assert_eq!(named_tests(text), [("tests/f.rs", Some("g")), ("policy/tests/cases/h.toml", None)]);
    }
}
