//! Writes small signed Mach-O files whose parts stand in the file where they would stand in memory.

use capgate_registry::combination::{CdHash, Hex};
use sha2::{Digest, Sha256};

const LINKEDIT: u64 = 0x4000;
pub const ARM64: (u32, u32) = (0x0100_000c, 0);
pub const ARM64E: (u32, u32) = (0x0100_000c, 0x8000_0002);
pub const X86_64: (u32, u32) = (0x0100_0007, 3);

/// A dylib or program with one code directory.
#[derive(Clone)]
pub struct Image {
    file_type: u32,
    cpu: (u32, u32),
    /// Load commands beyond those that every image here has.
    more: Vec<Vec<u8>>,
    directory: Vec<u8>,
    entitlements: Option<String>,
}

/// A dylib that links Metal.
pub fn linking_metal(identifier: &str) -> Image {
    Image::new(identifier).links("/System/Library/Frameworks/Metal.framework/Versions/A/Metal")
}

impl Image {
    /// A dylib whose code directory holds `identifier`, which is all that makes it another one.
    pub fn new(identifier: &str) -> Self {
        let mut directory = vec![0u8; 44];
        directory[..4].copy_from_slice(&0xfade_0c02u32.to_be_bytes());
        // Version 0x20100, and the identifier behind the fixed part.
        directory[8..12].copy_from_slice(&0x2_0100u32.to_be_bytes());
        directory[20..24].copy_from_slice(&44u32.to_be_bytes());
        directory[36] = 32;
        directory[37] = 2;
        directory.extend(identifier.as_bytes());
        directory.push(0);
        let length = u32::try_from(directory.len()).unwrap().to_be_bytes();
        directory[4..8].copy_from_slice(&length);
        Self { file_type: 6, cpu: ARM64, more: Vec::new(), directory, entitlements: None }
    }

    pub fn cpu(self, cpu: (u32, u32)) -> Self {
        Self { cpu, ..self }
    }

    /// Flags of the code directory.
    pub fn flags(mut self, flags: u32) -> Self {
        self.directory[12..16].copy_from_slice(&flags.to_be_bytes());
        self
    }

    /// A part of the system.
    pub fn platform(mut self) -> Self {
        self.directory[38] = 1;
        self
    }

    pub fn entitled(mut self, names: &[&str]) -> Self {
        let granted: String = names.iter().map(|name| format!("<key>{name}</key><true/>")).collect();
        self.entitlements = Some(format!("<plist version=\"1.0\"><dict>{granted}</dict></plist>"));
        self
    }

    pub fn links(mut self, name: &str) -> Self {
        self.more.push(named(0xc, 24, name));
        self
    }

    pub fn rpath(mut self, path: &str) -> Self {
        self.more.push(named(0x8000_001c, 12, path));
        self
    }

    /// With the section that makes the loader ignore its variables.
    pub fn restricted(mut self) -> Self {
        let mut command = segment("__RESTRICT", 0, 0);
        command[4..8].copy_from_slice(&(72u32 + 80).to_le_bytes());
        command[64..68].copy_from_slice(&1u32.to_le_bytes());
        command.extend(b"__restrict");
        command.resize(72 + 80, 0);
        self.more.push(command);
        self
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
        let size = 72 * 2 + 16 + self.more.iter().map(Vec::len).sum::<usize>();
        let mut file = Vec::new();
        for word in [
            0xfeed_facf,
            self.cpu.0,
            self.cpu.1,
            self.file_type,
            3 + u32::try_from(self.more.len()).unwrap(),
            u32::try_from(size).unwrap(),
            0,
            0,
        ] {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(segment("__TEXT", 0, LINKEDIT));
        file.extend(segment("__LINKEDIT", LINKEDIT, signature.len() as u64));
        self.more.iter().for_each(|command| file.extend(command));
        let length = u32::try_from(signature.len()).unwrap();
        for word in [0x1d, 16, u32::try_from(LINKEDIT).unwrap(), length] {
            file.extend(u32::to_le_bytes(word));
        }
        file.resize(usize::try_from(LINKEDIT).unwrap(), 0);
        file.extend(signature);
        file
    }

    fn signature(&self) -> Vec<u8> {
        let mut blobs = vec![(0u32, self.directory.clone())];
        if let Some(xml) = &self.entitlements {
            let mut blob = 0xfade_7171u32.to_be_bytes().to_vec();
            blob.extend(u32::try_from(8 + xml.len()).unwrap().to_be_bytes());
            blob.extend(xml.as_bytes());
            blobs.push((5, blob));
        }
        let mut at = 12 + 8 * blobs.len();
        let length = at + blobs.iter().map(|(_, blob)| blob.len()).sum::<usize>();
        let mut whole = Vec::new();
        for word in [0xfade_0cc0, u32::try_from(length).unwrap(), u32::try_from(blobs.len()).unwrap()] {
            whole.extend(u32::to_be_bytes(word));
        }
        for (slot, blob) in &blobs {
            whole.extend(slot.to_be_bytes());
            whole.extend(u32::try_from(at).unwrap().to_be_bytes());
            at += blob.len();
        }
        blobs.iter().for_each(|(_, blob)| whole.extend(blob));
        whole
    }
}

/// A universal file.
pub fn universal(images: &[Image]) -> Vec<u8> {
    let mut file = 0xcafe_babeu32.to_be_bytes().to_vec();
    file.extend(u32::try_from(images.len()).unwrap().to_be_bytes());
    let mut at = 0x4000u32;
    for image in images {
        let size = u32::try_from(image.bytes().len()).unwrap();
        for word in [image.cpu.0, image.cpu.1, at, size, 14] {
            file.extend(word.to_be_bytes());
        }
        at += size.next_multiple_of(0x4000);
    }
    for image in images {
        file.resize(file.len().next_multiple_of(0x4000), 0);
        file.extend(image.bytes());
    }
    file
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

/// A command that ends in a name, after `fixed` bytes.
fn named(kind: u32, fixed: usize, name: &str) -> Vec<u8> {
    let size = (fixed + name.len() + 1).next_multiple_of(8);
    let mut command = Vec::new();
    for word in [kind, u32::try_from(size).unwrap(), u32::try_from(fixed).unwrap()] {
        command.extend(u32::to_le_bytes(word));
    }
    command.resize(fixed, 0);
    command.extend(name.as_bytes());
    command.resize(size, 0);
    command
}
