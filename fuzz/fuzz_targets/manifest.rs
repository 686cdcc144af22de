//! A bundle's manifest: what is read names only paths inside the bundle.
#![no_main]

use capgate_registry::evidence::manifest::Manifest;
use capgate_registry::evidence::sums::inside;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Manifest::parse(bytes) {
        Ok(manifest) => {
            for workload in &manifest.workloads {
                for item in &workload.files {
                    assert_eq!(inside(&item.path).as_deref(), Ok(item.path.as_str()));
                }
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            assert!(problems.iter().all(|problem| problem.span.end <= bytes.len()));
        }
    }
});
