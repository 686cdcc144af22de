//! `cargo xtask test`: one line a step, nothing left out in silence.

use std::fs;
use std::io::{Write, stdout};
use std::time::Instant;

use crate::command::{Run, scratch, target};
use crate::{docs, fuzz, generated, hosting, interrupt, machine, macos, purity, reader, shim, signed};

/// How much of it.
pub struct Options {
    without: Vec<String>,
    only: Vec<String>,
    cases: u64,
    fuzz_seconds: u64,
    verbose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { without: Vec::new(), only: Vec::new(), cases: 1_000_000, fuzz_seconds: 2, verbose: false }
    }
}

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Options) -> Result<String, String>,
}

/// Cheap ones first. Each builds for the whole workspace: for one package alone, cargo would build everything again with
/// that package's features.
const STEPS: [Step; 19] = [
    Step { name: "machine", what: "what the tests need is installed", run: |o| machine::prepare(o.verbose) },
    Step { name: "fmt", what: "formatting", run: fmt },
    Step {
        name: "purity",
        what: "the pure crates are pure, the arrows point one way",
        run: |_| purity::check(),
    },
    Step { name: "links", what: "what documents point to exists", run: |_| docs::check() },
    Step { name: "clippy", what: "lints", run: clippy },
    Step { name: "generated", what: "generated files are up to date", run: generated_files },
    Step { name: "tests", what: "cargo test --workspace", run: tests },
    Step { name: "doc", what: "documentation builds without a warning", run: doc },
    Step { name: "schema", what: "the JSON Schemas, by an independent validator", run: schema },
    Step { name: "go", what: "Go's note and tlog accept what is written", run: go },
    Step { name: "reader", what: "a reader made from docs/format.md alone", run: |_| reader::check() },
    Step { name: "shim", what: "the library as it is shipped", run: |_| shim::check() },
    Step { name: "signed", what: "real signed files, against independent readers", run: |_| signed::check() },
    Step {
        name: "hosting",
        what: "publishers and clients behind servers that break",
        run: |o| hosting::check(o.verbose),
    },
    Step { name: "every-byte", what: "every byte of a registry changed", run: every_byte },
    Step { name: "reference", what: "decide against an independent model", run: reference },
    Step {
        name: "interrupt",
        what: "publish stopped at each of its system calls",
        run: |_| interrupt::check(),
    },
    Step {
        name: "macos",
        what: "built for Macs twice, and read back",
        run: |o| macos::twice_and_read_back(o.verbose),
    },
    Step {
        name: "macos-run",
        what: "the Mac's library run by an emulated processor",
        run: |o| macos::execute(o.verbose),
    },
];

const FUZZ: Step = Step {
    name: "fuzz",
    what: "fuzz targets",
    run: |options| fuzz::run(options.fuzz_seconds, &[], options.verbose),
};

/// Runs every step that the options do not leave out; an error if any failed.
pub fn run(words: &[&str]) -> Result<(), String> {
    let options = parse(words)?;
    // Logs hold this run only.
    if let Ok(entries) = fs::read_dir(scratch()) {
        let logs = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "log"));
        logs.for_each(|path| drop(fs::remove_file(path)));
    }
    let (mut passed, mut failed) = (0, Vec::new());
    let start = Instant::now();
    for step in STEPS.iter().chain([&FUZZ]).filter(|step| options.wants(step.name)) {
        print!("{:<11} {} … ", step.name, step.what);
        // Only for the eye: a closed terminal shows itself at the next line.
        let _ = stdout().flush();
        let begun = Instant::now();
        let done = (step.run)(&options);
        let seconds = begun.elapsed().as_secs_f64();
        match done {
            Ok(detail) => {
                passed += 1;
                println!("ok, {seconds:.1} s: {detail}");
            }
            Err(message) => {
                failed.push(step.name);
                println!("FAILED, {seconds:.1} s\n{message}");
            }
        }
    }
    println!("\n{:.0} s; logs in {}", start.elapsed().as_secs_f64(), scratch().display());
    if !options.without.is_empty() {
        println!("left out on request: {}", options.without.join(", "));
    }
    if !options.only.is_empty() {
        println!("only these ran on request: {}", options.only.join(", "));
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    println!("{passed} passed, {} failed", failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("{} of the steps failed", failed.len())) }
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        let is = |list: &[String]| list.iter().any(|n| n == name);
        // What a step needs is installed for a single step, too.
        let chosen = self.only.is_empty() || is(&self.only) || name == "machine";
        !is(&self.without) && chosen
    }
}

fn parse(words: &[&str]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
        match word {
            "--without" => options.without.push(step_name(value()?)?),
            "--only" => options.only.push(step_name(value()?)?),
            "--cases" => options.cases = number(value()?)?,
            "--fuzz-seconds" => options.fuzz_seconds = number(value()?)?,
            "--verbose" => options.verbose = true,
            _ => return Err(format!("there is no option `{word}`")),
        }
    }
    Ok(options)
}

fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("`{text}` is no number"))
}

fn step_name(name: &str) -> Result<String, String> {
    let names: Vec<&str> = STEPS.iter().chain([&FUZZ]).map(|step| step.name).collect();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("there is no step `{name}`; the steps are {}", names.join(", ")))
}

fn fmt(options: &Options) -> Result<String, String> {
    Run::new("cargo").args("fmt --all --check").output("fmt", options.verbose)?;
    Run::new("cargo").args("fmt --manifest-path fuzz/Cargo.toml --check").output("fmt", options.verbose)?;
    Ok("as rustfmt writes it".to_owned())
}

fn clippy(options: &Options) -> Result<String, String> {
    let line = "clippy --locked --workspace --all-targets --all-features -- -D warnings";
    Run::new("cargo").args(line).output("clippy", options.verbose)?;
    Ok("no warning".to_owned())
}

fn doc(options: &Options) -> Result<String, String> {
    let line = "doc --locked --workspace --no-deps --document-private-items";
    Run::new("cargo").args(line).env("RUSTDOCFLAGS", "-D warnings").output("doc", options.verbose)?;
    Ok("no warning".to_owned())
}

fn generated_files(_: &Options) -> Result<String, String> {
    let schema = generated::schema(&["--check"])?;
    let codes = generated::codes(&["--check"])?;
    let header = generated::header(&["--check"])?;
    Ok(format!("{schema}; {codes}; {header}"))
}

fn tests(options: &Options) -> Result<String, String> {
    let line = "test --locked --workspace -- --show-output";
    let said = Run::new("cargo").args(line).output("tests", options.verbose)?;
    let (count, ignored) = counts(&said);
    let mut told = format!("{count} tests");
    if ignored > 0 {
        told += &format!(", {ignored} ignored");
    }
    let left_out: Vec<&str> =
        said.lines().filter(|line| line.starts_with("left out: ") || line.starts_with("skipped: ")).collect();
    for line in left_out {
        told += &format!("\n            {line}");
    }
    Ok(told)
}

/// Tests that passed and that were ignored, over all `test result:` lines.
fn counts(said: &str) -> (u64, u64) {
    let lines = said.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let number = |line: &str, word: &str| {
        let part = line.split("; ").find_map(|part| part.strip_suffix(word));
        part.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    lines.fold((0, 0), |(passed, ignored), line| {
        (passed + number(line, "passed"), ignored + number(line, "ignored"))
    })
}

/// The committed documents, and a record that the command writes now.
fn schema(options: &Options) -> Result<String, String> {
    Run::new("cargo").args("build --locked --workspace --bin capgate").output("schema", options.verbose)?;
    let said = Run::new(machine::python())
        .arg("tests/schema/validate.py")
        .arg(target().join("debug/capgate"))
        .output("schema", options.verbose)?;
    Ok(said.trim().replace('\n', "; "))
}

/// The test itself leaves Go out where it is not installed; here that is a failure.
fn go(options: &Options) -> Result<String, String> {
    let line = "test --locked --workspace --test go_interop --test go_history -- --nocapture";
    let said = Run::new("cargo").args(line).output("go", options.verbose)?;
    if let Some(line) = said.lines().find(|line| line.contains("left out")) {
        return Err(line.to_owned());
    }
    Ok(format!("{} tests", counts(&said).0))
}

fn every_byte(options: &Options) -> Result<String, String> {
    let line = "test --locked --release --workspace --test every_byte -- --nocapture";
    let said =
        Run::new("cargo").args(line).env("CAPGATE_EVERY_BYTE", "1").output("every-byte", options.verbose)?;
    last_line_with(&said, " changes in ")
}

fn reference(options: &Options) -> Result<String, String> {
    let line = "test --locked --release --workspace --test reference -- --nocapture";
    let said = Run::new("cargo")
        .args(line)
        .env("CAPGATE_CASES", &options.cases.to_string())
        .output("reference", options.verbose)?;
    last_line_with(&said, " cases")
}

/// A suite that did not say what it did has not run.
fn last_line_with(said: &str, word: &str) -> Result<String, String> {
    let line = said.lines().rev().find(|line| line.contains(word));
    line.map(|line| line.trim().to_owned()).ok_or_else(|| format!("the suite never said `{word}`:\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_test_programs_add_up() {
        let said = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured\nx\n\
                    test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured\n";
        assert_eq!(counts(said), (15, 1));
    }

    #[test]
    fn unknown_steps_and_options_are_refused() {
        assert!(parse(&["--without", "fuzz", "--cases", "10_000"]).is_ok());
        for words in [&["--without", "fuz"][..], &["--without"], &["--cases", "many"], &["--fast"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
