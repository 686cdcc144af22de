//! Rule 8 and the arrows of the design: what the pure crates may use, and which crate may use which.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Run;

/// What reaches the world. The pure crates get all of it as arguments.
const IMPURE: [&str; 22] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "thread::sleep",
    "std::os",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "SystemTime",
    "Instant",
    "Timestamp::now",
    "Zoned::now",
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
    "dbg!",
    "getrandom",
    "OsRng",
    "thread_rng",
    "extern \"C\"",
];

/// Crates that a shim must not carry, and the reason that `cargo tree` is asked at all: features add up.
const NOT_IN_A_SHIM: [&str; 12] = [
    "clap",
    "tokio",
    "ureq",
    "reqwest",
    "rustls",
    "ring",
    "object_store",
    "tracing",
    "sysinfo",
    "getrandom",
    "rustix",
    "object",
];
/// The same for the pure crates that it is made of; it writes its log with serde_json.
const NOT_IN_THE_CORE: [&str; 6] = ["serde_json", "libc", "ureq", "rustls", "ring", "object_store"];

/// Checks everything and says what was checked.
pub fn check() -> Result<String, String> {
    let mut faults = Vec::new();
    let mut files = 0;
    for folder in ["registry/src", "policy/src", "macho/src", "ssh/src"] {
        for path in sources(Path::new(folder))? {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            files += 1;
            faults.extend(
                impure_lines(&text).map(|(line, word)| format!("{}:{line}: uses `{word}`", path.display())),
            );
        }
    }
    let trees = [
        ("capgate-registry", "", &["capgate-policy", "capgate"][..]),
        ("capgate-registry", "--no-default-features", &NOT_IN_THE_CORE),
        ("capgate-policy", "", &["capgate", "capgate-guest"]),
        ("capgate-policy", "--no-default-features", &NOT_IN_THE_CORE),
        ("capgate-macho", "", &["capgate", "capgate-guest", "capgate-registry", "capgate-policy", "libc"]),
        ("capgate-ssh", "", &["capgate", "capgate-guest", "capgate-registry", "capgate-policy", "libc"]),
        ("capgate-guest", "", &["capgate", "capgate-shim"]),
        ("capgate-guest", "", &NOT_IN_A_SHIM),
        ("capgate-shim", "", &["capgate"]),
        ("capgate-shim", "", &NOT_IN_A_SHIM),
    ];
    for (package, options, unwanted) in trees {
        for name in dependencies(package, options)?.iter().filter(|name| unwanted.contains(&name.as_str())) {
            faults.push(format!("`{package}` {options} depends on `{name}`"));
        }
    }
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    Run::new("cargo")
        .args("check --quiet -p capgate-registry -p capgate-policy --no-default-features")
        .output("purity", false)?;
    Ok(format!(
        "{files} files of the pure crates touch nothing; {} dependency trees are as they must be",
        trees.len()
    ))
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let problem = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Lines before the file's tests that use something impure. Test modules stand last in every file here.
fn impure_lines(text: &str) -> impl Iterator<Item = (usize, &'static str)> {
    let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    (1..).zip(code).filter_map(|(number, line)| {
        let code = line.split("//").next().unwrap_or_default();
        let used = IMPURE.iter().find(|word| uses(code, word));
        used.map(|word| (number, *word))
    })
}

/// Tells whether `word` stands in `code` and is not the end or the beginning of a longer name.
fn uses(code: &str, word: &str) -> bool {
    let name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code.get(..at).and_then(|text| text.chars().next_back());
        let after = code.get(at + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(name) && !after.is_some_and(name)
    })
}

/// Names of all crates that a package is built with, tests apart.
fn dependencies(package: &str, options: &str) -> Result<Vec<String>, String> {
    let line = format!("tree --locked -e normal --prefix none --format {{p}} -p {package} {options}");
    let said = Run::new("cargo").args(&line).output("purity", false)?;
    let names = said.lines().skip(1).filter_map(|line| line.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_where_they_stand_alone() {
        let text =
            "use std::fs;\nlet instant: Instants = x; // Instant\nInstant::now()\n#[cfg(test)]\nstd::env\n";
        let found: Vec<_> = impure_lines(text).collect();
        assert_eq!(found, [(1, "std::fs"), (3, "Instant")]);
    }
}
