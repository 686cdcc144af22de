//! The decision log: one JSON object a line.

mod read;

pub use capgate_guest::log::append;
pub use capgate_policy::line::{Circumstances, Line, Stage};
pub use read::read;
