//! The library as it is shipped, in the tests that development builds run in: optimised and linked as a whole.

use crate::command::{Run, scratch, target};

/// Builds it, runs every test of it, and says how large it is.
pub fn check() -> Result<String, String> {
    Run::new("cargo").args("build --locked --profile shim --package capgate-shim").output("shim", false)?;
    let library = std::path::absolute(target().join("shim/libcapgate.so")).map_err(|e| e.to_string())?;
    let run = Run::new("cargo").args("test --locked --workspace --test shim");
    let said = run.env("CAPGATE_SHIM_LIBRARY", &library.display().to_string()).output("shim", false)?;
    let passed = said.lines().find_map(|line| line.strip_prefix("test result: ok. ")?.split_once(" passed"));
    let passed = passed.map(|(count, _)| count).filter(|count| *count != "0");
    let passed = passed.ok_or("no test of the library ran; see target/gate/shim.log")?;
    let stripped = scratch().join("libcapgate.so");
    Run::new("strip").arg("-o").arg(&stripped).arg(&library).output("shim", false)?;
    let size = stripped.metadata().map_err(|e| e.to_string())?.len();
    Ok(format!("{passed} tests of the optimised library, {} KiB stripped", size / 1024))
}
