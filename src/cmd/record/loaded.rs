//! Images that were loaded: as the loader says before the start, and as they are seen in the running process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use capgate_guest::binary::Binary;
use capgate_guest::others;
use capgate_registry::evidence::run_record::{FileRole, Library, Loaded as When, RunRecord};

use super::files::Files;
use super::recorder::unknown;
use crate::cmd::doctor::links::{self, When as Linked};
use crate::cmd::doctor::macho::MachO;
use crate::cmd::run::program::{self, runs_as};
use crate::world::images::{self, MOST_IMAGES, Mapped};

/// Images of one run.
#[derive(Debug, Default)]
pub struct Loaded {
    start: BTreeSet<PathBuf>,
    /// What a Mac's program may open later.
    maybe: BTreeSet<PathBuf>,
    seen: Mapped,
    /// What runs in the end, where that can be told from the files.
    executable: Option<PathBuf>,
}

impl Loaded {
    /// What the program's loader would pick; beside it, why that is not known.
    pub fn new(command: &Command) -> (Self, Option<String>) {
        let mut loaded = Self::default();
        let Ok(found) = program::find(command.get_program()) else { return (loaded, None) };
        let runs = found.identified.canonicalize().unwrap_or(found.identified);
        loaded.executable = Some(runs.clone());
        let why = match Binary::of_file(&runs) {
            Ok(Binary::MachO(_)) => loaded.links(&runs),
            Ok(Binary::Elf(_)) => match images::listed(&runs, command) {
                Ok(listed) => {
                    loaded.start.extend(listed.iter().filter_map(|path| path.canonicalize().ok()));
                    None
                }
                Err(why) => Some(why),
            },
            Ok(_) | Err(_) => None,
        };
        (loaded, why)
    }

    /// A Mac says nothing of another process without leave, so its images are followed from file to file.
    fn links(&mut self, program: &Path) -> Option<String> {
        let macho = match MachO::read(program) {
            Ok(Some(macho)) => macho,
            Ok(None) => return None,
            Err(e) => return Some(format!("`{}` {e:?}", program.display())),
        };
        let cpu = runs_as(program, &macho.cpus())?;
        let links = links::follow(macho, cpu, true);
        for image in links.images.into_iter().skip(1) {
            match image.when {
                Linked::Start => self.start.insert(image.path),
                Linked::Later => self.maybe.insert(image.path),
            };
        }
        links.cut.then(|| "it links more images than are followed".to_owned())
    }

    /// Looks at the running process and those below it.
    pub fn look(&mut self, pid: u32) {
        let now = images::mapped(pid);
        self.seen.programs.extend(now.programs);
        self.seen.images.extend(now.images);
    }

    /// Adds what was found to the record, and the files to those that are hashed.
    pub fn into_record(self, record: &mut RunRecord, files: &mut Files) {
        for path in self.seen.programs.iter().chain(&self.executable) {
            files.add(FileRole::Executable, path);
        }
        let when = |path: &PathBuf| {
            if self.start.contains(path) {
                When::Start
            } else if self.seen.images.contains(path) {
                When::Later
            } else {
                When::Maybe
            }
        };
        let all: BTreeSet<&PathBuf> = self.start.iter().chain(&self.maybe).chain(&self.seen.images).collect();
        if all.len() > MOST_IMAGES {
            record
                .unknown
                .push(unknown("capabilities.libraries", format!("only {MOST_IMAGES} are recorded")));
        }
        if cfg!(target_os = "linux") && self.seen.images.is_empty() && self.seen.programs.is_empty() {
            record.unknown.push(unknown(
                "capabilities.libraries",
                "the program ended before it could be looked at: what it opened by itself is not known",
            ));
        }
        for path in all
            .into_iter()
            .filter(|path| !others::is_systems(path) || cfg!(target_os = "linux"))
            .take(MOST_IMAGES)
        {
            let elf = images::read_elf(path).unwrap_or_default();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            record.capabilities.libraries.push(Library {
                name: elf.soname.unwrap_or(name),
                path: path.to_string_lossy().into_owned(),
                version: elf.version,
                build_id: elf.build_id,
                loaded: when(path),
            });
            files.add(FileRole::Image, path);
        }
    }
}
