//! The first line of every signed text: what it is and whose it is, so that a signature given for one purpose or one
//! registry counts for no other.
//!
//! `# capgate <kind> v1 <origin>`, then LF, then the body. To TOML the line is a comment.

use std::fmt;
use std::str::FromStr;

use super::{NoteError, check_text};

const START: &str = "# capgate ";
const VERSION: &str = "v1";

/// What a signed text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A version of the trust root: keys, roles, thresholds.
    Trust,
    /// A profile of one tested combination.
    Profile,
    /// A record that takes a profile back.
    Revocation,
    /// What is in force: the commit point of a registry.
    Latest,
    /// A host's statement about itself.
    Host,
}

impl Kind {
    /// Every kind, in the order above.
    pub const ALL: [Self; 5] = [Self::Trust, Self::Profile, Self::Revocation, Self::Latest, Self::Host];

    /// The word in the domain line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Profile => "profile",
            Self::Revocation => "revocation",
            Self::Latest => "latest",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Text that is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is no origin: 1 to 128 characters of `a-z 0-9 . _ - /`, without empty segments, `.` or `..`",
    text.escape_debug()
)]
pub struct OriginError {
    /// The text as given, cut to 160 characters.
    pub text: String,
}

/// Names a registry: a URL without its scheme, such as `example.org/gpu`.
///
/// 1 to 128 bytes of `[a-z0-9._/-]`, no `..` anywhere, no segment that is empty or `.`; so it is a safe relative path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(String);

impl Origin {
    /// Longest origin in bytes.
    pub const MAX: usize = 128;

    /// Checks and takes a name.
    ///
    /// Errors: [`OriginError`].
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'/' | b'-');
        let segment = |segment: &str| !segment.is_empty() && segment != ".";
        let sound = text.len() <= Self::MAX
            && text.bytes().all(allowed)
            && text.split('/').all(segment)
            && !text.contains("..");
        if sound { Ok(Self(text.to_owned())) } else { Err(OriginError { text: cut(text, 160) }) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether it names a registry that `capgate bench` makes and throws away, to try what nobody tested.
    pub fn is_trial(&self) -> bool {
        self.0 == "trial" || self.0.starts_with("trial/")
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        Self::parse(text)
    }
}

impl AsRef<str> for Origin {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Puts the domain line before `body`, which is empty or ends in LF; the result is ready to be signed.
///
/// Errors: [`NoteError::Text`], [`NoteError::NoFinalLineFeed`].
pub fn compose(kind: Kind, origin: &Origin, body: &str) -> Result<String, NoteError> {
    let text = format!("{START}{kind} {VERSION} {origin}\n{body}");
    check_text(&text)?;
    if !text.ends_with('\n') {
        return Err(NoteError::NoFinalLineFeed);
    }
    Ok(text)
}

/// The body of a text of exactly this kind and origin: everything behind the domain line.
///
/// Errors: [`NoteError::NoDomain`], [`NoteError::Version`], [`NoteError::WrongKind`], [`NoteError::WrongOrigin`].
pub fn body<'t>(text: &'t str, kind: Kind, origin: &Origin) -> Result<&'t str, NoteError> {
    let (found, body) = split(text, kind)?;
    if found == origin.as_str() {
        return Ok(body);
    }
    Err(NoteError::WrongOrigin { expected: origin.clone(), found: cut(found, 160) })
}

/// The origin that a text of this kind claims, well-formed.
///
/// Errors: those of [`body`], with [`NoteError::Origin`] in place of `WrongOrigin`.
pub fn origin_of(text: &str, kind: Kind) -> Result<&str, NoteError> {
    let (origin, _) = split(text, kind)?;
    Origin::parse(origin)?;
    Ok(origin)
}

/// The origin word, unchecked, and the body.
fn split(text: &str, kind: Kind) -> Result<(&str, &str), NoteError> {
    let (line, body) = text.split_once('\n').ok_or(NoteError::NoDomain)?;
    let words = line.strip_prefix(START).ok_or(NoteError::NoDomain)?;
    let (word, rest) = words.split_once(' ').ok_or(NoteError::NoDomain)?;
    let (version, origin) = rest.split_once(' ').ok_or(NoteError::NoDomain)?;
    if word != kind.word() {
        return Err(NoteError::WrongKind { expected: kind, found: cut(word, 32) });
    }
    if version != VERSION {
        return Err(NoteError::Version { found: cut(version, 32) });
    }
    Ok((origin, body))
}

fn cut(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}
