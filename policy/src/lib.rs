//! capgate's one evaluator.
//!
//! The shim, the command line, continuous integration and reports all call [`decide::decide`]. Nothing here reads a
//! file, a clock or the environment: whatever a decision depends on arrives in [`decide::Input`].

pub mod decide;
pub mod facts;
pub mod host;
pub mod line;
pub mod nearest;
pub mod reason;
pub mod site;
