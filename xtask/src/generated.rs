//! Files that are made from the code, and the check that they are up to date.

use std::fs;

use capgate_registry::evidence::codes::{Code, Severity};
use capgate_registry::profile::schema;

const SCHEMA: &str = "docs/schema/profile.schema.json";
const CODES: &str = "docs/evidence-codes.md";
const HEADER: &str = "include/capgate.h";

/// `cargo xtask schema [--check]`
pub fn schema(options: &[&str]) -> Result<String, String> {
    let text = serde_json::to_string_pretty(&schema::profile()).map_err(|e| e.to_string())?;
    settle(SCHEMA, &(text + "\n"), options)
}

/// `cargo xtask codes [--check]`
pub fn codes(options: &[&str]) -> Result<String, String> {
    settle(CODES, &codes_document(), options)
}

/// `cargo xtask header [--check]`
pub fn header(options: &[&str]) -> Result<String, String> {
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        header: Some(HEADER_START.to_owned()),
        include_guard: Some("CAPGATE_H".to_owned()),
        cpp_compat: true,
        documentation_style: cbindgen::DocumentationStyle::C,
        style: cbindgen::Style::Tag,
        no_includes: true,
        sys_includes: vec!["stdint.h".to_owned()],
        line_length: 100,
        ..cbindgen::Config::default()
    };
    let built = cbindgen::Builder::new().with_config(config).with_src("shim/src/abi.rs").generate();
    let mut text = Vec::new();
    built.map_err(|e| format!("shim/src/abi.rs: {e}"))?.write(&mut text);
    let text = String::from_utf8(text).map_err(|e| e.to_string())?;
    // Safety sections are for Rust; every C function has such promises.
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("# Safety")).collect();
    settle(HEADER, &(kept.join("\n") + "\n"), options)
}

const HEADER_START: &str = "\
/* capgate: asks whether this process may see other answers of its GPU, and which.
 *
 * Made from the code by `cargo xtask header`. */";

fn codes_document() -> String {
    let mut text = "\
# Evidence codes

What `capgate evidence` can say about a file or a bundle. A code is never renamed and never given another meaning.
A warning is shown and the evidence counts; a refusal means that it does not count. The weight below is the usual one:
a few codes weigh less where the verdict sought is stock.

Made from the code by `cargo xtask codes`.
"
    .to_owned();
    for (severity, heading) in [(Severity::Refusal, "Refusals"), (Severity::Warning, "Warnings")] {
        text += &format!("\n## {heading}\n\n| code | meaning |\n|---|---|\n");
        for code in Code::ALL.iter().filter(|code| code.severity() == severity) {
            text += &format!("| `{code}` | {} |\n", code.meaning().replace('|', "\\|"));
        }
    }
    text
}

/// Writes a file, or with `--check` only compares.
fn settle(path: &str, text: &str, options: &[&str]) -> Result<String, String> {
    let found = fs::read_to_string(path).unwrap_or_default();
    match options {
        [] => {
            fs::write(path, text).map_err(|e| format!("{path}: {e}"))?;
            Ok(format!("{path}: {}", if found == text { "was up to date" } else { "written" }))
        }
        ["--check"] if found == text => Ok(format!("{path} is up to date")),
        ["--check"] => {
            Err(format!("{path} is not what the code says; write it with `cargo xtask {}`", word(path)))
        }
        _ => Err("the only option is `--check`".to_owned()),
    }
}

fn word(path: &str) -> &'static str {
    match path {
        SCHEMA => "schema",
        HEADER => "header",
        _ => "codes",
    }
}
