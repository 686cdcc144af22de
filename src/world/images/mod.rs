//! Images that the loader of Linux picked: what it says it would load, and what a running process has mapped.

mod elf;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::said;

pub use elf::{Elf, read as read_elf};

/// Most images of one program.
pub const MOST_IMAGES: usize = 2_000;
/// Most bytes of what a loader prints.
const MOST_SAID: u64 = 1 << 20;
/// How long a loader may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most processes that are looked at below one.
const MOST_PROCESSES: usize = 256;

/// What the program's own loader would load, in the environment of `like`, without running the program.
///
/// The loader is asked itself (`ld.so --list`), since only it knows every rule: search paths, preloaded libraries, and
/// the folders for newer processors. Nothing of the program or its libraries runs. Returns nothing for a program without
/// a loader, an error where the loader is none that is known to only list.
pub fn listed(program: &Path, like: &Command) -> Result<Vec<PathBuf>, String> {
    let Some(elf) = read_elf(program) else { return Ok(Vec::new()) };
    let Some(loader) = elf.interpreter.map(PathBuf::from) else { return Ok(Vec::new()) };
    let name = loader.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !["ld-linux", "ld64.so", "ld.so", "ld-musl-"].iter().any(|start| name.starts_with(start)) {
        return Err(format!("its loader `{}` is not one that is known to list images", loader.display()));
    }
    let mut command = Command::new(&loader);
    command.arg("--list").arg(program);
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // Auditors run even where nothing else does, and the others write to files.
    for name in ["LD_AUDIT", "LD_DEBUG", "LD_DEBUG_OUTPUT", "LD_PROFILE", "LD_SHOW_AUXV"] {
        command.env_remove(name);
    }
    if let Some(folder) = like.get_current_dir() {
        command.current_dir(folder);
    }
    let (_, said) = said::by(&mut command, MOST_SAID, PATIENCE)
        .map_err(|e| format!("`{}` cannot list its images: {e}", loader.display()))?;
    let mut found: Vec<PathBuf> = String::from_utf8_lossy(&said).lines().filter_map(of_line).collect();
    found.truncate(MOST_IMAGES);
    Ok(found)
}

/// `libc.so.6 => /lib/libc.so.6 (0x00007f…)`, or the path alone for what has no other name.
fn of_line(line: &str) -> Option<PathBuf> {
    let path = line.split_once(" => ").map_or(line, |(_, path)| path).trim();
    let (path, _) = path.rsplit_once(" (0x")?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// What a process and those below it run and have mapped as code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapped {
    /// Executable files.
    pub programs: BTreeSet<PathBuf>,
    /// Other files that are mapped as code.
    pub images: BTreeSet<PathBuf>,
}

/// Looks at a process and those below it. One that ends meanwhile has what was seen until then.
pub fn mapped(pid: u32) -> Mapped {
    let mut mapped = Mapped::default();
    let mut next = vec![pid];
    let mut seen = BTreeSet::from([pid]);
    while let Some(pid) = next.pop() {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let program = fs::read_link(folder.join("exe")).ok();
        let maps = fs::read_to_string(folder.join("maps")).unwrap_or_default();
        // Between fork and exec a child still is the one that started it.
        mapped.images.extend(code(&maps).filter(|path| Some(path) != program.as_ref()).take(MOST_IMAGES));
        mapped.programs.extend(program);
        for child in children(&folder) {
            if seen.len() < MOST_PROCESSES && seen.insert(child) {
                next.push(child);
            }
        }
    }
    mapped
}

/// Files that are mapped as code, in `/proc/PID/maps`.
fn code(maps: &str) -> impl Iterator<Item = PathBuf> {
    maps.lines().filter_map(|line| {
        let mut words = line.splitn(6, ' ');
        let is_code = words.nth(1)?.contains('x');
        let path = words.nth(3)?.trim_start();
        (is_code && path.starts_with('/') && !path.ends_with(" (deleted)")).then(|| PathBuf::from(path))
    })
}

/// Processes that any thread of a process started.
fn children(folder: &Path) -> Vec<u32> {
    let tasks = fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_loaders_and_maps_are_understood() {
        let said = "\tlinux-vdso.so.1 (0x00007f9b)\n\tlibc.so.6 => /lib/x y/libc.so.6 (0x00007f9b)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f9b)\n\tlibgone.so => not found\n";
        let found: Vec<PathBuf> = said.lines().filter_map(of_line).collect();
        assert_eq!(found, [Path::new("/lib/x y/libc.so.6"), Path::new("/lib64/ld-linux-x86-64.so.2")]);
        let maps = "56123cb8f000-56123cb91000 r--p 00000000 fe:00 247030                     /usr/bin/cat\n\
                    56123cb91000-56123cb96000 r-xp 00002000 fe:00 247030                     /usr/bin/a b\n\
                    7f0000000000-7f0000001000 r-xp 00000000 fe:00 1                          /tmp/x (deleted)\n\
                    7f0000000000-7f0000001000 r-xp 00000000 00:00 0                          [vdso]\n\
                    7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n";
        assert_eq!(code(maps).collect::<Vec<_>>(), [Path::new("/usr/bin/a b")]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_with_what_it_loaded() {
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let mapped = mapped(std::process::id());
        assert!(mapped.programs.contains(&own) && !mapped.images.contains(&own), "{mapped:?}");
        let listed = listed(&own, &Command::new("x")).unwrap();
        assert!(!listed.is_empty());
        for path in listed {
            let path = path.canonicalize().unwrap();
            assert!(mapped.images.contains(&path), "{} {mapped:?}", path.display());
        }
    }
}
