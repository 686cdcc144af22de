//! A record has one spelling.
#![no_main]

use capgate_registry::snapshot::RawRecord;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(record) = RawRecord::decode(bytes) {
        assert_eq!(record.encode(), bytes);
    }
});
