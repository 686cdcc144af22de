//! `capgate doctor` through the real command: on Mach-O files that the tests write, and on prefixes with a stand-in for a
//! Mac's kernel. Nothing here ran on macOS. `tests/shim/doctor.rs` asks it beside the library itself, and
//! `tests/macho/signed.py` about real signed files.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

#[path = "../../macho/tests/writer/mod.rs"]
mod writer;

#[path = "../support/mod.rs"]
mod support;

mod found;
mod images;
mod injection;
mod launchers;
mod malformed;
mod place;
mod running;
