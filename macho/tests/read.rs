//! What is read of files that the tests write, and that any other bytes are an error and never more.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod writer;

use capgate_macho::{
    CdHash, Commands, Cpu, DylibKind, FileType, HashKind, MachoError, Signature, Version, cdhash,
    header_length, slices,
};
use writer::{ARM64, ARM64E, Image, Signing, X86_64};

/// Everything of one slice, as a program with the whole file at hand reads it.
fn read(file: &[u8], at: usize) -> Result<(Commands, Option<CdHash>), MachoError> {
    let slice = slices(file, file.len() as u64)?[at];
    let bytes = &file[usize::try_from(slice.offset).unwrap()..][..usize::try_from(slice.size).unwrap()];
    header_length(bytes)?;
    let commands = Commands::parse(bytes)?;
    let hash = commands.signature.map(|range| {
        let end = usize::try_from(u64::from(range.offset) + u64::from(range.size)).unwrap();
        let signature = bytes.get(range.offset as usize..end).ok_or(MachoError::Truncated("the file"))?;
        Signature::parse(signature)?;
        cdhash(signature)
    });
    Ok((commands, hash.transpose()?))
}

fn full() -> Image {
    let mut image = Image::dylib("libfull.dylib").links("@rpath/liba.dylib").rpath("@loader_path");
    image.dylibs.push((writer::WEAK, "libweak.dylib".to_owned()));
    image.dylibs.push((writer::REEXPORT, "libre.dylib".to_owned()));
    image.dylibs.push((writer::UPWARD, "libup.dylib".to_owned()));
    image.restricted = true;
    image.minimum_macos = Some(0x000e_0501);
    image.signed(|signing| {
        signing.hashes = vec![1, 2];
        signing.team = Some("ABCDE12345".to_owned());
        signing.flags = writer::HARDENED | writer::LIBRARY_VALIDATION | writer::RESTRICT;
        signing.platform = 14;
        signing.entitlements = Some(writer::entitlements(&["a.b"]));
    })
}

#[test]
fn a_library_says_what_it_is_and_needs() {
    let (commands, hash) = read(&full().bytes(), 0).unwrap();
    assert_eq!((commands.cpu, commands.file_type), (Cpu::Arm64, FileType::Dylib));
    assert_eq!(commands.id.as_deref(), Some("@rpath/libfull.dylib"));
    let needs: Vec<(&str, DylibKind)> = commands.dylibs.iter().map(|d| (d.name.as_str(), d.kind)).collect();
    assert_eq!(
        needs,
        [
            (writer::SYSTEM, DylibKind::Required),
            ("@rpath/liba.dylib", DylibKind::Required),
            ("libweak.dylib", DylibKind::Weak),
            ("libre.dylib", DylibKind::Reexport),
            ("libup.dylib", DylibKind::Upward),
        ]
    );
    assert_eq!(commands.rpaths, ["@loader_path"]);
    assert_eq!(commands.minimum_macos.unwrap().to_string(), "14.5.1");
    assert_eq!(Version(0x000d_0000).to_string(), "13.0");
    assert!(commands.restricted && !commands.links_metal());
    assert_eq!(hash, Some(full().cdhash()));
}

#[test]
fn what_links_metal_or_a_part_of_it_is_told_apart() {
    let links = |name: &str| read(&Image::program("a").links(name).bytes(), 0).unwrap().0.links_metal();
    assert!(links(writer::METAL) && links("/System/Library/Frameworks/MetalKit.framework/MetalKit"));
    assert!(!links("/opt/Metal/libother.dylib") && !links("@rpath/libMetal.dylib"));
}

#[test]
fn a_signature_says_who_and_how() {
    let bytes = full().signing.unwrap().bytes();
    let signature = Signature::parse(&bytes).unwrap();
    assert_eq!(
        signature.directories.iter().map(|d| d.hash).collect::<Vec<_>>(),
        [HashKind::Sha1, HashKind::Sha256]
    );
    let best = signature.best().unwrap();
    assert_eq!((best.identifier.as_str(), best.team.as_deref()), ("libfull.dylib", Some("ABCDE12345")));
    let flags = best.flags;
    assert!(flags.hardened_runtime() && flags.library_validation() && flags.restrict());
    assert!(!flags.adhoc() && !flags.linker_signed());
    assert_eq!(best.platform, 14);
    assert!(signature.entitlements.unwrap().starts_with(b"<?xml"));
    assert!(!signature.has_der_entitlements);
}

#[test]
fn the_best_code_directory_counts_as_the_kernel_ranks_them() {
    for (hashes, wanted) in [
        (vec![2], HashKind::Sha256),
        (vec![1, 2], HashKind::Sha256),
        (vec![2, 1], HashKind::Sha256),
        (vec![3, 2], HashKind::Sha256),
        (vec![1, 3], HashKind::Sha256Truncated),
        (vec![1, 2, 4], HashKind::Sha384),
        (vec![4, 2], HashKind::Sha384),
    ] {
        let signing = Signing { hashes, ..Signing::new("ranked") };
        let bytes = signing.bytes();
        assert_eq!(Signature::parse(&bytes).unwrap().best().unwrap().hash, wanted);
        assert_eq!(cdhash(&bytes), Ok(signing.cdhash()));
    }
    // SHA-1 alone, or a hash that nobody knows, identifies nothing.
    for hashes in [vec![1], vec![9], vec![]] {
        let bytes = Signing { hashes, ..Signing::new("none") }.bytes();
        assert_eq!(cdhash(&bytes), Err(MachoError::Unsigned));
    }
}

