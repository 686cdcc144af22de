//! A version of the trust that reads is written and reads as the same again; a chain of any bytes holds only if signed.
#![no_main]

use capgate_registry::merkle::Hash;
use capgate_registry::note::Origin;
use capgate_registry::trust::{Chain, Trust};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let origin = Origin::parse("registry.test/capgate").unwrap();
    if let Ok(trust) = Trust::parse(bytes, &origin) {
        assert_eq!(Trust::parse(trust.to_toml().as_bytes(), &origin).as_ref(), Ok(&trust));
    }
    if let Ok(chain) = Chain::open([bytes], &Hash::of(bytes)) {
        assert_eq!(chain.current().version, 1);
        let root = &chain.current().root;
        assert!(root.threshold >= 1 && root.threshold <= root.keys.len());
        assert!(Chain::open([bytes, bytes], &Hash::of(bytes)).is_err(), "version 1 twice");
        assert!(Chain::open([bytes], &Hash::of(b"")).is_err(), "another pin");
    }
});
