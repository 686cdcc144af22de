//! Every image that a program loads: what it links, what those link, and what stands beside them to be opened later.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capgate_guest::others;
use capgate_guest::slices::SliceError;
use capgate_macho::{Commands, Cpu, DylibKind, Loader, Resolved, resolve};
use capgate_registry::combination::CdHash;

use super::beside;
use super::macho::{MachO, cdhash};

/// Most images that are followed.
const MOST_IMAGES: usize = 2_000;
/// Most places where a file is looked for.
const MOST_PLACES: usize = 200_000;
/// Longest way from a program to an image.
const MOST_STEPS: usize = 64;

/// When an image is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// With the program, before any of its code runs.
    Start,
    /// Later, if at all: it stands beside what is loaded, or comes with something that does.
    Later,
}

/// An image. Its signature, which may be large, is not kept.
#[derive(Debug)]
pub struct Linked {
    /// Its file, links followed.
    pub path: PathBuf,
    /// What the slice that is loaded says.
    pub commands: Commands,
    /// The cdhash of that slice.
    pub cdhash: Option<CdHash>,
    /// When.
    pub when: When,
    /// Which image named it; none for the program and for what nothing names.
    loader: Option<usize>,
}

impl Linked {
    /// None where it has no code for that processor.
    fn new(macho: MachO, cpu: Cpu, when: When, loader: Option<usize>) -> Option<Self> {
        let slice = macho.slice(cpu)?;
        let (commands, cdhash) = (slice.commands.clone(), cdhash(slice));
        Some(Self { path: macho.path, commands, cdhash, when, loader })
    }
}

/// An image that is named and cannot be loaded.
#[derive(Debug)]
pub struct Missing {
    /// The name, as written.
    pub name: String,
    /// The image that names it.
    pub by: PathBuf,
    /// Whether the program starts without it.
    pub optional: bool,
    /// Why it cannot.
    pub why: String,
    /// Whether it is there and no file that any loader takes.
    pub malformed: bool,
}

/// All of it.
#[derive(Debug)]
pub struct Links {
    /// The images; the first is the program or library that was asked about.
    pub images: Vec<Linked>,
    /// What cannot be loaded.
    pub missing: Vec<Missing>,
    /// Whether there is more than is followed.
    pub cut: bool,
    cpu: Cpu,
    program: Option<PathBuf>,
    known: BTreeSet<PathBuf>,
    named: BTreeSet<String>,
    places: usize,
    next: usize,
}

/// Follows everything from a program, or from a library (`is_program` is false), whose own program nobody knows.
pub fn follow(macho: MachO, cpu: Cpu, is_program: bool) -> Links {
    let folder = macho.path.parent().map(Path::to_owned);
    let known = BTreeSet::from([macho.path.clone()]);
    let when = if is_program { When::Start } else { When::Later };
    let mut links = Links {
        images: Linked::new(macho, cpu, when, None).into_iter().collect(),
        missing: Vec::new(),
        cut: false,
        cpu,
        program: folder.filter(|_| is_program),
        known,
        named: BTreeSet::new(),
        places: 0,
        next: 0,
    };
    links.follow_all(when);
    links.add_what_stands_beside();
    links
}

impl Links {
    /// Follows every image that was not followed yet.
    fn follow_all(&mut self, when: When) {
        while let Some(image) = self.images.get(self.next) {
            let at = self.next;
            self.next += 1;
            for dylib in image.commands.dylibs.clone() {
                if !is_systems(Path::new(&dylib.name)) {
                    let optional = matches!(dylib.kind, DylibKind::Weak | DylibKind::Lazy);
                    self.follow_one(at, &dylib.name, optional, when);
                }
            }
        }
    }

    fn follow_one(&mut self, by: usize, name: &str, optional: bool, when: When) {
        if self.images.len() >= MOST_IMAGES || self.places >= MOST_PLACES {
            self.cut = true;
            return;
        }
        // A name that leads nowhere is work, too.
        let mut looked = 1;
        let found = resolve(name, &self.chain(by), self.program.as_deref(), &mut |path| {
            looked += 1;
            path.is_file()
        });
        self.places += looked;
        match found {
            Resolved::Found(path) if is_systems(&path) => {}
            Resolved::Found(path) => {
                if let Err((why, malformed)) = self.add(&path, Some(by), when) {
                    self.miss(by, name, optional, why, malformed);
                }
            }
            Resolved::Missing(places) => {
                let shown: Vec<String> = places.iter().map(|path| format!("`{}`", path.display())).collect();
                let why = match shown.len() {
                    0 => "nothing says where it is".to_owned(),
                    1..=3 => format!("it is not at {}", shown.join(", ")),
                    count => format!("it is at none of {count} places"),
                };
                self.miss(by, name, optional, why, false);
            }
        }
    }

    fn miss(&mut self, by: usize, name: &str, optional: bool, why: String, malformed: bool) {
        let by = self.images.get(by).map(|image| image.path.clone()).unwrap_or_default();
        // One library that many name is missing once.
        if self.named.insert(name.to_owned()) {
            self.missing.push(Missing { name: name.to_owned(), by, optional, why, malformed });
        }
    }

    /// Adds an image unless it is there; an error says why it cannot be loaded, and whether it is malformed.
    fn add(&mut self, path: &Path, loader: Option<usize>, when: When) -> Result<(), (String, bool)> {
        let shown = path.display();
        let path = path.canonicalize().map_err(|e| (format!("`{shown}` cannot be read: {e}"), false))?;
        if self.known.contains(&path) {
            return Ok(());
        }
        let macho = match MachO::read(&path) {
            Ok(Some(macho)) => macho,
            Ok(None) => return Err((format!("`{shown}` is no Mach-O file"), true)),
            Err(SliceError::Io(e)) => return Err((format!("`{shown}` cannot be read: {e}"), false)),
            Err(SliceError::Macho(e)) => return Err((format!("`{shown}` {e}"), true)),
        };
        let no_code = || (format!("`{shown}` has no code for {}", self.cpu), false);
        let image = Linked::new(macho, self.cpu, when, loader).ok_or_else(no_code)?;
        self.known.insert(path);
        self.images.push(image);
        Ok(())
    }

    /// The image itself and those that led to it, each with what its names are relative to.
    fn chain(&self, from: usize) -> Vec<Loader<'_>> {
        let mut chain = Vec::new();
        let mut next = Some(from);
        while let Some(image) = next.and_then(|at| self.images.get(at)) {
            if let Some(folder) = image.path.parent() {
                chain.push(Loader { folder, rpaths: &image.commands.rpaths });
            }
            next = image.loader.filter(|_| chain.len() < MOST_STEPS);
        }
        chain
    }

    /// Libraries beside what is loaded, in folders where one of them links Metal: backends that are opened later.
    fn add_what_stands_beside(&mut self) {
        let folders: BTreeSet<PathBuf> =
            self.images.iter().filter_map(|image| Some(image.path.parent()?.to_owned())).collect();
        // What a program opens is looked for by its own search paths too.
        let opener = self.program.is_some().then_some(0);
        for folder in folders {
            for path in beside::libraries(&folder, self.cpu, &|path| self.known.contains(path)) {
                // What nobody asked for and cannot be loaded is no concern of this program.
                let _ = self.add(&path, opener, When::Later);
            }
            self.follow_all(When::Later);
        }
    }
}

/// Apple's own: sealed with the system, whose build the combination names.
fn is_systems(path: &Path) -> bool {
    others::is_systems(path)
}
