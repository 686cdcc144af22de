//! Publishers and clients behind a real web server and a real S3 server that break.

use std::env;

use crate::command::Run;
use crate::machine;

/// Publications and clients where the environment names no other numbers: the full count is 200 and 20.
const USUAL: [(&str, &str); 2] = [("CAPGATE_PUBLISHES", "16"), ("CAPGATE_CLIENTS", "5")];

/// Runs the tests behind servers, buckets included, and returns their figures.
pub fn check(verbose: bool) -> Result<String, String> {
    let server = machine::s3s_fs(verbose)?;
    // What the feature adds is tested nowhere else, its parts included.
    let line = "test --locked --workspace --features capgate/cloud --lib --test hosting -- --show-output";
    let mut run = Run::new("cargo").args(line).env("CAPGATE_S3S_FS", &server.display().to_string());
    for (name, usual) in USUAL {
        run = run.env(name, &env::var(name).unwrap_or_else(|_| usual.to_owned()));
    }
    let said = run.output("hosting", verbose)?;
    if let Some(line) = said.lines().find(|line| line.starts_with("left out: ")) {
        return Err(line.to_owned());
    }
    let figures: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("hosting: ")).collect();
    if figures.len() != 4 {
        return Err(format!(
            "two places were to be tried, and {} lines say what was done:\n{said}",
            figures.len()
        ));
    }
    Ok(figures.join("\n            "))
}
