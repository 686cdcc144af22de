//! What was ever verified in a prefix, as a file of its own: TOML that `sync` writes and every reader holds against.

use std::fmt::Write;
use std::str::FromStr;

use crate::document::{self, Problem, Table};
use crate::merkle::Hash;
use crate::reader::Seen;

/// Largest such file that is read, in bytes.
pub const MAX_BYTES: usize = 1_000;

impl Seen {
    /// Reads the file. One that is not understood in full is refused: with a part of it skipped, time could be turned
    /// back.
    pub fn parse(toml: &[u8]) -> Result<Self, Vec<Problem>> {
        let (seen, problems) = document::read(toml, MAX_BYTES, read);
        seen.ok_or(problems)
    }

    /// The file's text.
    pub fn to_toml(&self) -> String {
        let mut text = format!("version = {}\n", self.version);
        // Writing to a string cannot fail.
        let _ = self.root.map(|root| writeln!(text, "root = \"sha256:{root}\""));
        let _ = writeln!(text, "log_size = {}", self.log_size);
        let _ = self.log_root.map(|root| writeln!(text, "log_root = \"sha256:{root}\""));
        let _ = writeln!(text, "trust = {}", self.trust);
        let _ = self.time.map(|time| writeln!(text, "time = {time}"));
        text
    }
}

/// `sha256:` and 64 digits.
struct Root(Hash);

impl FromStr for Root {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("sha256:").ok_or("is not `sha256:` and 64 digits")?;
        digits.parse().map(Self).map_err(|e| format!("{e}"))
    }
}

fn read(table: &Table<'_>) -> Option<Seen> {
    let version = table.require_integer("version");
    let root = table.parse::<Root>("root").map(|s| s.value.0);
    let log_size = table.require_integer("log_size");
    let log_root = table.parse::<Root>("log_root").map(|s| s.value.0);
    let trust = table.require_integer("trust");
    let time = table.instant("time").map(|s| s.value);
    table.finish();
    Some(Seen {
        version: version?.value,
        root,
        log_size: log_size?.value,
        log_root,
        trust: trust?.value,
        time,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let root = Some(Hash([7; 32]));
        let time = Some("2026-12-01T00:00:00Z".parse().unwrap());
        let seen = Seen { version: 3, root, log_size: 9, log_root: root, trust: 1, time };
        assert_eq!(Seen::parse(seen.to_toml().as_bytes()).unwrap(), seen);
        let none = Seen::default();
        assert_eq!(Seen::parse(none.to_toml().as_bytes()).unwrap(), none);
    }

    #[test]
    fn attack_a_memory_with_a_part_missing_is_no_memory() {
        let text = Seen { version: 3, ..Seen::default() }.to_toml();
        for line in text.lines() {
            let without = text.replace(&format!("{line}\n"), "");
            assert!(Seen::parse(without.as_bytes()).is_err(), "without {line}");
        }
        assert!(Seen::parse(format!("{text}versoin = 4\n").as_bytes()).is_err());
        assert!(Seen::parse(text.replace("log_size = 0", "log_root = \"sha256:7\"").as_bytes()).is_err());
    }
}
