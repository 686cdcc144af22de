//! Versions and builds of macOS in whatever form they were pasted.

use serde::Serialize;

use super::{Side, words};
use crate::evidence::codes::{Code, Severity};
use crate::evidence::finding::Finding;
use crate::os::{Build, Version, VersionError};

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
                    Finding { severity: Severity::Refusal, ..Finding::new(Code::CompatVersion, message) }
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
        } else if version.parse::<Version>().is_ok() {
            self.version.get_or_insert_with(|| version.to_owned());
        }
    }

    fn set_build(&mut self, build: &str) {
        if let (Ok(build), None) = (build.parse::<Build>(), &self.build) {
            self.is_beta = build.is_beta();
            self.build = Some(build.as_str().to_owned());
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

/// Tells whether a version is what macOS answers programs that were built for older systems.
fn is_compat(version: &str) -> bool {
    matches!(version.parse::<Version>(), Err(VersionError::Compatibility(_)))
}

fn is_build(text: &str) -> bool {
    text.parse::<Build>().is_ok()
}

/// The major version of macOS that a build belongs to.
pub fn macos_major(build: &str) -> Option<u32> {
    match build.parse::<Build>().ok()?.darwin_major() {
        darwin @ 20..=24 => Some(darwin - 9),
        darwin if darwin >= 25 => Some(darwin + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majors() {
        for (build, major) in
            [("25G76", Some(26)), ("24B2083", Some(15)), ("22F770820d", Some(13)), ("26A100", Some(27))]
        {
            assert_eq!(macos_major(build), major, "{build}");
        }
        assert_eq!(macos_major("nonsense"), None);
    }

    #[test]
    fn rapid_security_response_in_prose() {
        let mention = in_prose("OS Version: macOS 13.4.1 (c) (22F770820d)", None).unwrap();
        assert_eq!((mention.version.as_deref(), mention.extra.as_deref()), (Some("13.4.1"), Some("c")));
        assert_eq!(mention.build.as_deref(), Some("22F770820d"));
        assert_eq!(in_prose("guest: macOS 14 (hosted macos-14)", None), None);
    }
}
