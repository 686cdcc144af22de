//! What an installed prefix holds, and the list by which it is taken away again.

mod manifest;

pub use manifest::{MAX_BYTES, Manifest};

/// The list of what was installed.
pub const MANIFEST: &str = "etc/capgate/installed";
/// What capgate itself writes later, and so takes away whatever it holds.
pub const WRITTEN_LATER: [&str; 3] = ["etc/capgate/host.note", "etc/capgate/seen", "etc/capgate/proof"];
/// Where the state is.
pub const STATE: &str = "etc/capgate";
/// What sync fetches and verifies.
pub const REGISTRY: &str = "etc/capgate/registry";
/// The decision logs, one file for each user.
pub const LOGS: &str = "var/log/capgate";
/// Every folder of a prefix, each after the one that it is in.
pub const FOLDERS: [&str; 9] = ["bin", "lib", "include", "etc", STATE, REGISTRY, "var", "var/log", LOGS];
/// Name of the library.
pub use capgate_guest::prefix::LIBRARY;

/// Permission bits of the folder of logs. Where root installs, every user logs there, and none may touch another's file.
pub fn log_mode(by_root: bool) -> u32 {
    if by_root { 0o1777 } else { 0o700 }
}
