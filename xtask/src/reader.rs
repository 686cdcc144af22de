//! A registry that the real command made, read by a program that knows only docs/format.md.

use crate::command::Run;
use crate::interrupt::{found, registry::STEPS};
use crate::machine;

/// What the reader must find after every step.
const EXPECTED: &str = "m1-ultra-25g76-25f84-llama-bench-b10167=revoked m1-ultra-25g76-25f84-llama-bench-b10359=live \
                        m1-ultra-25g76-25f84-mlx-lm-0-31-3=stock";

/// Makes a registry, runs every step on it and has it read.
pub fn check() -> Result<String, String> {
    let registry = found("reader")?;
    for step in STEPS {
        registry.run(step)?;
    }
    let (folder, root) = registry.place();
    let run = Run::new(machine::python()).arg("tests/reader/read.py").arg(folder);
    let said = run.arg(root).arg("2026-12-02T00:00:00+00:00").args(EXPECTED).output("reader", false)?;
    Ok(said.trim().to_owned())
}
