//! What a log's history is about, read again in a tenth of the time that a whole profile takes.
//!
//! To know what is in force, three things of each earlier profile are needed: its id, its keys, and what it supersedes.
//! [`recall`] reads them from documents that were read as profiles before, and only where they are written plainly: any
//! spelling that it does not know for certain gives `None`, and the profile is parsed.

use super::ProfileId;
use crate::combination::{Chip, Combination, Key, Workload};
use crate::os::Build;

/// What the history needs of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recalled {
    /// Its id.
    pub id: ProfileId,
    /// As [`super::Profile::keys`] gives them.
    pub keys: Vec<Key>,
    /// The profile that it replaces.
    pub supersedes: Option<ProfileId>,
}

/// Reads what the history needs of a document that is a profile. Of another document it may say anything.
pub fn recall(toml: &str) -> Option<Recalled> {
    let mut found = Found::default();
    let mut section = "";
    let mut rest = toml;
    while !rest.is_empty() {
        let (line, behind) = rest.split_once('\n')?;
        let line = line.trim_matches(' ');
        if line.is_empty() || line.starts_with('#') {
            rest = behind;
        } else if line.starts_with('[') {
            section = header(line)?;
            rest = behind;
        } else {
            rest = found.take(section, rest)?;
        }
    }
    found.recalled()
}

/// The name of a table that has a part in the history; `other` for one that has none. A table in a table, or one that is
/// not known, could be anything.
fn header(line: &str) -> Option<&str> {
    match line {
        "[host]" | "[guest]" | "[workload]" => line.get(1..line.len().checked_sub(1)?),
        "[[workload.image]]" | "[[override]]" | "[[evidence]]" | "[[evidence.test]]" => Some("other"),
        _ => None,
    }
}

/// Plain strings, as they stand.
#[derive(Default)]
struct Found<'t> {
    id: Option<&'t str>,
    supersedes: Option<&'t str>,
    chip: Option<&'t str>,
    host_build: Option<&'t str>,
    guest_build: Option<&'t str>,
    sha256: Option<&'t str>,
    cdhash: Option<&'t str>,
}

impl<'t> Found<'t> {
    /// Takes the pair of key and value that `text` begins with and gives what follows it.
    fn take(&mut self, section: &str, text: &'t str) -> Option<&'t str> {
        let text = text.trim_start_matches(' ');
        let end = text.bytes().position(|b| !matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))?;
        let (key, behind) = text.split_at_checked(end)?;
        let value = behind.trim_start_matches(' ').strip_prefix('=')?.trim_start_matches(' ');
        let place = match (section, key) {
            ("", "id") => &mut self.id,
            ("", "supersedes") => &mut self.supersedes,
            ("host", "chip") => &mut self.chip,
            ("workload", "sha256") => &mut self.sha256,
            ("workload", "cdhash") => &mut self.cdhash,
            ("host", "os") => return build(&mut self.host_build, value),
            ("guest", "os") => return build(&mut self.guest_build, value),
            // Tables in their other spelling.
            ("", "host" | "guest" | "workload" | "") => return None,
            _ => return skip(value),
        };
        let (value, rest) = string(value)?;
        put(place, value)?;
        end_of_line(rest)
    }

    fn recalled(self) -> Option<Recalled> {
        let id: ProfileId = self.id?.parse().ok()?;
        let supersedes = self.supersedes.map(str::parse).transpose().ok()?;
        let host_chip: Chip = self.chip?.parse().ok()?;
        let host_os: Build = self.host_build?.parse().ok()?;
        let guest_os: Build = self.guest_build?.parse().ok()?;
        let sha256 = self.sha256.map(str::parse).transpose().ok()?.map(Workload::Sha256);
        let cdhash = self.cdhash.map(str::parse).transpose().ok()?.map(Workload::CdHash);
        let mut combination = None;
        let mut keys = Vec::new();
        for workload in sha256.into_iter().chain(cdhash) {
            let combination = combination.get_or_insert_with(|| Combination {
                host_chip: host_chip.clone(),
                host_os: host_os.clone(),
                guest_os: guest_os.clone(),
                workload,
            });
            combination.workload = workload;
            keys.push(combination.key());
        }
        if keys.is_empty() {
            keys.push(id.key());
        }
        Some(Recalled { id, keys, supersedes })
    }
}

