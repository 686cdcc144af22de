//! A revocation that reads is written, and reads as the same again.
#![no_main]

use capgate_registry::profile::Revocation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(revocation) = Revocation::parse(bytes) else { return };
    assert_eq!(Revocation::parse(revocation.to_toml().as_bytes()).as_ref(), Ok(&revocation));
});
