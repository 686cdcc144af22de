//! A host statement reads, is written, and reads as the same again; bytes that no host key signed are never believed.
#![no_main]

use capgate_policy::host::{HostState, HostStatement};
use capgate_registry::keys::SigningKey;
use capgate_registry::note::{self, Kind, Origin};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let key = SigningKey::from_seed("host.test", [7; 32]).unwrap();
    let keys = [key.verifier().clone()];
    let origin = Origin::parse("registry.test/capgate").unwrap();
    assert!(!matches!(HostState::verify(bytes, &keys, &origin), HostState::Signed(_)));
    let Ok(statement) = HostStatement::parse(bytes) else { return };
    let toml = statement.to_toml();
    assert_eq!(HostStatement::parse(toml.as_bytes()).as_ref(), Ok(&statement));
    let signed = note::sign(&note::compose(Kind::Host, &origin, &toml).unwrap(), &[&key]).unwrap();
    assert_eq!(HostState::verify(&signed, &keys, &origin), HostState::Signed(statement));
});
