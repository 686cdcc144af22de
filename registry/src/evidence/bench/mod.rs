//! How `capgate bench` measures, as far as it is no I/O: which words a program is started with, in which order the arms
//! run, when a round was contended, and what is known of a bundle that is being made.
//!
//! The bundle itself is the one that [`super::manifest`] describes and [`super::judge`] judges.

pub mod arguments;
pub mod check;
pub mod contention;
pub mod label;
pub mod machine;
mod manifest;
pub mod merge;
pub mod order;
pub mod state;
pub mod trial;
