//! `capgate bench` through the real command and the real library, with a stand-in for llama-bench that asks the stand-in
//! for Metal. Nothing here ran on macOS: `tests/standin` answers for a Mac's kernel.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

#[allow(dead_code, reason = "the tests of the library use all of it")]
#[path = "../shim/built.rs"]
mod built;
#[allow(dead_code, reason = "the tests of the library use all of it")]
#[path = "../shim/guest.rs"]
mod guest;

mod beside;
mod checked;
mod contention;
mod faults;
mod lab;
mod measured;
mod merged;
#[allow(dead_code, reason = "the tests of servers use all of it")]
#[path = "../hosting/random.rs"]
mod random;
mod resumed;
mod trials;
