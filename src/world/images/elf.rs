//! What an ELF file says of itself: its loader, its name, its version, the id that its linker gave it.

use std::fs::File;
use std::path::Path;

use object::elf::{DT_SONAME, FileHeader32, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};

use crate::world::file;

/// Most versions of one library's symbols; the C library has some forty.
const MOST_VERSIONS: usize = 10_000;

/// What an ELF file says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elf {
    /// The loader that starts it.
    pub interpreter: Option<String>,
    /// The name that others link it by.
    pub soname: Option<String>,
    /// The newest version of its symbols, such as `GLIBC_2.36`, or what its file name says.
    pub version: Option<String>,
    /// In hexadecimal digits.
    pub build_id: Option<String>,
}

/// Reads a file; none where it is no ELF file. A part that is malformed is left out.
pub fn read(path: &Path) -> Option<Elf> {
    let file: File = file::open_regular(path).ok()?;
    let cache = ReadCache::new(file);
    let mut elf = match FileKind::parse(&cache).ok()? {
        FileKind::Elf64 => of::<FileHeader64<Endianness>, _>(&cache)?,
        FileKind::Elf32 => of::<FileHeader32<Endianness>, _>(&cache)?,
        _ => return None,
    };
    elf.version = elf.version.or_else(|| version_of_name(&path.file_name()?.to_string_lossy()));
    Some(elf)
}

fn of<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(data: R) -> Option<Elf> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let mut elf = Elf::default();
    for segment in header.program_headers(endian, data).ok()? {
        if let Ok(Some(path)) = segment.interpreter(endian, data) {
            elf.interpreter = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    let Ok(sections) = header.sections(endian, data) else { return Some(elf) };
    if let Ok(Some((dynamic, link))) = sections.dynamic(endian, data)
        && let Ok(strings) = sections.strings(endian, data, link)
    {
        let name = dynamic.iter().find(|entry| entry.tag(endian) == DT_SONAME);
        let name = name.and_then(|entry| entry.string(endian, strings).ok());
        elf.soname = name.map(|name| String::from_utf8_lossy(name).into_owned());
    }
    if let Ok(Some((mut definitions, link))) = sections.gnu_verdef(endian, data)
        && let Ok(strings) = sections.strings(endian, data, link)
    {
        let mut names = Vec::new();
        while let Ok(Some((_, mut parts))) = definitions.next()
            && names.len() < MOST_VERSIONS
        {
            if let Ok(Some(part)) = parts.next()
                && let Ok(name) = part.name(endian, strings)
            {
                names.push(String::from_utf8_lossy(name).into_owned());
            }
        }
        elf.version = newest(&names);
    }
    for section in sections.iter() {
        let Ok(Some(mut notes)) = section.notes(endian, data) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(endian) == NT_GNU_BUILD_ID && note.name() == b"GNU" {
                elf.build_id = Some(note.desc().iter().map(|byte| format!("{byte:02x}")).collect());
            }
        }
    }
    Some(elf)
}

/// The newest of names such as `GLIBC_2.2.5`; others, as `GLIBC_PRIVATE`, have no number.
fn newest(names: &[String]) -> Option<String> {
    let numbers = |name: &str| -> Option<Vec<u64>> {
        let (_, version) = name.rsplit_once('_')?;
        version.split('.').map(|part| part.parse().ok()).collect()
    };
    let versions = names.iter().filter_map(|name| Some((numbers(name)?, name)));
    versions.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, name)| name.clone())
}

/// `6.0.30` in `libstdc++.so.6.0.30`.
fn version_of_name(name: &str) -> Option<String> {
    let (_, version) = name.split_once(".so.")?;
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let names =
            ["libc.so.6", "GLIBC_2.2.5", "GLIBC_2.36", "GLIBC_2.4", "GLIBC_PRIVATE"].map(str::to_owned);
        assert_eq!(newest(&names).as_deref(), Some("GLIBC_2.36"));
        assert_eq!(version_of_name("libstdc++.so.6.0.30").as_deref(), Some("6.0.30"));
        assert_eq!(version_of_name("libx.so"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_c_library_says_what_it_is() {
        let own = std::env::current_exe().unwrap();
        let program = read(&own).unwrap();
        assert!(program.interpreter.is_some_and(|path| path.contains("ld")));
        let listed = super::super::listed(&own, &std::process::Command::new("x")).unwrap();
        let libc = listed
            .iter()
            .filter_map(|path| read(path))
            .find(|elf| elf.soname.as_deref() == Some("libc.so.6"));
        let libc = libc.unwrap();
        assert!(libc.version.unwrap().starts_with("GLIBC_2."));
        assert_eq!(libc.build_id.unwrap().len(), 40);
        assert_eq!(read(Path::new("/dev/null")), None);
        assert_eq!(read(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path()), None);
    }
}
