//! What a prefix gets: the command, the library, the header, the pin and the site policy.

use std::fs;
use std::path::{Path, PathBuf};

use capgate_guest::binary::Binary;
use capgate_registry::keys::VerifierKey;

use super::site;
use crate::cli::InstallArgs;
use crate::exit::Failure;
use crate::installed::LIBRARY;

/// The site policy.
pub const SITE: &str = "etc/capgate/site.toml";
/// The pin.
pub const ROOT: &str = "etc/capgate/root.note";

/// The C interface of the library of this version.
const HEADER: &str = include_str!("../../../include/capgate.h");

/// Where a part comes from.
#[derive(Debug)]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// That file.
    File(PathBuf),
}

/// One file of a prefix.
#[derive(Debug)]
pub struct Wanted {
    /// Its path below the prefix.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
    /// Where it comes from.
    pub content: Content,
}

/// Every file that is wanted.
pub fn wanted(args: &InstallArgs, keys: &[VerifierKey]) -> Result<Vec<Wanted>, Failure> {
    let own = std::env::current_exe().and_then(fs::canonicalize);
    let own = own.map_err(|e| Failure::failed(format!("where this program lies is not known: {e}")))?;
    let one = |path: &str, mode, content| Wanted { path: path.to_owned(), mode, content };
    Ok(vec![
        one(&format!("lib/{LIBRARY}"), 0o755, Content::File(library(args.library.as_deref(), &own)?)),
        one("include/capgate.h", 0o644, Content::Bytes(HEADER.as_bytes().to_vec())),
        one(ROOT, 0o644, Content::Bytes(format!("sha256:{}\n", args.root).into_bytes())),
        one(SITE, 0o644, Content::Bytes(site::template(keys).into_bytes())),
        // Last, so that whoever finds the command finds the rest.
        one("bin/capgate", 0o755, Content::File(own)),
    ])
}

/// The library that was given, or the one that was unpacked beside this program.
pub fn library(given: Option<&Path>, own: &Path) -> Result<PathBuf, Failure> {
    let given = given.map(Path::to_owned).or_else(|| beside(own, &format!("lib/{LIBRARY}")));
    let Some(library) = given else {
        let message = format!("there is no `../lib/{LIBRARY}` beside this program");
        return Err(Failure::failed(message).help("name the library with `--library FILE`"));
    };
    match Binary::of_file(&library) {
        Ok(Binary::MachO(_) | Binary::Elf(_)) => Ok(library),
        Ok(_) => {
            let message = format!("`{}` is not a library", library.display());
            Err(Failure::failed(message)
                .help(format!("give capgate's own, `lib/{LIBRARY}` of an unpacked archive")))
        }
        Err(e) => Err(Failure::failed(format!("the library `{}` cannot be read: {e}", library.display()))),
    }
}

/// A file of the folder that this program was unpacked in, `<folder>/bin/capgate`.
fn beside(own: &Path, name: &str) -> Option<PathBuf> {
    let path = own.parent()?.parent()?.join(name);
    path.is_file().then_some(path)
}
