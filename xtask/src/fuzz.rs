//! Runs the fuzz targets from seeds that are made of the fixtures.

use std::fs;

use crate::command::{Run, scratch};
use crate::machine;

/// Cargo, with the tools that the tests installed on its path.
pub fn cargo() -> Run {
    let path = std::env::var("PATH").unwrap_or_default();
    Run::new("cargo").env("PATH", &format!("{path}:{}", machine::tools().join("bin").display()))
}

/// `cargo xtask fuzz [SECONDS] [TARGET]...`
pub fn run_alone(options: &[&str]) -> Result<String, String> {
    let (seconds, targets) = match options {
        [first, rest @ ..] => match first.parse() {
            Ok(seconds) => (seconds, rest),
            Err(_) => (60, options),
        },
        [] => (60, options),
    };
    machine::prepare(true)?;
    run(seconds, targets, true)
}

/// Runs each target that is named, or all, for some seconds.
pub fn run(seconds: u64, wanted: &[&str], verbose: bool) -> Result<String, String> {
    seed(verbose)?;
    let targets = cargo().args("fuzz list").output("fuzz", false)?;
    let targets: Vec<&str> =
        targets.lines().filter(|name| wanted.is_empty() || wanted.contains(name)).collect();
    if targets.is_empty() {
        return Err("there is no such fuzz target".to_owned());
    }
    cargo().args("fuzz build -s none").output("fuzz", verbose)?;
    let mut executions = 0;
    for target in &targets {
        let started =
            format!("fuzz run -s none {target} -- -max_total_time={seconds} -timeout=20 -rss_limit_mb=2048");
        let said =
            cargo().args(&started).args("-max_len=65536 -print_final_stats=1").output("fuzz", verbose)?;
        let count = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let count: u64 = count.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        if count == 0 {
            return Err(format!(
                "the target `{target}` ran nothing; see {}",
                scratch().join("fuzz.log").display()
            ));
        }
        executions += count;
    }
    Ok(format!("{} targets, {seconds} s each, {executions} inputs, no crash", targets.len()))
}

/// Fills fuzz/corpus with seeds. What earlier runs found stays there.
fn seed(verbose: bool) -> Result<(), String> {
    fs::create_dir_all("fuzz/corpus").map_err(|e| format!("fuzz/corpus: {e}"))?;
    Run::new("python3").arg("fuzz/seeds.py").output("fuzz", verbose)?;
    let line = "run --quiet --locked -p capgate-macho --example seeds -- fuzz/corpus/macho";
    Run::new("cargo").args(line).output("fuzz", verbose).map(drop)
}