/// No key stands twice.
fn put<'t>(place: &mut Option<&'t str>, value: &'t str) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// A basic string on one line that stands for its own characters, and what follows it.
fn string(text: &str) -> Option<(&str, &str)> {
    let (value, rest) = text.strip_prefix('"')?.split_once('"')?;
    // An empty one is one of three quotes' beginning, or as malformed here.
    let is_plain = !value.is_empty() && !value.contains(['\\', '\n']);
    is_plain.then_some((value, rest))
}

/// The `build` of a table of strings on one line, and what follows that line.
fn build<'t>(place: &mut Option<&'t str>, text: &'t str) -> Option<&'t str> {
    let mut rest = text.strip_prefix('{')?;
    loop {
        rest = rest.trim_start_matches(' ');
        let end = rest.bytes().position(|b| !b.is_ascii_lowercase())?;
        let (key, behind) = rest.split_at_checked(end)?;
        let (value, behind) =
            string(behind.trim_start_matches(' ').strip_prefix('=')?.trim_start_matches(' '))?;
        match key {
            "build" => put(place, value)?,
            "version" => {}
            _ => return None,
        }
        let behind = behind.trim_start_matches(' ');
        match behind.strip_prefix(',') {
            Some(more) => rest = more,
            None => return end_of_line(behind.strip_prefix('}')?),
        }
    }
}

/// What follows a line on which nothing but spaces is left.
fn end_of_line(text: &str) -> Option<&str> {
    text.trim_start_matches(' ').strip_prefix('\n')
}

/// What follows the lines of a value that has no part in the history.
fn skip(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0usize, 0usize);
    loop {
        match *bytes.get(at)? {
            b'\n' if depth == 0 => return text.get(at + 1..),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.checked_sub(1)?,
            b'#' => at += line_end(bytes.get(at + 1..)?)?,
            quote @ (b'"' | b'\'') => at += quoted(bytes.get(at + 1..)?, quote)?,
            _ => {}
        }
        at += 1;
    }
}

/// Bytes before the end of the line.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&b| b == b'\n')
}

