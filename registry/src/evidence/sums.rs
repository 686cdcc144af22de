//! `SHA256SUMS`: which bytes a bundle consists of.

use std::collections::BTreeSet;

use serde::Serialize;

use super::codes::Code;
use super::finding::{Finding, excerpt};

/// Most bytes of a list of digests.
pub const MOST_BYTES: usize = 256 * 1024;
/// Most files it may list.
pub const MOST_FILES: usize = 2_000;

/// One listed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Path inside the bundle, without a leading `./`, parts separated by `/`.
    pub path: String,
    /// SHA-256 of the file's bytes, 64 lower-case hex digits.
    pub sha256: String,
}

/// What a list of digests says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Sums {
    /// The files, in the order of the list.
    pub files: Vec<Listed>,
    /// What is wrong with the list.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

impl Sums {
    /// The digest listed for a path.
    pub fn digest(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.sha256.as_str())
    }
}

/// Reads the output of `sha256sum` or `shasum -a 256`: names with or without `./`, in text or binary mode.
pub fn read(bytes: &[u8]) -> Sums {
    let mut sums = Sums::default();
    if bytes.len() > MOST_BYTES {
        let message = format!("the list has {} bytes, more than {MOST_BYTES}", bytes.len());
        sums.findings.push(Finding::new(Code::TooLarge, message));
        return sums;
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        sums.findings.push(Finding::new(Code::SumsMalformed, "the list is not UTF-8"));
        return sums;
    };
    let mut seen = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        match read_line(line) {
            Ok(file) if !seen.insert(file.path.clone()) => {
                let message = format!("line {number}: `{}` is listed twice", file.path);
                sums.findings.push(Finding::new(Code::SumsDuplicate, message));
            }
            Ok(_) if sums.files.len() == MOST_FILES => {
                let message = format!("the list names more than {MOST_FILES} files");
                sums.findings.push(Finding::new(Code::TooLarge, message));
                return sums;
            }
            Ok(file) => sums.files.push(file),
            Err((code, why)) => sums.findings.push(Finding::new(code, format!("line {number}: {why}"))),
        }
    }
    if sums.files.is_empty() && sums.findings.is_empty() {
        sums.findings.push(Finding::new(Code::SumsMalformed, "the list names no file"));
    }
    sums
}

fn read_line(line: &str) -> Result<Listed, (Code, String)> {
    let malformed = |why: &str| (Code::SumsMalformed, format!("`{}` {why}", excerpt(line)));
    if line.starts_with('\\') {
        return Err((Code::SumsPath, format!("`{}` has an escaped name", excerpt(line))));
    }
    let Some((digest, rest)) = line.split_once(' ') else {
        return Err(malformed("is not a digest and a name"));
    };
    if digest.len() != 64 || !digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(malformed("does not begin with 64 lower-case hex digits"));
    }
    let Some(name) = rest.strip_prefix(' ').or_else(|| rest.strip_prefix('*')) else {
        return Err(malformed("needs two spaces, or a space and `*`, before the name"));
    };
    let path = inside(name).map_err(|why| (Code::SumsPath, format!("`{}` {why}", excerpt(name))))?;
    Ok(Listed { path, sha256: digest.to_owned() })
}

/// The path of a file inside a bundle, without a leading `./`; the error says why it is none.
pub fn inside(name: &str) -> Result<String, &'static str> {
    let path = name.strip_prefix("./").unwrap_or(name);
    if path.is_empty() {
        return Err("is empty");
    }
    if path.len() > 512 {
        return Err("is longer than 512 bytes");
    }
    if path.starts_with('/') {
        return Err("is an absolute path");
    }
    if path.contains('\\') {
        return Err("holds a backslash");
    }
    if path.chars().any(|character| character.is_control()) {
        return Err("holds a control character");
    }
    if path.split('/').any(|part| part == "..") {
        return Err("leads out of the bundle");
    }
    if path.split('/').any(|part| part.is_empty() || part == ".") {
        return Err("has an empty part or a `.` in it");
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "77ea18086bba933176cdf2a830c0af1554d5746204c068b718ea4eab67530409";

    #[test]
    fn both_spellings_of_names_and_modes() {
        let text = format!("{DIGEST}  a.json\n{DIGEST}  ./b.json\n{DIGEST} *dir/c.json\n");
        let sums = read(text.as_bytes());
        assert_eq!(sums.findings, []);
        let paths: Vec<&str> = sums.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a.json", "b.json", "dir/c.json"]);
        assert_eq!(sums.digest("b.json"), Some(DIGEST));
    }

    #[test]
    fn each_bad_line_has_its_code() {
        let upper = DIGEST.to_uppercase();
        for (line, code) in [
            (format!("{DIGEST}  ../a"), Code::SumsPath),
            (format!("{DIGEST}  a/../../b"), Code::SumsPath),
            (format!("{DIGEST}  /etc/passwd"), Code::SumsPath),
            (format!("{DIGEST}  .//etc/passwd"), Code::SumsPath),
            (format!("{DIGEST}  a\\b"), Code::SumsPath),
            (format!("\\{DIGEST}  a\\nb"), Code::SumsPath),
            (format!("{DIGEST}  "), Code::SumsPath),
            (format!("{DIGEST}  a\tb"), Code::SumsPath),
            (format!("{DIGEST}  a/"), Code::SumsPath),
            (format!("{upper}  a"), Code::SumsMalformed),
            (format!("{}  a", DIGEST.trim_start_matches('7')), Code::SumsMalformed),
            (format!("{DIGEST} a"), Code::SumsMalformed),
            (format!("SHA256 (a) = {DIGEST}"), Code::SumsMalformed),
            (format!("{DIGEST}  a\n{DIGEST}  ./a"), Code::SumsDuplicate),
            (String::new(), Code::SumsMalformed),
        ] {
            let found: Vec<Code> =
                read(line.as_bytes()).findings.iter().map(|finding| finding.code).collect();
            assert_eq!(found, [code], "{line}");
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let many: String = (0..=MOST_FILES).map(|index| format!("{DIGEST}  f{index}\n")).collect();
        assert_eq!(read(many.as_bytes()).findings[0].code, Code::TooLarge);
        assert_eq!(read(&vec![b'a'; MOST_BYTES + 1]).findings[0].code, Code::TooLarge);
        assert_eq!(read(&[0xff]).findings[0].code, Code::SumsMalformed);
    }
}
