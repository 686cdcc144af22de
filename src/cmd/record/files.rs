//! The files that a run is made of, and their digests.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use capgate_guest::binary::Binary;
use capgate_guest::identity;
use capgate_registry::evidence::llama_bench;
use capgate_registry::evidence::run_record::{FileRecord, FileRole, RunRecord, samples};

use super::recorder::{Options, unknown};
use crate::cmd::run::program;
use crate::ui::progress;
use crate::world::digests::{Digests, Stamp};
use crate::world::file;

/// Most files that a command line is searched for.
const MOST_ARGUMENTS: usize = 1_000;
/// From this size on, in bytes, hashing shows a bar.
const LARGE: u64 = 1 << 30;

/// Files by what they are to the run, each with its stamp as it was noted.
#[derive(Debug, Default)]
pub struct Files {
    noted: BTreeMap<(FileRole, PathBuf), Option<Stamp>>,
}

impl Files {
    /// What is known before the start: the program, files that the command line names, what the options name.
    pub fn new(command: &Command, directory: &Path, options: &Options, notes: &mut Vec<String>) -> Self {
        let mut files = Self::default();
        if let Ok(found) = program::find(command.get_program()) {
            files.add(FileRole::Program, &directory.join(found.path));
        }
        for path in command.get_args().flat_map(|word| named(word, directory)) {
            if files.noted.len() >= MOST_ARGUMENTS {
                notes.push(format!("only the first {MOST_ARGUMENTS} files of the command line are recorded"));
                break;
            }
            files.add(FileRole::Argument, &path);
        }
        for (role, path) in [(FileRole::Probe, &options.probe), (FileRole::VmImage, &options.vm_image)] {
            if let Some(path) = path {
                files.add(role, &std::path::absolute(path).unwrap_or_else(|_| path.clone()));
            }
        }
        files
    }

    /// Adds a file, unless it is there in that role.
    pub fn add(&mut self, role: FileRole, path: &Path) {
        // The program itself is found in the process, too.
        let same = |other: FileRole| self.noted.contains_key(&(other, path.to_owned()));
        if role == FileRole::Executable && same(FileRole::Program) {
            return;
        }
        self.noted.entry((role, path.to_owned())).or_insert_with(|| Stamp::of(path).ok());
    }

    /// Reads the raw samples that the run wrote.
    pub fn read_samples(&mut self, paths: &[PathBuf], record: &mut RunRecord) {
        for path in paths {
            let name = path.to_string_lossy().into_owned();
            let read = file::read(path, llama_bench::MOST_BYTES as u64).map_err(|e| e.to_string());
            match read.and_then(|bytes| samples::of_file(&name, &bytes)) {
                Ok(found) => record.run.samples.extend(found),
                Err(why) => record.unknown.push(unknown(format!("run.samples {name}"), why)),
            }
            self.add(FileRole::Samples, path);
        }
    }

    /// Hashes all of them into the record.
    pub fn into_record(self, record: &mut RunRecord, stop: &mut dyn FnMut() -> bool) {
        let mut digests = Digests::open();
        for ((role, path), before) in self.noted {
            let shown = path.to_string_lossy().into_owned();
            let mut entry = FileRecord {
                role,
                path: shown.clone(),
                size: None,
                sha256: None,
                cdhash: None,
                cached: false,
            };
            match digest(&mut digests, &path, stop) {
                Ok(known) => {
                    entry.size = Some(known.stamp.size);
                    entry.sha256 = Some(known.sha256);
                    entry.cached = known.cached;
                    if before.is_some_and(|before| before != known.stamp) {
                        record.notes.push(format!("`{shown}` changed while the program ran"));
                    }
                    if matches!(Binary::of_file(&path), Ok(Binary::MachO(_))) {
                        entry.cdhash = identity::of_file(&path).ok().and_then(|file| file.own_cdhash());
                    }
                }
                Err(e) => record.unknown.push(unknown(format!("files {shown}"), e.to_string())),
            }
            record.files.push(entry);
        }
    }
}

fn digest(
    digests: &mut Digests,
    path: &Path,
    stop: &mut dyn FnMut() -> bool,
) -> io::Result<crate::world::digests::Known> {
    if stop() {
        return Err(io::Error::other("hashing was interrupted"));
    }
    let size = Stamp::of(path)?.size;
    let bar = (size >= LARGE).then(|| progress::bytes("hashing", size));
    let known = digests.of(path, &mut |done| {
        if let Some(bar) = &bar {
            bar.set_position(done);
        }
        if stop() { Err(io::Error::other("hashing was interrupted")) } else { Ok(()) }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    known
}

/// Regular files that an argument names: as a whole, behind `=`, or as one of several with commas between. Of a model
/// in parts, all parts.
fn named(word: &OsStr, directory: &Path) -> Vec<PathBuf> {
    let whole = word.as_bytes();
    let behind = whole.iter().position(|byte| *byte == b'=').and_then(|at| whole.get(at + 1..));
    let mut found = Vec::new();
    for text in [Some(whole), behind].into_iter().flatten() {
        // What the kernel makes up as it is read has no digest, and `/proc/kcore` has no end.
        let is_made_up = |path: &PathBuf| ["/proc", "/sys", "/dev"].iter().any(|root| path.starts_with(root));
        let path = |text: &[u8]| {
            Some(directory.join(OsStr::from_bytes(text))).filter(|path| !is_made_up(path) && path.is_file())
        };
        let several = text.split(|byte| *byte == b',').filter(|part| !part.is_empty());
        match path(text).filter(|_| !text.is_empty()) {
            Some(path) => found.push(path),
            None => found.extend(several.filter_map(path)),
        }
    }
    let parts: Vec<PathBuf> = found.iter().flat_map(|path| other_parts(path)).collect();
    found.extend(parts);
    found
}

/// `model-00002-of-00003.gguf` and so on for the first of them, as llama.cpp opens them.
fn other_parts(path: &Path) -> Vec<PathBuf> {
    const MOST: u32 = 1_000;
    let parts = || {
        let name = path.file_name()?.to_str()?;
        let (start, rest) = name.split_once("-00001-of-")?;
        let count: u32 = rest.strip_suffix(".gguf")?.parse().ok().filter(|count| *count <= MOST)?;
        let part = |number| path.with_file_name(format!("{start}-{number:05}-of-{rest}"));
        Some((2..=count).map(part).filter(|path| path.is_file()).collect())
    };
    parts().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_however_an_argument_names_them() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.gguf", "b.gguf", "x=y", "m-00001-of-00003.gguf", "m-00002-of-00003.gguf"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = |word: &str| -> Vec<String> {
            let paths = named(word.as_ref(), folder.path());
            paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(found("a.gguf"), ["a.gguf"]);
        assert_eq!(found("--model=a.gguf"), ["a.gguf"]);
        assert_eq!(found("a.gguf,b.gguf,c.gguf"), ["a.gguf", "b.gguf"]);
        assert_eq!(found("x=y"), ["x=y"]);
        assert_eq!(found("m-00001-of-00003.gguf"), ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf"]);
        for word in ["", "=", ",", ".", "nothing", "--model=", "/proc/cpuinfo", "/dev/null"] {
            assert_eq!(found(word), Vec::<String>::new(), "{word}");
        }
    }
}
