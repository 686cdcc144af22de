//! Installing and uninstalling a prefix through the real command.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod accepted;
mod followed;
mod laid_out;
mod refused;
mod site;
#[path = "../support/mod.rs"]
mod support;
mod taken_away;
mod witnessed;
