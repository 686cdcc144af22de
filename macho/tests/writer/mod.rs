//! Writes small Mach-O files for the tests and the seeds of the fuzz target. It shares nothing with the reader.

#![allow(dead_code, reason = "each user uses a part of it")]

use sha2::{Digest, Sha256, Sha384};

pub const ARM64: (u32, u32) = (0x0100_000c, 0);
/// With the version of the pointer authentication in the upper byte, as real files have it.
pub const ARM64E: (u32, u32) = (0x0100_000c, 0x8000_0002);
pub const X86_64: (u32, u32) = (0x0100_0007, 3);

pub const PROGRAM: u32 = 2;
pub const DYLIB: u32 = 6;
pub const BUNDLE: u32 = 8;

pub const LOAD: u32 = 0xc;
pub const WEAK: u32 = 0x8000_0018;
pub const REEXPORT: u32 = 0x8000_001f;
pub const UPWARD: u32 = 0x8000_0023;

pub const ADHOC: u32 = 0x2;
pub const RESTRICT: u32 = 0x800;
pub const LIBRARY_VALIDATION: u32 = 0x2000;
pub const HARDENED: u32 = 0x1_0000;
pub const LINKER_SIGNED: u32 = 0x2_0000;

pub const METAL: &str = "/System/Library/Frameworks/Metal.framework/Versions/A/Metal";
pub const SYSTEM: &str = "/usr/lib/libSystem.B.dylib";

/// How a file is signed.
#[derive(Clone)]
pub struct Signing {
    pub identifier: String,
    pub team: Option<String>,
    pub flags: u32,
    pub platform: u8,
    /// Hash types of its code directories, the first in the usual place.
    pub hashes: Vec<u8>,
    pub entitlements: Option<String>,
}

impl Signing {
    pub fn new(identifier: &str) -> Self {
        Self {
            identifier: identifier.to_owned(),
            team: None,
            flags: ADHOC | LINKER_SIGNED,
            platform: 0,
            hashes: vec![2],
            entitlements: None,
        }
    }

    /// The code directory with that hash type.
    pub fn directory(&self, hash: u8) -> Vec<u8> {
        let mut directory = vec![0u8; 52];
        let mut put = |at: usize, word: u32| directory[at..at + 4].copy_from_slice(&word.to_be_bytes());
        put(0, 0xfade_0c02);
        put(8, 0x2_0400);
        put(12, self.flags);
        put(20, 52);
        directory[36] = if hash == 1 { 20 } else { 32 };
        directory[37] = hash;
        directory[38] = self.platform;
        directory[39] = 12;
        directory.extend(self.identifier.as_bytes());
        directory.push(0);
        if let Some(team) = &self.team {
            let at = u32::try_from(directory.len()).unwrap();
            directory[48..52].copy_from_slice(&at.to_be_bytes());
            directory.extend(team.as_bytes());
            directory.push(0);
        }
        let length = u32::try_from(directory.len()).unwrap();
        directory[4..8].copy_from_slice(&length.to_be_bytes());
        directory
    }

    pub fn cdhash(&self) -> [u8; 20] {
        let best = [4, 2, 3].into_iter().find(|hash| self.hashes.contains(hash)).unwrap();
        let directory = self.directory(best);
        let digest =
            if best == 4 { Sha384::digest(directory).to_vec() } else { Sha256::digest(directory).to_vec() };
        digest[..20].try_into().unwrap()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut blobs: Vec<(u32, Vec<u8>)> = Vec::new();
        for (number, &hash) in (0u32..).zip(&self.hashes) {
            let slot = if number == 0 { 0 } else { 0xfff + number };
            blobs.push((slot, self.directory(hash)));
        }
        if let Some(text) = &self.entitlements {
            let length = u32::try_from(8 + text.len()).unwrap();
            let mut blob = 0xfade_7171u32.to_be_bytes().to_vec();
            blob.extend(length.to_be_bytes());
            blob.extend(text.as_bytes());
            blobs.push((5, blob));
        }
        super_blob(&blobs)
    }
}

/// A signature of these parts.
pub fn super_blob(blobs: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let count = u32::try_from(blobs.len()).unwrap();
    let length = 12 + blobs.len() * 8 + blobs.iter().map(|(_, blob)| blob.len()).sum::<usize>();
    let mut signature = Vec::new();
    for word in [0xfade_0cc0, u32::try_from(length).unwrap(), count] {
        signature.extend(word.to_be_bytes());
    }
    let mut at = 12 + 8 * count;
    for (slot, blob) in blobs {
        signature.extend(slot.to_be_bytes());
        signature.extend(at.to_be_bytes());
        at += u32::try_from(blob.len()).unwrap();
    }
    blobs.iter().for_each(|(_, blob)| signature.extend(blob));
    signature
}

/// The entitlements of these names, all true.
pub fn entitlements(names: &[&str]) -> String {
    let keys: String = names.iter().map(|name| format!("<key>{name}</key><true/>")).collect();
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><plist version=\"1.0\"><dict>{keys}</dict></plist>")
}

/// A file for one processor.
#[derive(Clone)]
pub struct Image {
    pub cpu: (u32, u32),
    pub file_type: u32,
    pub id: Option<String>,
    pub dylibs: Vec<(u32, String)>,
    pub rpaths: Vec<String>,
    pub minimum_macos: Option<u32>,
    pub restricted: bool,
    pub signing: Option<Signing>,
}

