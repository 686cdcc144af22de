//! `capgate witness`: somebody else who saw the log grow, and signs no two histories of it.

mod ask;
mod cosign;
mod current;
mod init;
mod memory;
mod serve;
mod status;
mod watched;

pub use ask::{after, run as ask};
pub use cosign::run as cosign;
pub use init::run as init;
pub use serve::run as serve;
pub use status::run as status;
