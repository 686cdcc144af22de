//! The images that may touch Metal: those that link it, and those that came after the library.
//!
//! Each is known by its cdhash, computed from the code signature as it is mapped: no file is opened. The signature is no
//! part of what it signs, so this says which image it was loaded as, not what somebody wrote over it since. The kernel
//! copies what is read, since another thread may unload an image meanwhile: then it is one that cannot be understood.
#![allow(unsafe_code, reason = "reads mapped images and the loader's list; each block says why it is sound")]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;

use capgate_guest::others;
use capgate_guest::system::{copy_of, symbol};
use capgate_macho::{Commands, FileType, MAX_SIGNATURE, cdhash, header_length};
use capgate_policy::decide::LoadedImage;
use capgate_registry::combination::Hex;

/// Most images that are looked at.
const MOST: u32 = 20_000;

type Count = unsafe extern "C" fn() -> u32;
type Name = unsafe extern "C" fn(u32) -> *const c_char;
type Header = unsafe extern "C" fn(u32) -> *const c_void;

/// What is loaded, compared with what was loaded at the start.
pub struct Images {
    own: PathBuf,
    early: BTreeSet<(u64, PathBuf)>,
}

/// One entry of the loader's list.
struct Entry {
    path: PathBuf,
    header: u64,
}

impl Images {
    /// Remembers what is loaded now; `own` is this library.
    pub fn at_start(own: PathBuf) -> Self {
        let early = list().unwrap_or_default().into_iter().map(|entry| (entry.header, entry.path)).collect();
        Self { own, early }
    }

    /// The images that may touch Metal, without the system's, the program and this library.
    ///
    /// One that cannot be understood is among them, without a digest, so that no list can have it.
    pub fn that_may_touch_metal(&self) -> Vec<LoadedImage> {
        let Some(entries) = list() else {
            return vec![LoadedImage { name: "the loader's list".to_owned(), sha256: None, cdhash: None }];
        };
        entries
            .iter()
            .filter(|entry| !others::is_systems(&entry.path) && entry.path != self.own)
            .filter_map(|entry| self.look(entry))
            .collect()
    }

    fn look(&self, entry: &Entry) -> Option<LoadedImage> {
        let name = entry.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let commands = commands(entry.header);
        let Some(commands) = commands else { return Some(LoadedImage { name, sha256: None, cdhash: None }) };
        let is_early = self.early.contains(&(entry.header, entry.path.clone()));
        // The program's own identity was decided already.
        if commands.file_type == FileType::Program || (is_early && !commands.links_metal()) {
            return None;
        }
        let cdhash = mapped_cdhash(entry.header, &commands).map(Hex);
        Some(LoadedImage { name, sha256: None, cdhash })
    }
}

fn list() -> Option<Vec<Entry>> {
    // SAFETY: functions of these names have these types in `mach-o/dyld.h`.
    let (count, name, header) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Count>(symbol(c"_dyld_image_count")?.as_ptr()),
            std::mem::transmute::<*mut c_void, Name>(symbol(c"_dyld_get_image_name")?.as_ptr()),
            std::mem::transmute::<*mut c_void, Header>(symbol(c"_dyld_get_image_header")?.as_ptr()),
        )
    };
    let count_of = count;
    // SAFETY: it takes nothing.
    let count = unsafe { count_of() };
    if count > MOST {
        return None;
    }
    let mut entries = Vec::new();
    for at in 0..count {
        // SAFETY: an index beyond the list, because something was unloaded in between, is answered with null.
        let (name, header) = unsafe { (name(at), header(at)) };
        if name.is_null() || header.is_null() {
            continue;
        }
        // SAFETY: the loader's own name of an image, ended by a zero byte.
        let path = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        entries.push(Entry { path: PathBuf::from(path), header: header as u64 });
    }
    // SAFETY: as above. Where something was unloaded meanwhile, an image may have been passed over.
    (unsafe { count_of() } == count).then_some(entries)
}

/// Header and load commands of the image that is mapped at `header`.
fn commands(header: u64) -> Option<Commands> {
    let length = header_length(&copy_of(header, 32)?).ok()?;
    Commands::parse(&copy_of(header, length)?).ok()
}

/// The cdhash of the image with these commands that is mapped at `header`.
fn mapped_cdhash(header: u64, commands: &Commands) -> Option<[u8; 20]> {
    let (signature, linkedit) = (commands.signature?, commands.linkedit?);
    let from = u64::from(signature.offset).checked_sub(linkedit.offset)?;
    let end = from.checked_add(signature.size.into())?;
    if end > linkedit.size || signature.size > MAX_SIGNATURE {
        return None;
    }
    let slide = header.wrapping_sub(commands.text_address?);
    let address = linkedit.address.wrapping_add(slide).checked_add(from)?;
    cdhash(&copy_of(address, usize::try_from(signature.size).ok()?)?).ok()
}
