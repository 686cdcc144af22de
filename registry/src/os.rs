//! macOS versions and build numbers.
//!
//! A build identifies one release; a version is for people. Version strings drop zeros (`26.6`), lie under
//! compatibility mode (`16.0`, `10.16`) and hide betas, so decisions use builds, and a version beside a build only has
//! to agree with it.

use std::fmt;
use std::str::FromStr;

/// A build number such as `25G76`, the beta `25A5316i` or the rapid security response `22F770820d`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Build(String);

/// Says why a build number is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a macOS build such as `25G76`")]
pub struct BuildError(String);

impl Build {
    /// The build as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Major version of Darwin, the kernel: 25 for macOS 26.
    pub fn darwin_major(&self) -> u32 {
        self.0.get(..2).and_then(|digits| digits.parse().ok()).unwrap_or_default()
    }

    /// Tells whether it is a beta: a number from 5000 up and a letter at the end.
    pub fn is_beta(&self) -> bool {
        !self.is_rapid_response() && self.suffix().is_some() && self.number() >= 5000
    }

    /// Tells whether it is a rapid security response: six digits and a letter.
    pub fn is_rapid_response(&self) -> bool {
        self.0.len() == 10
    }

    fn number(&self) -> u32 {
        let digits: String = self.0.chars().skip(3).filter(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_default()
    }

    fn suffix(&self) -> Option<char> {
        self.0.chars().last().filter(char::is_ascii_lowercase)
    }
}

impl FromStr for Build {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<Self, BuildError> {
        let bytes = text.as_bytes();
        let error = || BuildError(text.to_owned());
        let [major @ .., _] = bytes.get(..3).ok_or_else(error)? else { return Err(error()) };
        let train = bytes.get(2).ok_or_else(error)?;
        let rest = bytes.get(3..).ok_or_else(error)?;
        let (digits, letter) = match rest {
            [digits @ .., last] if last.is_ascii_lowercase() => (digits, true),
            digits => (digits, false),
        };
        let well_formed = major.iter().all(u8::is_ascii_digit)
            && train.is_ascii_uppercase()
            && digits.iter().all(u8::is_ascii_digit)
            && ((2..=4).contains(&digits.len()) || (digits.len() == 6 && letter));
        if well_formed { Ok(Self(text.to_owned())) } else { Err(error()) }
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A version such as `26.6`, `26.6.1`, `13.4.1 (c)` or `26.0 beta 3`. Equal when the numbers are: `26.6` is `26.6.0`.
#[derive(Debug, Clone)]
pub struct Version {
    written: String,
    numbers: (u32, u32, u32),
    extra: Option<char>,
    beta: bool,
}

/// Says why a version cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// It does not have the form of a version.
    #[error("`{0}` is not a macOS version such as `26.6.1`")]
    Malformed(String),
    /// It is what macOS tells programs that were built for older systems.
    #[error(
        "`{0}` is a compatibility answer, not a release: read the version from SystemVersion.plist or `sw_vers`"
    )]
    Compatibility(String),
    /// No macOS for Apple silicon has it.
    #[error("`{0}` is no macOS release for Apple silicon")]
    NeverReleased(String),
    /// The build belongs to another version.
    #[error("version `{version}` and build `{build}` do not belong together: {why}")]
    Disagrees {
        /// The version as written.
        version: String,
        /// The build.
        build: Build,
        /// What does not fit.
        why: String,
    },
}

impl Version {
    /// The version as written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Major, minor and patch, absent ones being 0.
    pub fn numbers(&self) -> (u32, u32, u32) {
        self.numbers
    }

    /// The three numbers as a semantic version, for version ranges in deny rules.
    pub fn to_semver(&self) -> semver::Version {
        let (major, minor, patch) = self.numbers;
        semver::Version::new(major.into(), minor.into(), patch.into())
    }

    /// Checks that `build` can be a build of this version. Minor versions are not derived from a build's letter, since
    /// the letters skip.
    pub fn agrees_with(&self, build: &Build) -> Result<(), VersionError> {
        let expected = self.darwin_major();
        let found = build.darwin_major();
        if expected != found {
            let why = format!("macOS {} has builds that begin with {expected}", self.numbers.0);
            return Err(self.disagrees(build, why));
        }
        if build.is_rapid_response() && self.extra.is_none() {
            return Err(self
                .disagrees(build, "a rapid response is written with its letter, as in `13.4.1 (c)`".into()));
        }
        if self.beta && !build.is_beta() {
            return Err(self.disagrees(build, "a beta has a number from 5000 up and a letter".into()));
        }
        Ok(())
    }

    fn disagrees(&self, build: &Build, why: String) -> VersionError {
        VersionError::Disagrees { version: self.written.clone(), build: build.clone(), why }
    }

    fn darwin_major(&self) -> u32 {
        if self.numbers.0 >= 26 { self.numbers.0 - 1 } else { self.numbers.0 + 9 }
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        (self.numbers, self.extra, self.beta) == (other.numbers, other.extra, other.beta)
    }
}