#[test]
fn universal_files_hold_a_slice_for_each_processor() {
    let of = |cpu| {
        let image = Image { cpu, ..Image::program(&format!("{cpu:?}")) };
        (cpu, image.bytes())
    };
    for wide in [false, true] {
        let file = writer::universal(&[of(X86_64), of(ARM64), of(ARM64E)], wide);
        let found = slices(&file[..4096], file.len() as u64).unwrap();
        let cpus: Vec<Cpu> = found.iter().map(|slice| slice.cpu).collect();
        assert_eq!(cpus, [Cpu::X86_64, Cpu::Arm64, Cpu::Arm64e]);
        for (at, cpu) in [X86_64, ARM64, ARM64E].into_iter().enumerate() {
            let (commands, hash) = read(&file, at).unwrap();
            assert_eq!(commands.cpu, cpus[at]);
            assert_eq!(hash, Some(Image { cpu, ..Image::program(&format!("{cpu:?}")) }.cdhash()));
        }
    }
}

#[test]
fn attack_a_file_cut_anywhere_is_an_error_and_never_another_program() {
    let whole = full().bytes();
    let universal = writer::universal(&[(ARM64, whole.clone()), (X86_64, whole.clone())], false);
    for file in [whole, universal] {
        let (commands, hash) = read(&file, 0).unwrap();
        for length in 0..file.len() {
            // The last slice of a universal file may be cut while the first is whole.
            if let Ok((cut, found)) = read(&file[..length], 0) {
                assert_eq!((cut, found), (commands.clone(), hash), "{length}");
            }
        }
        assert!(read(&file[..file.len() - 1], 0).is_err());
    }
}

#[test]
fn attack_no_changed_byte_is_more_than_an_error() {
    let whole = full().bytes();
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut file = whole.clone();
            file[at] = value;
            let _ = read(&file, 0);
        }
    }
}

#[test]
fn attack_numbers_beyond_the_file_are_named() {
    let mut file = full().bytes();
    let mut put = |at: usize, word: u32, expected: &str| {
        let before: [u8; 4] = file[at..at + 4].try_into().unwrap();
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
        assert_eq!(read(&file, 0).unwrap_err().to_string(), expected);
        file[at..at + 4].copy_from_slice(&before);
    };
    put(16, 10_001, "has a number of load commands of 10001, more than the 10000 that are accepted");
    put(16, 10_000, "ends within the load commands");
    put(20, u32::MAX, "has load commands of 4294967295, more than the 1048576 that are accepted");
    put(36, 7, "has a load command without length");
    put(36, u32::MAX, "ends within the load commands");
    put(0, 0xfeed_face, "is a Mach-O file of 32 bits or another byte order");
    put(0, 0, "is no Mach-O file");
    let signature = file.windows(4).position(|four| four == 0xfade_0cc0u32.to_be_bytes()).unwrap();
    let put = |at: usize, word: u32, expected: &str| {
        let mut file = file.clone();
        file[signature + at..signature + at + 4].copy_from_slice(&word.to_be_bytes());
        assert_eq!(read(&file, 0).unwrap_err().to_string(), expected);
    };
    put(0, 0, "has a code signature that does not begin as one");
    put(4, u32::MAX, "ends within the code signature");
    put(8, 65, "has a number of parts in its signature of 65, more than the 64 that are accepted");
    put(16, u32::MAX, "ends within a code directory");
    put(20, 0, "has two parts of its signature in one place");
}

#[test]
fn attack_one_directory_named_often_is_hashed_once() {
    let directory = Signing::new("often").directory(2);
    let twice: Vec<(u32, Vec<u8>)> = vec![(0, directory.clone()), (0, directory.clone())];
    assert!(matches!(cdhash(&writer::super_blob(&twice)), Err(MachoError::Malformed(_))));
    let alternates: Vec<(u32, Vec<u8>)> = vec![(0, directory.clone()), (0x1000, directory)];
    assert!(matches!(cdhash(&writer::super_blob(&alternates)), Err(MachoError::Malformed(_))));
}

#[test]
fn attack_java_classes_and_too_many_slices_are_no_programs() {
    let mut class = 0xcafe_babeu32.to_be_bytes().to_vec();
    class.extend(0x0000_0041u32.to_be_bytes());
    class.resize(4096, 0);
    assert_eq!(slices(&class, 4096), Err(MachoError::NotMacho));
    let image = Image::program("a").bytes();
    let twice = writer::universal(&[(ARM64, image.clone()), (ARM64, image)], false);
    assert!(matches!(slices(&twice, twice.len() as u64), Err(MachoError::Malformed(_))));
}