impl Image {
    pub fn new(file_type: u32, identifier: &str) -> Self {
        Self {
            cpu: ARM64,
            file_type,
            id: None,
            dylibs: vec![(LOAD, SYSTEM.to_owned())],
            rpaths: Vec::new(),
            minimum_macos: Some(14 << 16),
            restricted: false,
            signing: Some(Signing::new(identifier)),
        }
    }

    pub fn program(identifier: &str) -> Self {
        Self::new(PROGRAM, identifier)
    }

    pub fn dylib(identifier: &str) -> Self {
        Self { id: Some(format!("@rpath/{identifier}")), ..Self::new(DYLIB, identifier) }
    }

    pub fn links(mut self, name: &str) -> Self {
        self.dylibs.push((LOAD, name.to_owned()));
        self
    }

    pub fn rpath(mut self, path: &str) -> Self {
        self.rpaths.push(path.to_owned());
        self
    }

    pub fn signed(mut self, change: impl FnOnce(&mut Signing)) -> Self {
        change(self.signing.as_mut().unwrap());
        self
    }

    pub fn cdhash(&self) -> [u8; 20] {
        self.signing.as_ref().unwrap().cdhash()
    }

    fn commands(&self) -> Vec<Vec<u8>> {
        let mut commands = vec![segment("__TEXT", 0, 0, 0x4000, &[])];
        if self.restricted {
            commands.push(segment("__RESTRICT", 0, 0, 0, &["__restrict"]));
        }
        if let Some(id) = &self.id {
            commands.push(text(0xd, 24, id));
        }
        commands.extend(self.dylibs.iter().map(|(kind, name)| text(*kind, 24, name)));
        commands.extend(self.rpaths.iter().map(|path| text(0x8000_001c, 12, path)));
        commands.extend(self.minimum_macos.map(|version| words(&[0x32, 24, 1, version, version, 0])));
        commands
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut commands = self.commands();
        let mut signature = self.signing.as_ref().map(Signing::bytes);
        // The signature stands behind the commands, at the next sixteen bytes.
        let size = |commands: &[Vec<u8>]| commands.iter().map(Vec::len).sum::<usize>();
        let mut at = 32 + size(&commands);
        if let Some(signature) = &signature {
            at = (at + 72 + 16).next_multiple_of(16);
            commands.push(segment("__LINKEDIT", 0x4000, at, signature.len(), &[]));
            let [at, length] = [at, signature.len()].map(|number| u32::try_from(number).unwrap());
            commands.push(words(&[0x1d, 16, at, length]));
        }
        let [count, length] = [commands.len(), size(&commands)].map(|number| u32::try_from(number).unwrap());
        let mut file =
            words(&[0xfeed_facf, self.cpu.0, self.cpu.1, self.file_type, count, length, 0x0020_0085, 0]);
        commands.iter().for_each(|command| file.extend(command));
        file.resize(at, 0);
        file.append(signature.get_or_insert_default());
        file
    }
}

/// A universal file; `wide` with 64-bit offsets.
pub fn universal(images: &[((u32, u32), Vec<u8>)], wide: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let magic = if wide { 0xcafe_babfu32 } else { 0xcafe_babe };
    file.extend(magic.to_be_bytes());
    file.extend(u32::try_from(images.len()).unwrap().to_be_bytes());
    let mut at = 4096u64;
    let mut places = Vec::new();
    for ((kind, subtype), image) in images {
        file.extend(kind.to_be_bytes());
        file.extend(subtype.to_be_bytes());
        let length = image.len() as u64;
        if wide {
            file.extend(at.to_be_bytes());
            file.extend(length.to_be_bytes());
            file.extend([0; 8]);
        } else {
            file.extend(u32::try_from(at).unwrap().to_be_bytes());
            file.extend(u32::try_from(length).unwrap().to_be_bytes());
            file.extend(12u32.to_be_bytes());
        }
        places.push((at, image));
        at = (at + length).next_multiple_of(4096);
    }
    for (at, image) in places {
        file.resize(usize::try_from(at).unwrap(), 0);
        file.extend(image);
    }
    file
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A command with a text behind `at` bytes of numbers.
fn text(kind: u32, at: u32, text: &str) -> Vec<u8> {
    let size = (at as usize + text.len() + 1).next_multiple_of(8);
    let mut command = words(&[kind, u32::try_from(size).unwrap(), at]);
    command.resize(at as usize, 0);
    command.extend(text.as_bytes());
    command.resize(size, 0);
    command
}

fn segment(name: &str, address: u64, at: usize, size: usize, sections: &[&str]) -> Vec<u8> {
    let length = u32::try_from(72 + 80 * sections.len()).unwrap();
    let mut command = words(&[0x19, length]);
    command.extend(name.as_bytes());
    command.resize(24, 0);
    for number in [address, size as u64, at as u64, size as u64] {
        command.extend(number.to_le_bytes());
    }
    command.resize(64, 0);
    command.extend(words(&[u32::try_from(sections.len()).unwrap(), 0]));
    for section in sections {
        let start = command.len();
        command.extend(section.as_bytes());
        command.resize(start + 16, 0);
        command.extend(name.as_bytes());
        command.resize(start + 80, 0);
    }
    command
}
