//! The injected library in real processes: LD_PRELOAD for DYLD_INSERT_LIBRARIES, GNU's Objective-C runtime with a
//! `_MTLDevice` hierarchy for Metal, and `tests/standin` for what only a Mac's kernel and loader answer. Nothing here ran
//! on macOS.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

mod abi;
mod abuse;
mod attack;
mod built;
mod children;
mod devices;
mod doctor;
mod guest;
mod identity;
mod images;
mod installed;
mod machofile;
mod proof;
mod reasons;
mod rotated;
mod run;
