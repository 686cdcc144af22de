//! What `latest.note` says reads, is written, and reads as the same again.
#![no_main]

use capgate_registry::latest::Latest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(latest) = Latest::parse(bytes) else { return };
    assert_eq!(Latest::parse(latest.to_toml().as_bytes()).as_ref(), Ok(&latest));
    let path = latest.snapshot_path();
    assert!(path.starts_with("snapshot/") && !path.contains(".."));
    let _ = latest.nearly_expired(latest.issued);
});
