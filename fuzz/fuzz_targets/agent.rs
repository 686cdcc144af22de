//! Answers of an ssh-agent: what is read is within its bounds, and a signature has one spelling.
#![no_main]

use capgate_ssh::agent::{self, MAX_KEYS, MAX_MESSAGE};
use capgate_ssh::{ED25519, blob, fingerprint};
use libfuzzer_sys::fuzz_target;

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fuzz_target!(|answer: &[u8]| {
    if let Some((length, rest)) = answer.split_first_chunk() {
        if let Ok(length) = agent::answer_length(*length) {
            assert!((1..=MAX_MESSAGE).contains(&length));
            let _ = agent::identities(rest.get(..length).unwrap_or(rest));
        }
    }
    if let Ok(keys) = agent::identities(answer) {
        assert!(keys.len() <= MAX_KEYS && keys.len() * 8 < answer.len());
        for key in keys {
            assert_eq!(key.public.is_some(), key.kind == ED25519);
            if let Some(public) = key.public {
                assert_eq!(key.fingerprint, fingerprint(&blob(&public)));
            }
        }
    }
    if let Ok(signature) = agent::signature(answer) {
        let inner = [string(ED25519.as_bytes()), string(&signature)].concat();
        assert_eq!([&[14], string(&inner).as_slice()].concat(), answer);
    }
});
