//! Libraries that stand beside a program and that nothing links: llama.cpp opens its Metal backend by name.

use std::path::{Path, PathBuf};

use capgate_macho::Cpu;

use super::macho::MachO;

/// Most files of a folder that are looked at.
const MOST: usize = 1_000;

/// The libraries of a folder that nothing `known` accounts for; none where none of them links Metal.
pub fn libraries(folder: &Path, cpu: Cpu, known: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|p| is_named(p)).collect();
    paths.sort();
    let mut found: Vec<PathBuf> = Vec::new();
    let mut any_links_metal = false;
    for path in paths.into_iter().take(MOST).filter_map(|path| path.canonicalize().ok()) {
        if known(&path) || found.contains(&path) {
            continue;
        }
        let Ok(Some(macho)) = MachO::read(&path) else { continue };
        let Some(slice) = macho.slice(cpu) else { continue };
        any_links_metal |= slice.commands.links_metal();
        found.push(path);
    }
    if any_links_metal { found } else { Vec::new() }
}

fn is_named(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("dylib" | "so" | "node" | "bundle"))
}
