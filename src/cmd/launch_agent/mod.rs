//! `capgate launch-agent`: agents of launchd that start programs through `capgate run`, one agent for each workload.

mod check;
mod place;
mod remove;
mod task;
mod write;

pub use check::run as check;
pub use remove::run as remove;
pub use write::run as write;
