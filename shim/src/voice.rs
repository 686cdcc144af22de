//! The library's one voice: lines on standard error, each in one write.
#![allow(unsafe_code, reason = "a plain write(2): no lock of the process is taken, and no failure can panic")]

use std::sync::OnceLock;

use capgate_guest::system;
use capgate_policy::decide::{Decision, Grant, Refusal};

use crate::environment;

/// Longest line, in bytes: what a pipe takes as a whole on every system.
const LONGEST: usize = 512;

/// Where standard error led as the process started; nothing where nobody is to hear anything.
static EAR: OnceLock<Option<(u64, u64)>> = OnceLock::new();

/// Remembers who listens, before the program can change it: `CAPGATE_QUIET` silences the library, and a descriptor that
/// was closed may be a file of the program's own later.
pub fn listen() {
    EAR.get_or_init(|| if environment::is_set("CAPGATE_QUIET") { None } else { system::place_of(2) });
}

/// Says a line where it is taken at once. Nobody listening is no error.
fn say(line: &str) {
    let ear = EAR.get().copied().flatten();
    if ear.is_none() || system::writable(2) != ear {
        return;
    }
    let mut line = format!("[capgate] {line}");
    if line.len() >= LONGEST {
        let end = (0..LONGEST - 4).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    line.push('\n');
    // SAFETY: the bytes live through the call.
    let _ = system::unsignalled(|| unsafe { libc::write(2, line.as_ptr().cast(), line.len()) });
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
