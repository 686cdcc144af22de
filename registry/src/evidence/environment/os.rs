//! Versions and builds of macOS in whatever form they were pasted.

use serde::Serialize;

use super::{Side, words};
use crate::evidence::codes::Code;
use crate::evidence::finding::Finding;

/// One operating system that a file names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct OsMention {
    /// Which machine, where that is known.
    pub side: Option<Side>,
    /// The version for people; never one of compatibility mode.
    pub version: Option<String>,
    /// The extra of a rapid security response, `c`.
    pub extra: Option<String>,
    /// The build, which decides.
    pub build: Option<String>,
    /// Whether the build is a beta.
    pub is_beta: bool,
    /// Versions that compatibility mode answered with.
    pub compat: Vec<String>,
}

impl OsMention {
    /// What has to be said about it.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(version) = self.compat.first() {
            let finding = match (&self.build, &self.version) {
                (None, _) => {
                    let message = format!(
                        "`{version}` is an answer of compatibility mode, and no build says which release"
                    );
                    Finding {
                        severity: crate::evidence::codes::Severity::Refusal,
                        ..Finding::new(Code::CompatVersion, message)
                    }
                }
                (Some(build), _) => {
                    let major = macos_major(build).map_or_else(|| "?".to_owned(), |major| major.to_string());
                    let message = format!(
                        "`{version}` is an answer of compatibility mode; build `{build}` is macOS {major}"
                    );
                    Finding::new(Code::CompatVersion, message)
                }
            };
            findings.push(finding);
        }
        if self.is_beta {
            let build = self.build.as_deref().unwrap_or_default();
            findings.push(Finding::new(
                Code::BetaBuild,
                format!("build `{build}` is a beta, whatever the version says"),
            ));
        }
        findings
    }

    fn is_empty(&self) -> bool {
        self.version.is_none() && self.build.is_none() && self.compat.is_empty()
    }

    fn set_version(&mut self, version: &str) {
        if is_compat(version) {
            if !self.compat.iter().any(|known| known == version) {
                self.compat.push(version.to_owned());
            }
        } else if is_version(version) {
            self.version.get_or_insert_with(|| version.to_owned());
        }
    }

    fn set_build(&mut self, build: &str) {
        if is_build(build) && self.build.is_none() {
            self.build = Some(build.to_owned());
            self.is_beta = is_beta(build);
        }
    }
}

/// Gathers what consecutive lines say; `name: value` lines of one side make one mention.
#[derive(Default)]
pub(super) struct Collector {
    done: Vec<OsMention>,
    open: OsMention,
}

impl Collector {
    /// Takes in a line that was said of a side.
    pub(super) fn line(&mut self, line: &str, side: Option<Side>) {
        if let Some(mention) = in_prose(line, side) {
            self.done.push(mention);
            return;
        }
        let Some((name, value)) = words::pair(line) else { return };
        if side != self.open.side {
            self.close();
            self.open.side = side;
        }
        match name.split_whitespace().next().unwrap_or_default() {
            "ProductVersion" | "kern.osproductversion" | "kern.osproductversioncompat" => {
                self.open.set_version(value)
            }
            "ProductVersionExtra" => {
                self.open.extra = Some(value.trim_matches(['(', ')']).to_owned());
            }
            "BuildVersion" | "ProductBuildVersion" | "kern.osversion" => self.open.set_build(value),
            _ => {}
        }
    }

    fn close(&mut self) {
        let mention = std::mem::take(&mut self.open);
        if !mention.is_empty() {
            self.done.push(mention);
        }
    }

    /// Every mention, in the order of the file.
    pub(super) fn finish(mut self) -> Vec<OsMention> {
        self.close();
        self.done
    }
}

/// `macOS 26.0 (25A5351b)`, `macOS: 26.6.1 (25G76)`, `OS Version: macOS 13.4.1 (c) (22F770820d)`
fn in_prose(line: &str, side: Option<Side>) -> Option<OsMention> {
    let (_, rest) = line.split_once("macOS")?;
    let mut words = rest.trim_start_matches(':').split_whitespace();
    let version = words.next()?.trim_end_matches(',');
    let mut mention = OsMention { side, ..OsMention::default() };
    mention.set_version(version);
    for word in words.take(3) {
        let inner =
            word.strip_prefix('(').and_then(|word| word.trim_end_matches(['.', ',', ';']).strip_suffix(')'));
        match inner {
            Some(inner) if is_build(inner) => {
                mention.set_build(inner);
                return Some(mention);
            }
            Some(inner) if inner.len() == 1 => mention.extra = Some(inner.to_owned()),
            _ => {}
        }
    }
    None
}

fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    (1..=3).contains(&parts.len())
        && parts
            .iter()
            .all(|part| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_compat(version: &str) -> bool {
    is_version(version)
        && (version == "16"
            || version.starts_with("16.")
            || version == "10.16"
            || version.starts_with("10.16."))
}

/// Two digits, a capital, two to six digits (six in rapid security responses), at most one small letter.
fn is_build(text: &str) -> bool {
    let core = text.strip_suffix(|last: char| last.is_ascii_lowercase()).unwrap_or(text);
    let bytes = core.as_bytes();
    matches!(bytes, [a, b, c, number @ ..]
        if a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_uppercase()
            && (2..=6).contains(&number.len()) && number.iter().all(u8::is_ascii_digit))
}

/// A number of at least 5000 in four digits, with a letter.
fn is_beta(build: &str) -> bool {
    let number: Vec<u8> = build.bytes().skip(3).collect();
    matches!(number.as_slice(), [b'5'..=b'9', b, c, d, letter]
        if [b, c, d].iter().all(|digit| digit.is_ascii_digit()) && letter.is_ascii_lowercase())
}

/// The major version of macOS that a build belongs to: its first number is Darwin's.
pub fn macos_major(build: &str) -> Option<u32> {
    let darwin: u32 = build.get(..2)?.parse().ok()?;
    match darwin {
        20..=24 => Some(darwin - 9),
        25.. => Some(darwin + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_betas_and_majors() {
        for (build, beta, major) in [
            ("25G76", false, 26),
            ("25A5351b", true, 26),
            ("24B2083", false, 15),
            ("22F770820d", false, 13),
            ("26A100", false, 27),
            ("20A5384c", true, 11),
        ] {
            assert!(is_build(build), "{build}");
            assert_eq!((is_beta(build), macos_major(build)), (beta, Some(major)), "{build}");
        }
        for text in ["25G", "2G76", "25g76", "25G76bb", "M1", "", "25G7"] {
            assert!(!is_build(text), "{text}");
        }
    }

    #[test]
    fn versions_of_compatibility_mode() {
        for version in ["16.0", "16.6.1", "16", "10.16"] {
            assert!(is_compat(version), "{version}");
        }
        for version in ["15.6", "26.0", "160.1", "10.15", "1.16"] {
            assert!(!is_compat(version), "{version}");
        }
    }

    #[test]
    fn rapid_security_response_in_prose() {
        let mention = in_prose("OS Version: macOS 13.4.1 (c) (22F770820d)", None).unwrap();
        assert_eq!((mention.version.as_deref(), mention.extra.as_deref()), (Some("13.4.1"), Some("c")));
        assert_eq!(mention.build.as_deref(), Some("22F770820d"));
        assert_eq!(in_prose("guest: macOS 14 (hosted macos-14)", None), None);
    }
}
