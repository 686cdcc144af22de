//! `--accept`: a verified statement goes into the prefix, and an older one never in place of a newer.

use std::ffi::OsStr;

use capgate_guest::prefix::Prefix;
use capgate_policy::host::{HostState, HostStatement, MAX_STATEMENT};
use jiff::Timestamp;

use super::verify::{Believed, signer};
use crate::cmd::prefix;
use crate::exit::Failure;
use crate::world::place::Place;

const NAME: &str = "host.note";

/// A statement that counts.
pub struct Accepted<'a> {
    pub bytes: &'a [u8],
    pub statement: &'a HostStatement,
    pub signer: Option<&'a str>,
}

/// Puts it into the prefix, and says where.
pub fn accept(prefix: &Prefix, new: &Accepted<'_>, by: &Believed, now: Timestamp) -> Result<String, Failure> {
    let path = prefix.state(NAME);
    let shown = path.display().to_string();
    let failed = |what: String| Failure::failed(format!("`{shown}` cannot be written: {what}"));
    let folder = path.parent().unwrap_or(prefix.root());
    let place = Place::open(folder).map_err(|e| failed(e.to_string()))?;
    // What is compared with the old statement must still be older when it is replaced.
    let lock = Place::open(folder).and_then(Place::lock);
    let _lock = lock.map_err(|e| failed(format!("{e}; another `host verify --accept` may be at work")))?;
    match prefix.read(NAME, MAX_STATEMENT as u64 * 2) {
        Ok(old) if old == new.bytes => return Ok(shown),
        Ok(old) => refuse_older(&old, new, by, now)?,
        Err(e) if e.missing => {}
        Err(e) => return Err(prefix::unusable(&e)),
    }
    place.replace(OsStr::new(NAME), new.bytes, 0o644).map_err(|e| failed(e.to_string()))?;
    Ok(shown)
}

/// Whoever can write the shared folder could bring back a statement that was true once. Another host's is another
/// matter: guests move.
fn refuse_older(old: &[u8], new: &Accepted<'_>, by: &Believed, now: Timestamp) -> Result<(), Failure> {
    let HostState::Signed(before) = HostState::verify(old, &by.keys, &by.origin) else { return Ok(()) };
    let same_host = signer(old, &by.keys).as_deref() == new.signer;
    // One from the future was signed while a clock was wrong, and must not keep out those of the right time.
    if !same_host || before.issued <= new.statement.issued || now < before.issued {
        return Ok(());
    }
    let message = format!(
        "it was issued at {}, and one of {} by the same host was accepted before",
        new.statement.issued, before.issued
    );
    Err(Failure::invalid(message).help("see why the shared folder holds an old statement"))
}
