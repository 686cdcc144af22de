//! Another shim: a library that takes whatever a variable holds, so it must be one that was tested or that the site
//! names, and it must not stand where a list of images has to be compared.

use std::fs;
use std::path::{Path, PathBuf};

use capgate_guest::identity;
use capgate_guest::prefix::{Prefix, check_library};
use capgate_guest::session;
use capgate_policy::decide::Grant;
use capgate_registry::combination::Sha256Digest;
use capgate_registry::profile::ShimName;

use super::program::Program;

/// A shim that may be inserted.
#[derive(Debug)]
pub struct Other {
    /// Whose it is, which says what it reads.
    pub name: ShimName,
    /// The library.
    pub library: PathBuf,
}

/// Names on the command line.
const NAMES: [(&str, ShimName); 4] = [
    ("lume", ShimName::Lume),
    ("tart", ShimName::Tart),
    ("anka", ShimName::Anka),
    ("lunchpail", ShimName::Lunchpail),
];

/// Where shims that are asked for by name are looked for.
const SHIMS: &str = "lib/shims";

/// Finds a shim by its path, or by its name in the prefix's `lib/shims`.
pub fn find(asked: &Path, prefix: &Prefix, grant: &Grant, program: &Program) -> Result<Other, String> {
    if !grant.images.is_empty() {
        return Err(format!(
            "`{}` lists images, which only capgate's own library compares; start it without `--shim`",
            grant.profile
        ));
    }
    let site = session::read_site(prefix).map_err(|e| e.to_string())?;
    let site = site.map_or_else(Vec::new, |site| site.shims);
    let named = NAMES.iter().find(|(word, _)| Path::new(word) == asked).map(|(_, name)| *name);
    let other = match named {
        Some(name) => by_name(name, prefix, grant, &site)?,
        None => by_path(asked, grant, &site)?,
    };
    check_library(&other.library).map_err(|e| e.to_string())?;
    program.can_load(&other.library)?;
    Ok(other)
}

fn by_name(name: ShimName, prefix: &Prefix, grant: &Grant, site: &[Sha256Digest]) -> Result<Other, String> {
    let folder = prefix.root().join(SHIMS);
    let entries = fs::read_dir(&folder).map_err(|e| format!("`{}` cannot be read: {e}", folder.display()))?;
    let mut libraries: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    libraries.sort();
    let found = libraries.into_iter().find(|library| {
        digest(library).is_ok_and(|digest| {
            is_tested(name, digest, grant) || (site.contains(&digest) && named(library) == Some(name))
        })
    });
    let library = found.ok_or_else(|| {
        format!(
            "no library in `{}` is {}'s as it was tested, or as the site policy names it",
            folder.display(),
            word(name)
        )
    })?;
    Ok(Other { name, library })
}

fn by_path(path: &Path, grant: &Grant, site: &[Sha256Digest]) -> Result<Other, String> {
    let library = std::path::absolute(path).map_err(|e| format!("`{}` {e}", path.display()))?;
    let digest = digest(&library)?;
    let tested = grant.shims.iter().find(|shim| shim.sha256 == digest).map(|shim| shim.name);
    let name = tested.or_else(|| named(&library).filter(|_| site.contains(&digest)));
    match name {
        Some(ShimName::Capgate) => Err("that is capgate's own library; start it without `--shim`".to_owned()),
        Some(name) => Ok(Other { name, library }),
        None if site.contains(&digest) => Err(format!(
            "`{}` has the name of no known shim, so nobody knows what it reads",
            library.display()
        )),
        None => Err(format!(
            "`{}` (sha256:{digest}) is not the library that was tested, and `shims` in the site policy does not name it",
            library.display()
        )),
    }
}

fn is_tested(name: ShimName, digest: Sha256Digest, grant: &Grant) -> bool {
    grant.shims.iter().any(|shim| shim.name == name && shim.sha256 == digest)
}

fn digest(library: &Path) -> Result<Sha256Digest, String> {
    identity::of_file(library).map(|file| file.sha256).map_err(|e| format!("`{}` {e}", library.display()))
}

/// Whose it is by its file name, such as `LumeMetalCapabilities-arm64.dylib`.
pub fn named(library: &Path) -> Option<ShimName> {
    let name = library.file_name()?.to_str()?.to_ascii_lowercase();
    NAMES.iter().find(|(word, _)| name.trim_start_matches("lib").starts_with(word)).map(|(_, name)| *name)
}

fn word(name: ShimName) -> &'static str {
    NAMES.iter().find(|(_, other)| *other == name).map_or("capgate", |(word, _)| word)
}
