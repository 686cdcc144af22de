//! Names and contents of tiles have one spelling.
#![no_main]

use capgate_registry::log::{Tile, decode_bundle, decode_hashes, encode_bundle, encode_hashes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (width, bytes) = input;
    if let Ok(entries) = decode_bundle(bytes, u64::from(width))
        && !entries.is_empty()
    {
        assert_eq!(encode_bundle(&entries).unwrap(), bytes);
    }
    if let Some(hashes) = decode_hashes(bytes) {
        assert_eq!(encode_hashes(&hashes), bytes);
    }
    if let Ok(text) = str::from_utf8(bytes)
        && let Some(tile) = Tile::parse(text)
    {
        assert_eq!(tile.path(), text);
        assert!((1..=256).contains(&tile.width()));
    }
});
