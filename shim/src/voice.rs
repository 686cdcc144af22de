//! The library's one voice: lines on standard error, each in one write.
#![allow(unsafe_code, reason = "a plain write(2): no lock of the process is taken, and no failure can panic")]

use capgate_policy::decide::{Decision, Grant, Refusal};

use crate::environment;

/// Says a line, unless `CAPGATE_QUIET` is set. Nobody listening is no error.
fn say(line: &str) {
    if environment::is_set("CAPGATE_QUIET") {
        return;
    }
    let line = format!("[capgate] {line}\n");
    // SAFETY: the bytes live through the call.
    let _ = unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// What was decided as the process started.
pub fn decided(decision: &Decision, id: &str) {
    match decision {
        Decision::Grant(grant) => say(&format!(
            "Granted (appleFamilyMax={} maxThreadgroupMemory={} profile={}), for each device that is as tested; \
             decision {id}",
            grant.values.apple_family_max, grant.values.max_threadgroup_memory, grant.profile
        )),
        Decision::Stock(refusal) => stock(refusal, id),
    }
}

/// Why answers stay Apple's own.
pub fn stock(refusal: &Refusal, id: &str) {
    say(&format!("Stock: {}: {}; decision {id}", refusal.reason, refusal.detail));
}

/// The answers of a device were changed and read back.
pub fn enabled(name: &str, grant: &Grant) {
    let stock = grant.stock;
    let family = stock.apple_family.map_or_else(|| "none".to_owned(), |family| family.to_string());
    say(&format!(
        "Enabled for {name} (appleFamilyMax={} maxThreadgroupMemory={} stock={family}/{} profile={})",
        grant.values.apple_family_max,
        grant.values.max_threadgroup_memory,
        stock.max_threadgroup_memory,
        grant.profile
    ));
}
