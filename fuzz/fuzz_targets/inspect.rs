//! Every reader of evidence, on any bytes: a file serves exactly if nothing is refused, and says the same twice.
#![no_main]

use capgate_registry::evidence::identify::inspect;
use capgate_registry::evidence::{environment, json, llama_bench, log_dialect, mlx, probe};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let inspection = inspect("file", bytes);
    assert_eq!(inspection.serves, inspection.refusals.is_empty());
    // Not `==`: a field may be no number.
    assert_eq!(format!("{inspection:?}"), format!("{:?}", inspect("file", bytes)));
    for finding in inspection.refusals.iter().chain(&inspection.warnings) {
        assert!(!finding.message.chars().any(char::is_control), "{finding:?}");
    }
    let _ = (llama_bench::read(bytes), log_dialect::read(bytes), mlx::read(bytes), probe::read(bytes));
    let _ = (environment::read(bytes), json::value(bytes));
});
