//! A run record: what reads is written and reads as the same again, what was cleaned holds no secret.
#![no_main]

use capgate_registry::evidence::run_record::{self, diff, mask};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let cleaned = mask::text(&text);
    assert_eq!(mask::text(&cleaned.text).text, cleaned.text);
    match run_record::read(bytes) {
        Ok(mut record) => {
            let again = run_record::read(record.to_json().as_bytes());
            assert_eq!(again.as_ref(), Ok(&record));
            assert!(diff::compare(&record, &record).differences.is_empty());
            record.clean();
            assert!(record.secrets().is_empty());
        }
        Err(wrong) => assert!(!wrong.to_string().chars().any(char::is_control), "{wrong}"),
    }
});
