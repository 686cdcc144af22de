//! The list of what was installed, one line each:
//!
//! ```text
//! capgate installed v1
//! folder bin
//! file sha256:28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7 bin/capgate
//! state etc/capgate/host.note
//! ```
//!
//! It is written before the files that it names, so that an installation that was interrupted can be taken away too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use capgate_registry::combination::Sha256Digest;
use capgate_registry::text::is_forbidden;

/// Largest list that is read, in bytes.
pub const MAX_BYTES: u64 = 64 << 20;
const FIRST: &str = "capgate installed v1";

/// What was installed, by paths relative to the prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Folders that were made.
    pub folders: BTreeSet<String>,
    /// Files that were written, and their digests at that time.
    pub files: BTreeMap<String, Sha256Digest>,
    /// Files that capgate itself writes, whatever they hold by now.
    pub state: BTreeSet<String>,
}

/// Says why a list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} {what}")]
pub struct ManifestError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

impl Manifest {
    /// Reads the list. A path that could lead out of the prefix is an error.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let error = |line, what| ManifestError { line, what };
        let text = std::str::from_utf8(bytes).map_err(|_| error(1, "is no text"))?;
        let text = text.strip_suffix('\n').ok_or_else(|| error(text.lines().count(), "does not end"))?;
        let mut lines = text.split('\n').enumerate().map(|(at, line)| (at + 1, line));
        if lines.next().is_none_or(|(_, line)| line != FIRST) {
            return Err(error(1, "is not `capgate installed v1`"));
        }
        let mut manifest = Self::default();
        for (at, line) in lines {
            manifest.read_line(line).map_err(|what| error(at, what))?;
        }
        Ok(manifest)
    }

    fn read_line(&mut self, line: &str) -> Result<(), &'static str> {
        if let Some(path) = line.strip_prefix("folder ") {
            self.folders.insert(inside(path)?.to_owned());
            return Ok(());
        }
        if let Some(path) = line.strip_prefix("state ") {
            self.state.insert(inside(path)?.to_owned());
            return Ok(());
        }
        let rest = line.strip_prefix("file sha256:").ok_or("is neither a folder nor a file")?;
        let (digest, path) = rest.split_once(' ').ok_or("names no path")?;
        let digest = digest.parse().map_err(|_| "has no digest")?;
        self.files.insert(inside(path)?.to_owned(), digest);
        Ok(())
    }

    /// The list as it is written.
    pub fn to_text(&self) -> String {
        let mut text = format!("{FIRST}\n");
        for path in &self.folders {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "folder {path}");
        }
        for (path, digest) in &self.files {
            let _ = writeln!(text, "file sha256:{digest} {path}");
        }
        for path in &self.state {
            let _ = writeln!(text, "state {path}");
        }
        text
    }
}

/// A path that stays inside the prefix.
fn inside(path: &str) -> Result<&str, &'static str> {
    let good = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(is_forbidden);
    if path.split('/').all(good) { Ok(path) } else { Err("names a path that could lead out of the prefix") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_reads_back() {
        let mut manifest = Manifest::default();
        assert_eq!(Manifest::parse(manifest.to_text().as_bytes()), Ok(manifest.clone()));
        manifest.folders.extend(["bin".to_owned(), "etc/capgate".to_owned()]);
        manifest.files.insert("bin/a b".to_owned(), "1".repeat(64).parse().unwrap());
        manifest.state.insert("etc/capgate/seen".to_owned());
        assert_eq!(Manifest::parse(manifest.to_text().as_bytes()), Ok(manifest));
    }

    #[test]
    fn a_list_that_leads_out_or_is_damaged_is_refused() {
        let digest = "1".repeat(64);
        for bad in [
            "folder /etc",
            "folder ../x",
            "folder a/../b",
            "folder a//b",
            "folder ",
            "folder a/",
            "folder .",
            "folder a\u{1b}b",
            "link a",
            "state ../../etc/passwd",
            "",
            &format!("file sha256:{digest}"),
            &format!("file sha256:{digest} /etc/passwd"),
            "file sha256:00 a",
        ] {
            let text = format!("{FIRST}\nfolder bin\n{bad}\n");
            assert_eq!(Manifest::parse(text.as_bytes()).unwrap_err().line, 3, "{bad}");
        }
        for bad in
            ["", "\n", "capgate installed v2\n", "capgate installed v1", "\u{feff}capgate installed v1\n"]
        {
            assert!(Manifest::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(Manifest::parse(b"\xff\n").is_err());
    }
}
