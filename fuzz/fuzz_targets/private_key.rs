//! Private key files of ssh-keygen: what is read stands in the bytes, and becomes a key that signs.
#![no_main]

use base64ct::{Base64, Encoding};
use capgate_registry::keys::SigningKey;
use capgate_ssh::private_key::{self, BEGIN};
use libfuzzer_sys::fuzz_target;

fn check(text: &str) {
    if let Ok(found) = private_key::read(text) {
        let key = SigningKey::from_seed("fuzz.test", *found.seed).unwrap();
        assert!(key.verifier().verify(b"anything", &key.sign(b"anything").unwrap()));
        assert!(text.starts_with(BEGIN) && found.comment.len() <= 3 * text.len());
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(text);
    }
    // The same bytes as what base64 wraps, which a fuzzer would hardly get through.
    check(&format!("{BEGIN}\n{}\n-----END OPENSSH PRIVATE KEY-----\n", Base64::encode_string(bytes)));
});
