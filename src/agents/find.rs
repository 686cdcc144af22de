//! Where launch agents lie, which label each has, and which of them name a path.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plist::Value;

use crate::world::file;

/// Largest property list that is parsed, in bytes: what is nested deeply needs as much of the stack.
const MAX_PARSED: u64 = 1 << 16;
/// Largest that is searched for a path as it is, in bytes.
const MAX_SEARCHED: u64 = 1 << 24;

/// The folders that are looked into.
#[derive(Debug)]
pub struct Folders {
    /// The folders; the first is the one that is written to.
    pub all: Vec<PathBuf>,
}

/// The folder of those agents and daemons that an administrator gives every user.
const SHARED: [&str; 2] = ["/Library/LaunchAgents", "/Library/LaunchDaemons"];
/// Where the folders of all users are.
const USERS: &str = "/Users";

impl Folders {
    /// The folder that was given, or those that the system reads: this user's, and the shared ones.
    pub fn new(given: Option<&Path>) -> Option<Self> {
        if let Some(given) = given {
            return Some(Self { all: vec![std::path::absolute(given).ok()?] });
        }
        let home = std::env::home_dir().filter(|home| home.is_absolute())?;
        let own = home.join("Library/LaunchAgents");
        Some(Self { all: std::iter::once(own).chain(SHARED.map(PathBuf::from)).collect() })
    }

    /// The same, and those of every other user where this one may look into them.
    pub fn of_everyone(given: Option<&Path>) -> Option<Self> {
        let mut folders = Self::new(given)?;
        if given.is_none() && rustix::process::getuid().is_root() {
            let homes = fs::read_dir(USERS).into_iter().flatten().filter_map(Result::ok);
            folders.all.extend(homes.map(|home| home.path().join("Library/LaunchAgents")));
        }
        Some(folders)
    }

    /// Every property list in them.
    pub fn lists(&self) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
        let mut lists = Vec::new();
        for folder in &self.all {
            let entries = match fs::read_dir(folder) {
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                entries => entries.map_err(|e| (folder.clone(), e))?,
            };
            for entry in entries {
                let path = entry.map_err(|e| (folder.clone(), e))?.path();
                if path.extension().is_some_and(|extension| extension == "plist") {
                    lists.push(path);
                }
            }
        }
        lists.sort();
        lists.dedup();
        Ok(lists)
    }

    /// Another file than `own` that has that label.
    pub fn other_with(&self, label: &str, own: &Path) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
        let has = |path: &PathBuf| {
            let Found::List(value) = Found::read(path) else { return false };
            let found = value.as_dictionary().and_then(|list| list.get("Label")).and_then(Value::as_string);
            found == Some(label)
        };
        Ok(self.lists()?.into_iter().filter(|path| path != own).find(has))
    }
}

/// What a path holds.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A property list.
    List(Value),
    /// Something else; the text says what.
    Other(String),
}

impl Found {
    /// Reads it, whatever it is.
    pub fn read(path: &Path) -> Self {
        let bytes = match file::read_shared(path, MAX_PARSED) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Self::Nothing,
            Err(e) => return Self::Other(e.to_string()),
            Ok(bytes) => bytes,
        };
        match Value::from_reader(io::Cursor::new(bytes)) {
            Ok(value) => Self::List(value),
            Err(e) => Self::Other(format!("is no property list: {e}")),
        }
    }
}

/// Tells whether a property list names something below a folder. What cannot be read is an error.
pub fn naming(path: &Path, folder: &Path) -> io::Result<bool> {
    // A link there is as good as the file for launchd; a folder or a pipe is nothing.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Ok(false);
    }
    let bytes = match file::read(path, MAX_SEARCHED) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        bytes => bytes?,
    };
    // A Mac's disk takes `A` and `a` for one letter.
    let below = format!("{}/", folder.display()).to_ascii_lowercase();
    let parsed = (bytes.len() as u64 <= MAX_PARSED).then(|| Value::from_reader(io::Cursor::new(&bytes)));
    if let Some(Ok(value)) = parsed {
        return Ok(holds(&value, &below));
    }
    // What launchd might still read differently is searched as it is.
    let bytes = bytes.to_ascii_lowercase();
    Ok(bytes.windows(below.len()).any(|part| part == below.as_bytes()))
}

fn holds(value: &Value, below: &str) -> bool {
    let in_text = |text: &str| text.to_ascii_lowercase().contains(below);
    match value {
        Value::String(text) => in_text(text),
        Value::Array(items) => items.iter().any(|item| holds(item, below)),
        Value::Dictionary(items) => items.iter().any(|(key, item)| in_text(key) || holds(item, below)),
        _ => false,
    }
}
