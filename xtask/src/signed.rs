//! Real signed files for Apple's chips, fetched by name, and what the doctor says of each.

use crate::command::{Run, scratch, target};
use crate::machine;

/// Builds the command and compares its answers with those of independent readers.
pub fn check() -> Result<String, String> {
    Run::new("cargo").args("build --locked --bin capgate").output("signed", false)?;
    let run = Run::new(machine::python()).arg("tests/macho/signed.py").arg(target().join("debug/capgate"));
    let said = run.arg(scratch().join("signed")).output("signed", false)?;
    Ok(said.trim().to_owned())
}
