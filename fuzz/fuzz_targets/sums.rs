//! A list of digests: what is read is unique, inside the bundle, and reads again from what `sha256sum` would write.
#![no_main]

use capgate_registry::evidence::sums::{self, inside};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let read = sums::read(bytes);
    let mut text = String::new();
    for file in &read.files {
        assert_eq!(inside(&file.path).as_deref(), Ok(file.path.as_str()));
        assert!(file.sha256.len() == 64 && file.sha256.bytes().all(|b| b.is_ascii_hexdigit()));
        text += &format!("{}  {}\n", file.sha256, file.path);
    }
    if read.files.is_empty() {
        assert!(!read.findings.is_empty(), "a list of nothing");
        return;
    }
    let again = sums::read(text.as_bytes());
    assert_eq!(again.files, read.files);
    assert_eq!(again.findings, []);
});
