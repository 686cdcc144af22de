//! The decision log: one JSON object a line.

mod line;
mod read;
mod write;

pub use line::{Circumstances, Line};
pub use read::read;
pub use write::append;
