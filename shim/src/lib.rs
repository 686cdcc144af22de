//! The injected library. As a process starts it asks the registry of its own prefix whether this program may see other
//! answers on this machine, and changes both or neither; at the slightest doubt the process sees Apple's own.
//!
//! ```text
//! constructor   environment cleaned -> facts, state, decision -> one line in the log, one on standard error
//! on a grant    Metal loaded -> `initGPUFamilySupport` of `_MTLDevice` replaced
//! each device   both answers replaced on its own class, forwarding -> row 14 -> second line -> switched on, read back
//! ```
//!
//! Rule 10: it never panics out, aborts, blocks, spawns, opens a socket or prints on standard output. Every entry from
//! outside runs inside `catch_unwind`, and whatever is caught leaves the answers as they are.

mod abi;
mod devices;
mod environment;
mod hooks;
mod images;
mod runtime;
mod start;
mod voice;

/// What decides, as it stands in the log.
const BY: &str = concat!("libcapgate ", env!("CARGO_PKG_VERSION"));

/// Runs `work` and swallows a panic, which would otherwise end a process that is not ours.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok()
}
