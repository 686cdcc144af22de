//! `capgate trust`: who is trusted, and the offline way to the next version.
//!
//! A draft is the text of the next version in a file, signed by one key holder after the other, each where their key is
//! kept; the last one puts it in force.

mod changes;
mod draft;
mod edit;
mod effect;
mod rotate;
mod show;
mod sign;

pub use edit::{add_key, compromised, draft, remove_key};
pub use rotate::run as rotate;
pub use show::run as show;
pub use sign::run as sign;
