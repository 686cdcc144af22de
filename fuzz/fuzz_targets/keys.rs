//! A key that parses is written again as it was.
#![no_main]

use capgate_registry::keys::{SigningKey, VerifierKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(key) = VerifierKey::parse(text) {
        assert_eq!(key.to_string(), text);
        assert!(!key.verify(b"anything", &[0; 64]));
    }
    if let Ok(key) = SigningKey::parse(text) {
        assert_eq!(key.encode().unwrap().as_str(), text);
        assert!(key.verifier().verify(b"anything", &key.sign(b"anything").unwrap()));
    }
    if let Ok(key) = SigningKey::from_pkcs8_pem("fuzz.test", text) {
        assert_eq!(SigningKey::parse(&key.encode().unwrap()).unwrap().verifier(), key.verifier());
    }
});