/// Bytes of a string on one line and of its closing quote. Escapes, and strings in three quotes, are not for here.
fn quoted(bytes: &[u8], quote: u8) -> Option<usize> {
    let end = bytes.iter().position(|&b| b == quote || b == b'\n' || b == b'\\')?;
    let is_plain = bytes.get(end) == Some(&quote) && !(end == 0 && bytes.get(1) == Some(&quote));
    is_plain.then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    const GOOD: &str = include_str!("../../../tests/profiles/good.toml");
    const SHIPPED: [&str; 3] = [
        include_str!("../../../profiles.d/m1-ultra-25g76-25f84-llama-bench-b10167.toml"),
        include_str!("../../../profiles.d/m1-ultra-25g76-25f84-llama-bench-b10359.toml"),
        include_str!("../../../profiles.d/m1-ultra-25g76-25f84-mlx-lm-0-31-3.toml"),
    ];

    fn parsed(toml: &str) -> Option<Recalled> {
        let profile = Profile::parse(toml.as_bytes()).ok()?;
        let keys = profile.keys();
        Some(Recalled { id: profile.id, keys, supersedes: profile.supersedes })
    }

    /// Of what is no profile anything may be said.
    #[track_caller]
    fn agrees(toml: &str) -> bool {
        let (parsed, recalled) = (parsed(toml), recall(toml));
        if let (Some(parsed), Some(recalled)) = (&parsed, &recalled) {
            assert_eq!(recalled, parsed, "{toml}");
        }
        parsed.is_some() && recalled.is_some()
    }

    #[test]
    fn what_is_published_is_recalled_as_it_is_parsed() {
        for toml in SHIPPED.into_iter().chain([GOOD]) {
            assert!(agrees(toml), "{toml}");
        }
    }

    /// Each of them is a profile, in a spelling that could mislead whoever reads by lines.
    #[test]
    fn spellings_that_could_mislead_are_parsed_or_recalled_alike() {
        let id = "id = \"a-profile\"\n";
        assert!(GOOD.contains(id));
        let with = |id: &str| GOOD.replacen("id = \"a-profile\"\n", id, 1);
        let in_summary = |value: &str| {
            let line = GOOD.lines().find(|line| line.starts_with("summary = ")).unwrap();
            GOOD.replacen(line, &format!("summary = {value}"), 1)
        };
        let not_covered =
            |value: &str| GOOD.replacen("[workload]\n", &format!("[workload]\nnot_covered = {value}\n"), 1);
        let cases = [
            with("  id   =   \"a-profile\"   \n"),
            with("id = \"a-profile\" # id = \"another\"\n"),
            with("# id = \"another\"\nid = \"a-profile\"\n"),
            with("id = 'a-profile'\n"),
            with("\"id\" = \"a-profile\"\n"),
            with("id = \"\"\"a-profile\"\"\"\n"),
            with("id = \"a-pro\\u0066ile\"\n"),
            with("id = \"a-profile\"\nsupersedes = \"an-other\"\n"),
            with("id = \"a-profile\"\nsupersedes = \"an-\\u006fther\"\n"),
            in_summary("\"has ' and # and [ and {\""),
            in_summary("'has \" and # and ] and }'"),
            in_summary("\"an escaped \\\" quote\" # and \" here"),
            in_summary("\"\"\"in three quotes\"\"\""),
            in_summary("'''in three quotes'''"),
            not_covered("[\n  \"sha256 = 1\", # ] and \"\n  'cdhash = \"2\"',\n]"),
            not_covered("[\"one ] [\", \"two\" ]"),
            not_covered("[\n]"),
            GOOD.replacen("Apple M1 Ultra", "Apple M1 \\u0055ltra", 1),
            GOOD.replacen("[host]\n", "[ host ]\n", 1),
            GOOD.replacen("[host]\n", "[host] # [guest]\n", 1),
            GOOD.replacen("[host]\n", "[\"host\"]\n", 1),
            GOOD.replacen("[workload]\n", "\n  [workload]\n", 1),
            GOOD.replacen("build = ", "build=", 2),
            GOOD.replacen("build = \"", "\"build\" = \"", 1),
        ];
        let recalled = cases.iter().filter(|case| {
            assert!(parsed(case).is_some(), "{case}\n{:?}", Profile::parse(case.as_bytes()));
            agrees(case)
        });
        assert_eq!(recalled.count(), 10);
    }

    /// Tables of the host's and the guest's system may be spelled in other ways.
    #[test]
    fn tables_in_other_spellings_are_left_to_the_parser() {
        let os = GOOD.lines().find(|line| line.starts_with("os = {")).unwrap();
        let (version, build) =
            os.trim_start_matches("os = { ").trim_end_matches(" }").split_once(", ").unwrap();
        for spelled in [format!("os.{version}\nos.{build}"), format!("os = {{ {build}, {version} }}")] {
            let toml = GOOD.replacen(os, &spelled, 1);
            assert!(parsed(&toml).is_some(), "{toml}");
            agrees(&toml);
        }
        let table = GOOD.replacen(&format!("{os}\n"), "", 1).replacen(
            "[guest]\n",
            &format!("[host.os]\n{version}\n{build}\n[guest]\n"),
            1,
        );
        assert!(parsed(&table).is_some() && recall(&table).is_none());
    }

    #[test]
    fn a_change_of_any_character_is_recalled_as_it_is_parsed_or_not_at_all() {
        let mut both = 0u32;
        for (at, c) in GOOD.char_indices() {
            let (before, behind) = GOOD.split_at(at);
            let without = behind.strip_prefix(c).unwrap();
            for with in ["", "\"", "'", "\\", "\n", "#", "[", "}", " ", "\"\"\""] {
                both += u32::from(agrees(&format!("{before}{with}{without}")));
                both += u32::from(agrees(&format!("{before}{with}{behind}")));
            }
        }
        assert!(both > 1_000, "{both}");
    }
}
