//! The host's statement, carried from the shared folder into the prefix once it counts.

use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use super::target::Target;
use crate::cmd::host::carry as carry_one;
use crate::cmd::prefix;
use crate::exit::Failure;

/// What became of it.
#[derive(Debug, Default, Serialize)]
pub struct Carried {
    /// Where the site policy says that it is.
    pub from: Option<String>,
    /// Whether the prefix holds it now.
    pub accepted: bool,
    /// Why not.
    pub problem: Option<String>,
}

/// Carries it, where the site policy names one. One that does not count is a problem to be said, and no failure: the
/// registry is brought up to date all the same.
pub fn carry(target: &Target, now: Timestamp) -> Result<Carried, Failure> {
    let Some(prefix) = target.prefix() else { return Ok(Carried::default()) };
    let Some(from) = prefix::site(prefix)?.and_then(|site| site.statement) else {
        return Ok(Carried::default());
    };
    let done = carry_one(Path::new(&from), prefix, now);
    let (accepted, problem) = match done {
        Ok(()) => (true, None),
        Err(failure) => (false, Some(failure.message)),
    };
    Ok(Carried { from: Some(from), accepted, problem })
}
