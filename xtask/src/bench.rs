//! `cargo xtask bench`: the benchmarks, and where their figures belong.

use crate::command::Run;

/// Runs every benchmark of the workspace; figures go to the terminal, and from there into docs/benchmarks.md.
pub fn run() -> Result<(), String> {
    Run::new("cargo").args("bench --workspace --benches").output("bench", true)?;
    println!("\ncopy the medians, with the machine, to docs/benchmarks.md");
    Ok(())
}
