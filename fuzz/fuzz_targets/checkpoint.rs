//! A checkpoint has one spelling.
#![no_main]

use capgate_registry::log::Checkpoint;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(checkpoint) = Checkpoint::parse(text) {
        assert_eq!(checkpoint.to_text(), text);
    }
});
