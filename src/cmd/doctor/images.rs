//! The images that a program links, found as the loader finds them, and those of them that a profile must list.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capgate_guest::{identity, others};
use capgate_macho::{Commands, Cpu};
use serde::Serialize;

/// Most images of one program.
const MOST: usize = 2_000;

/// An image that links Metal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetalImage {
    /// File name, as a profile lists it.
    pub name: String,
    /// Where it was found.
    pub path: PathBuf,
    /// Its code directory hash.
    pub cdhash: Option<String>,
    /// SHA-256 of its file.
    pub sha256: String,
}

/// What a program loads, as far as its files say.
#[derive(Debug, Default)]
pub struct Images {
    /// Images that link Metal, the program itself apart.
    pub metal: Vec<MetalImage>,
    /// Names that lead to no file here.
    pub missing: Vec<String>,
    /// Files that could not be understood.
    pub malformed: Vec<String>,
    /// Images that were looked at.
    pub count: usize,
}

/// An image that is to be looked at: where it is, and the run paths of those who load it.
struct Next {
    path: PathBuf,
    rpaths: Vec<PathBuf>,
}

/// Follows every link from a program to the images that are not the system's.
pub fn of(program: &Path, commands: &Commands, cpu: Cpu) -> Images {
    let folder = program.parent().unwrap_or(Path::new("/")).to_owned();
    let mut images = Images::default();
    let mut seen = BTreeSet::from([program.to_owned()]);
    let mut queue = Vec::new();
    follow(program, commands, &folder, &[], &mut queue, &mut images);
    while let Some(next) = queue.pop() {
        if seen.len() > MOST || !seen.insert(next.path.clone()) {
            continue;
        }
        images.count += 1;
        let shown = next.path.display().to_string();
        let slices = match identity::parts_of_file(&next.path) {
            Ok(Ok(slices)) => slices,
            Ok(Err(e)) => {
                images.malformed.push(format!("`{shown}` {e}"));
                continue;
            }
            Err(e) => {
                images.malformed.push(format!("`{shown}` {e}"));
                continue;
            }
        };
        let Some((_, (commands, _))) = slices.iter().find(|(slice, _)| slice.cpu == cpu) else {
            images.malformed.push(format!("`{shown}` has no code for {cpu}"));
            continue;
        };
        if commands.links_metal() {
            images.metal.extend(metal_image(&next.path, cpu));
        }
        follow(&next.path, commands, &folder, &next.rpaths, &mut queue, &mut images);
    }
    images.metal.sort_by(|a, b| a.name.cmp(&b.name));
    images
}

fn metal_image(path: &Path, cpu: Cpu) -> Option<MetalImage> {
    let file = identity::of_file(path).ok()?;
    let cdhash = file.cdhashes.iter().find(|(other, _)| *other == cpu).map(|(_, hash)| hash.to_string());
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(MetalImage { name, path: path.to_owned(), cdhash, sha256: file.sha256.to_string() })
}

/// Puts the images that `image` links into the queue.
fn follow(
    image: &Path,
    commands: &Commands,
    executable: &Path,
    inherited: &[PathBuf],
    queue: &mut Vec<Next>,
    images: &mut Images,
) {
    let loader = image.parent().unwrap_or(Path::new("/"));
    let own = commands.rpaths.iter().filter_map(|rpath| expand(rpath, loader, executable));
    // dyld tries the run paths of everybody on the way, the image's own first.
    let rpaths: Vec<PathBuf> = own.chain(inherited.iter().cloned()).collect();
    for dylib in commands.dylibs.iter().filter(|dylib| !others::is_systems(Path::new(&dylib.name))) {
        let candidates: Vec<PathBuf> = match dylib.name.strip_prefix("@rpath/") {
            Some(rest) => rpaths.iter().map(|rpath| rpath.join(rest)).collect(),
            None => expand(&dylib.name, loader, executable).into_iter().collect(),
        };
        match candidates.into_iter().find_map(|path| path.canonicalize().ok().filter(|path| path.is_file())) {
            Some(path) => queue.push(Next { path, rpaths: rpaths.clone() }),
            None if dylib.is_weak => {}
            None => images.missing.push(dylib.name.clone()),
        }
    }
}

fn expand(name: &str, loader: &Path, executable: &Path) -> Option<PathBuf> {
    let below = |folder: &Path, rest: &str| folder.join(rest.trim_start_matches('/'));
    if let Some(rest) = name.strip_prefix("@loader_path") {
        return Some(below(loader, rest));
    }
    if let Some(rest) = name.strip_prefix("@executable_path") {
        return Some(below(executable, rest));
    }
    (!name.starts_with('@')).then(|| PathBuf::from(name))
}
