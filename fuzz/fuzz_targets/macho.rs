//! Any bytes as a Mach-O file, as a whole and as a signature alone: what is read lies within them, and both readers of a
//! signature agree.
#![no_main]

use std::path::Path;

use capgate_macho::{
    Commands, Loader, MachoError, Resolved, Signature, cdhash, header_length, resolve, slices,
};
use libfuzzer_sys::fuzz_target;

fn signature(bytes: &[u8]) {
    let parsed = Signature::parse(bytes);
    let best = parsed.as_ref().map(|s| s.best().and_then(|directory| directory.cdhash));
    match (cdhash(bytes), best) {
        (Ok(hash), Ok(Some(best))) => assert_eq!(hash, best),
        (Err(MachoError::Unsigned), Ok(None)) => {}
        (Err(e), Err(other)) => assert_eq!(&e, other),
        (a, b) => panic!("{a:?} {b:?}"),
    }
    if let Ok(Signature { directories, .. }) = parsed {
        assert!(directories.len() <= 6);
    }
}

fuzz_target!(|bytes: &[u8]| {
    signature(bytes);
    let start = &bytes[..bytes.len().min(4096)];
    let Ok(found) = slices(start, bytes.len() as u64) else { return };
    assert!(!found.is_empty() && found.len() <= 16);
    for slice in found {
        let (from, to) = (slice.offset as usize, (slice.offset + slice.size) as usize);
        let slice = &bytes[from..to];
        let (Ok(length), Ok(commands)) = (header_length(slice), Commands::parse(slice)) else { continue };
        // The load commands alone say all that the whole slice says.
        assert_eq!(Commands::parse(&slice[..length]).as_ref(), Ok(&commands));
        let chain = [Loader { folder: Path::new("/a"), rpaths: &commands.rpaths }];
        for dylib in commands.dylibs.iter().take(64) {
            let found = resolve(&dylib.name, &chain, Some(Path::new("/b")), &mut |_| false);
            let Resolved::Missing(places) = found else { panic!("nothing exists") };
            assert!(places.iter().all(|place| place.is_absolute()), "{places:?}");
        }
        let range = commands
            .signature
            .map(|range| range.offset as usize..(range.offset as usize).saturating_add(range.size as usize));
        if let Some(range) = range.and_then(|range| slice.get(range)) {
            signature(range);
        }
    }
});