impl Eq for Version {}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let malformed = || VersionError::Malformed(text.to_owned());
        let (numbers, qualifier) = text.split_once(' ').map_or((text, None), |(n, q)| (n, Some(q)));
        let mut parts = numbers.split('.').map(number);
        let major = parts.next().flatten().ok_or_else(malformed)?;
        let minor = parts.next().flatten().ok_or_else(malformed)?;
        let patch = parts.next().unwrap_or(Some(0)).ok_or_else(malformed)?;
        if parts.next().is_some() {
            return Err(malformed());
        }
        let (extra, beta) = match qualifier {
            None => (None, false),
            Some(word) => read_qualifier(word).ok_or_else(malformed)?,
        };
        match (major, minor) {
            (16, _) | (10, 16) => return Err(VersionError::Compatibility(text.to_owned())),
            (11..=15, _) | (26..=99, _) => {}
            _ => return Err(VersionError::NeverReleased(text.to_owned())),
        }
        Ok(Self { written: text.to_owned(), numbers: (major, minor, patch), extra, beta })
    }
}

/// `(c)` is a rapid response, `beta` and `beta 3` a beta.
fn read_qualifier(word: &str) -> Option<(Option<char>, bool)> {
    if let Some(inner) = word.strip_prefix('(').and_then(|w| w.strip_suffix(')')) {
        let mut letters = inner.chars();
        let letter = letters.next().filter(char::is_ascii_lowercase)?;
        return letters.next().is_none().then_some((Some(letter), false));
    }
    let rest = word.strip_prefix("beta")?;
    let plain = rest.is_empty() || rest.strip_prefix(' ').and_then(number).is_some();
    plain.then_some((None, true))
}

fn number(text: &str) -> Option<u32> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let padded = text.len() > 1 && text.starts_with('0');
    if plain && !padded { text.parse().ok() } else { None }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// One operating system: the build decides, the version is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Os {
    /// As people know it, for example `26.6.1`.
    pub version: Version,
    /// As the kernel knows it, for example `25G76`.
    pub build: Build,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(text: &str) -> Build {
        text.parse().unwrap()
    }

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn builds_of_releases_variants_betas_and_responses_parse() {
        for text in ["25G76", "25F84", "24B2083", "25A5316i", "25A5351b", "22F82", "22F770820d", "26A123"] {
            assert_eq!(build(text).as_str(), text);
        }
        assert!(build("25A5351b").is_beta() && !build("25G76").is_beta() && !build("24B2083").is_beta());
        assert!(build("22F770820d").is_rapid_response() && !build("22F770820d").is_beta());
        assert_eq!(build("25G76").darwin_major(), 25);
    }

    #[test]
    fn malformed_builds_are_refused() {
        for text in [
            "",
            "25",
            "25G",
            "25G7",
            "25g76",
            "G2576",
            "25G76 ",
            " 25G76",
            "25G76A",
            "25G77082",
            "22F770820",
            "２5G76",
            "25G12345",
            "25é76",
        ] {
            assert!(text.parse::<Build>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn versions_drop_zeros_and_carry_letters() {
        assert_eq!(version("26.6"), version("26.6.0"));
        assert_ne!(version("13.4.1"), version("13.4.1 (c)"));
        assert!(version("26.0 beta").agrees_with(&build("25A5351b")).is_ok());
        assert!(version("26.0 beta 3").agrees_with(&build("25A5351b")).is_ok());
    }

    #[test]
    fn compatibility_answers_are_named_as_such() {
        for text in ["16.0", "16.4.1", "10.16"] {
            assert!(matches!(text.parse::<Version>(), Err(VersionError::Compatibility(_))), "{text}");
        }
        for text in ["17.0", "25.1", "10.15", "9.0"] {
            assert!(matches!(text.parse::<Version>(), Err(VersionError::NeverReleased(_))), "{text}");
        }
        for text in ["26", "26.06", "26.6.1.2", "26.x", "", "26.6 (cc)", "26.6 gamma", "26..1", "26.6 beta x"]
        {
            assert!(matches!(text.parse::<Version>(), Err(VersionError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn version_and_build_must_agree() {
        for (v, b) in [
            ("26.6.1", "25G76"),
            ("26.5.2", "25F84"),
            ("15.1", "24B2083"),
            ("13.4.1 (c)", "22F770820d"),
            ("13.4.1 (c)", "22F82"),
            ("27.0", "26A123"),
        ] {
            assert!(version(v).agrees_with(&build(b)).is_ok(), "{v} {b}");
        }
        for (v, b) in
            [("26.6.1", "24G76"), ("15.1", "25B20"), ("13.4.1", "22F770820d"), ("26.0 beta", "25A100")]
        {
            assert!(version(v).agrees_with(&build(b)).is_err(), "{v} {b}");
        }
    }
}
