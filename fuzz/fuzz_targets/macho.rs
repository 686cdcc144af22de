//! Whatever a Mach-O file claims, it is read within its bytes, and a cdhash is that of a code directory in it.
#![no_main]

use capgate_macho::{Commands, Signature, cdhash, header_length, slices};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(found) = slices(bytes, bytes.len() as u64) else { return };
    for slice in found {
        let (from, size) = (slice.offset as usize, slice.size as usize);
        let inner = &bytes[from..from + size];
        let Ok(length) = header_length(inner) else { continue };
        let Some(Ok(commands)) = inner.get(..length).map(Commands::parse) else { continue };
        let _ = commands.links_metal();
        let Some(range) = commands.signature else { continue };
        let rest = inner.get(range.offset as usize..).unwrap_or_default();
        let signature = rest.get(..range.size as usize).unwrap_or_default();
        match (cdhash(signature), Signature::parse(signature)) {
            (Ok(hash), Ok(parsed)) => assert_eq!(hash, parsed.cdhash),
            (Err(_), Ok(_)) => panic!("a signature without a cdhash was understood"),
            _ => {}
        }
    }
});
