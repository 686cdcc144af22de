//! The little HTTP that a witness and those who ask it need.

mod ask;
mod server;

pub use ask::{Answer, Asker};
pub use server::{Asked, Given, Server};
