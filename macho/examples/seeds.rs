//! Writes seeds for the fuzz target `macho` into a folder: `seeds DIR`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a tool of the tests")]

#[path = "../tests/writer/mod.rs"]
mod writer;

use std::path::Path;

use writer::{ARM64, ARM64E, Image, X86_64};

fn main() {
    let folder = std::env::args().nth(1).unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    let plain = Image::program("plain").links(writer::METAL).links("@rpath/liba.dylib").rpath("@loader_path");
    let signed = Image::dylib("signed.dylib").signed(|signing| {
        signing.hashes = vec![1, 2, 4];
        signing.team = Some("ABCDE12345".to_owned());
        signing.flags = writer::HARDENED;
        signing.entitlements =
            Some(writer::entitlements(&["com.apple.security.cs.disable-library-validation"]));
    });
    let restricted = Image { restricted: true, signing: None, ..Image::program("restricted") };
    let of = |cpu| (cpu, Image { cpu, ..plain.clone() }.bytes());
    let seeds = [
        ("plain", plain.bytes()),
        ("signed", signed.bytes()),
        ("restricted", restricted.bytes()),
        ("universal", writer::universal(&[of(X86_64), of(ARM64), of(ARM64E)], false)),
        ("wide", writer::universal(&[of(ARM64), of(ARM64E)], true)),
        ("signature", signed.signing.unwrap().bytes()),
    ];
    for (name, bytes) in seeds {
        std::fs::write(Path::new(&folder).join(format!("seed-{name}")), bytes).unwrap();
    }
}
