//! Writes small signed Mach-O files whose parts stand in the file where they would stand in memory.

use capgate_registry::combination::{CdHash, Hex};
use sha2::{Digest, Sha256};

const COMMANDS: usize = 32 + 72 * 2 + 16;
const LINKEDIT: u64 = 0x4000;

/// A dylib or program with one code directory.
pub struct Image {
    file_type: u32,
    dylibs: Vec<String>,
    directory: Vec<u8>,
}

/// A dylib that links Metal.
pub fn linking_metal(identifier: &str) -> Image {
    let mut image = Image::new(identifier);
    image.dylibs.push("/System/Library/Frameworks/Metal.framework/Versions/A/Metal".to_owned());
    image
}

impl Image {
    /// A dylib whose code directory holds `identifier`, which is all that makes it another one.
    pub fn new(identifier: &str) -> Self {
        let mut directory = vec![0u8; 44];
        directory[..4].copy_from_slice(&0xfade_0c02u32.to_be_bytes());
        directory[36] = 32;
        directory[37] = 2;
        directory.extend(identifier.as_bytes());
        directory.push(0);
        let length = u32::try_from(directory.len()).unwrap().to_be_bytes();
        directory[4..8].copy_from_slice(&length);
        Self { file_type: 6, dylibs: Vec::new(), directory }
    }

    /// A program instead of a dylib.
    pub fn program(identifier: &str) -> Self {
        Self { file_type: 2, ..Self::new(identifier) }
    }

    pub fn cdhash(&self) -> CdHash {
        Hex(Sha256::digest(&self.directory)[..20].try_into().unwrap())
    }

    pub fn sha256(&self) -> String {
        Hex::<32>(Sha256::digest(self.bytes()).into()).to_string()
    }

    /// The file, for arm64.
    pub fn bytes(&self) -> Vec<u8> {
        let signature = self.signature();
        let dylibs: Vec<Vec<u8>> = self.dylibs.iter().map(|name| dylib(name)).collect();
        let size = COMMANDS - 32 + dylibs.iter().map(Vec::len).sum::<usize>();
        let mut file = Vec::new();
        for word in [
            0xfeed_facf,
            0x0100_000c,
            0,
            self.file_type,
            3 + u32::try_from(dylibs.len()).unwrap(),
            u32::try_from(size).unwrap(),
            0,
            0,
        ] {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(segment("__TEXT", 0, LINKEDIT));
        file.extend(segment("__LINKEDIT", LINKEDIT, signature.len() as u64));
        dylibs.iter().for_each(|command| file.extend(command));
        let length = u32::try_from(signature.len()).unwrap();
        for word in [0x1d, 16, u32::try_from(LINKEDIT).unwrap(), length] {
            file.extend(u32::to_le_bytes(word));
        }
        file.resize(usize::try_from(LINKEDIT).unwrap(), 0);
        file.extend(signature);
        file
    }

    fn signature(&self) -> Vec<u8> {
        let length = u32::try_from(20 + self.directory.len()).unwrap();
        let mut blob = Vec::new();
        for word in [0xfade_0cc0, length, 1, 0, 20] {
            blob.extend(u32::to_be_bytes(word));
        }
        blob.extend(&self.directory);
        blob
    }
}

fn segment(name: &str, at: u64, size: u64) -> Vec<u8> {
    let mut command = Vec::new();
    command.extend(0x19u32.to_le_bytes());
    command.extend(72u32.to_le_bytes());
    command.extend(name.as_bytes());
    command.resize(24, 0);
    for number in [at, size, at, size] {
        command.extend(number.to_le_bytes());
    }
    command.resize(72, 0);
    command
}

fn dylib(name: &str) -> Vec<u8> {
    let size = (24 + name.len() + 1).next_multiple_of(8);
    let mut command = Vec::new();
    for word in [0xc, u32::try_from(size).unwrap(), 24, 0, 0, 0] {
        command.extend(u32::to_le_bytes(word));
    }
    command.extend(name.as_bytes());
    command.resize(size, 0);
    command
}
