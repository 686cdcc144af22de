//! Where the loader looks for a library, by the name that an image has for it.
//!
//! Source: `dyld(1)` and dyld's `Loader.cpp`: `@executable_path` is the program's folder, `@loader_path` that of the image
//! that names the library, and `@rpath` stands for the search paths of that image, then of the one that loaded it, and
//! so on to the program.

use std::path::{Path, PathBuf};

/// Most places that are looked at for one library.
const MOST_PLACES: usize = 256;
/// Most search paths that are read for one library; many may be the same.
const MOST_RPATHS: usize = 4_096;

/// An image that names a library, or that led to one which does.
#[derive(Debug, Clone, Copy)]
pub struct Loader<'a> {
    /// The folder that its file is in.
    pub folder: &'a Path,
    /// Its search paths, as written.
    pub rpaths: &'a [String],
}

/// What became of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// The file.
    Found(PathBuf),
    /// It is nowhere; these places were looked at.
    Missing(Vec<PathBuf>),
}

/// Finds the library that `name` means.
///
/// `chain` begins with the image that names it and ends with the program. `program` is the program's folder, where there
/// is a program. `exists` tells whether there is a file at a path; nothing else is asked of the world.
pub fn resolve(
    name: &str,
    chain: &[Loader<'_>],
    program: Option<&Path>,
    exists: &mut dyn FnMut(&Path) -> bool,
) -> Resolved {
    let places = places(name, chain, program);
    match places.iter().find(|place| exists(place)) {
        Some(found) => Resolved::Found(found.clone()),
        None => Resolved::Missing(places),
    }
}

fn places(name: &str, chain: &[Loader<'_>], program: Option<&Path>) -> Vec<PathBuf> {
    let Some(rest) = name.strip_prefix("@rpath/") else {
        return chain.first().and_then(|loader| place(name, loader, program)).into_iter().collect();
    };
    let all = chain.iter().flat_map(|loader| {
        loader.rpaths.iter().filter_map(|rpath| Some(place(rpath, loader, program)?.join(rest)))
    });
    let mut places: Vec<PathBuf> = Vec::new();
    for found in all.take(MOST_RPATHS) {
        if places.len() == MOST_PLACES {
            break;
        }
        if !places.contains(&found) {
            places.push(found);
        }
    }
    places
}

/// A path of an image; `None` for one that begins where nothing is known.
fn place(path: &str, loader: &Loader<'_>, program: Option<&Path>) -> Option<PathBuf> {
    let below = |word: &str| path.strip_prefix(word).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let joined = |folder: &Path, rest: &str| {
        let rest = rest.trim_start_matches('/');
        if rest.is_empty() { folder.to_owned() } else { folder.join(rest) }
    };
    if let Some(rest) = below("@loader_path") {
        return Some(joined(loader.folder, rest));
    }
    if let Some(rest) = below("@executable_path") {
        return program.map(|folder| joined(folder, rest));
    }
    // Any other path is as it is; the loader finds a relative one only from where the program was started.
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, rpaths: [&[&str]; 2], files: &[&str]) -> Resolved {
        let rpaths: Vec<Vec<String>> =
            rpaths.iter().map(|paths| paths.iter().map(|&path| path.to_owned()).collect()).collect();
        let chain = [
            Loader { folder: Path::new("/app/lib"), rpaths: &rpaths[0] },
            Loader { folder: Path::new("/app/bin"), rpaths: &rpaths[1] },
        ];
        let mut exists = |path: &Path| files.iter().any(|file| Path::new(file) == path);
        resolve(name, &chain, Some(Path::new("/app/bin")), &mut exists)
    }

    fn at(path: &str) -> Resolved {
        Resolved::Found(path.into())
    }

    #[test]
    fn names_lead_to_the_folders_of_loader_and_program() {
        let none: [&[&str]; 2] = [&[], &[]];
        assert_eq!(found("@loader_path/a", none, &["/app/lib/a"]), at("/app/lib/a"));
        assert_eq!(found("@loader_path/../x/a", none, &["/app/lib/../x/a"]), at("/app/lib/../x/a"));
        assert_eq!(found("@executable_path/a", none, &["/app/bin/a"]), at("/app/bin/a"));
        assert_eq!(found("/opt/a", none, &["/opt/a"]), at("/opt/a"));
        assert_eq!(found("/opt/a", none, &[]), Resolved::Missing(vec!["/opt/a".into()]));
        assert_eq!(found("@rpath/a", none, &["/app/bin/a"]), Resolved::Missing(Vec::new()));
        assert_eq!(found("a", none, &["/app/lib/a", "a"]), Resolved::Missing(Vec::new()));
        assert_eq!(found("@loader_pathology/a", none, &["/app/lib/a"]), Resolved::Missing(Vec::new()));
    }

    #[test]
    fn search_paths_are_tried_from_the_image_up_to_the_program() {
        let rpaths: [&[&str]; 2] =
            [&["@loader_path", "/opt/lib"], &["@loader_path/../lib2", "@executable_path"]];
        let order = ["/app/lib/a", "/opt/lib/a", "/app/bin/../lib2/a", "/app/bin/a"];
        for at_least in 0..order.len() {
            assert_eq!(found("@rpath/a", rpaths, &order[at_least..]), at(order[at_least]));
        }
        let places = order.iter().map(PathBuf::from).collect();
        assert_eq!(found("@rpath/a", rpaths, &[]), Resolved::Missing(places));
    }

    #[test]
    fn without_a_program_nothing_is_found_by_its_folder() {
        let chain = [Loader { folder: Path::new("/app/lib"), rpaths: &["@executable_path".to_owned()] }];
        assert_eq!(resolve("@rpath/a", &chain, None, &mut |_| true), Resolved::Missing(Vec::new()));
    }

    #[test]
    fn the_places_are_bounded() {
        let rpaths: Vec<String> = (0..10_000).map(|number| format!("/{number}")).collect();
        let chain = [Loader { folder: Path::new("/"), rpaths: &rpaths }];
        let Resolved::Missing(places) = resolve("@rpath/a", &chain, None, &mut |_| false) else { panic!() };
        assert_eq!(places.len(), MOST_PLACES);
    }
}
