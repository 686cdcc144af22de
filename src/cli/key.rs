//! Where a private key is: in a file, or in the ssh-agent.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use capgate_registry::keys::{VerifierKey, check_name};
use clap::builder::{OsStringValueParser, TryMapValueParser, TypedValueParser, ValueParserFactory};

/// What an option says instead of a file.
pub const AGENT: &str = "agent:";

/// A private key as an option names it: a file, `agent:NAME`, or `agent:` and a whole public key.
///
/// A file whose name begins so is given as `./agent:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyArg {
    /// A file that holds it.
    File(PathBuf),
    /// The agent holds the private half of the known key of this name.
    Named(String),
    /// The agent holds the private half of this key.
    Whole(Box<VerifierKey>),
}

impl KeyArg {
    fn parse(text: OsString) -> Result<Self, String> {
        let Some(key) = text.to_str().and_then(|text| text.strip_prefix(AGENT)) else {
            return Ok(Self::File(text.into()));
        };
        // No name holds a `+`, and every public key does.
        if key.contains('+') {
            return VerifierKey::parse(key).map(|key| Self::Whole(Box::new(key))).map_err(|e| e.to_string());
        }
        check_name(key).map_err(|e| e.to_string())?;
        Ok(Self::Named(key.to_owned()))
    }
}

impl fmt::Display for KeyArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Named(name) => write!(f, "{AGENT}{name}"),
            Self::Whole(key) => write!(f, "{AGENT}{key}"),
        }
    }
}

impl ValueParserFactory for KeyArg {
    type Parser = TryMapValueParser<OsStringValueParser, fn(OsString) -> Result<Self, String>>;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().try_map(Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";

    #[test]
    fn a_key_is_a_file_unless_it_says_to_be_in_the_agent() {
        let parse = |text: &str| KeyArg::parse(text.into());
        assert_eq!(parse("alice.key"), Ok(KeyArg::File("alice.key".into())));
        assert_eq!(parse("./agent:alice"), Ok(KeyArg::File("./agent:alice".into())));
        assert_eq!(parse("agent:alice.example"), Ok(KeyArg::Named("alice.example".into())));
        let whole = parse(&format!("agent:{KEY}")).unwrap();
        assert_eq!(whole, KeyArg::Whole(Box::new(KEY.parse().unwrap())));
        for text in ["alice.key", "agent:alice.example", &format!("agent:{KEY}")] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        for wrong in ["agent:", "agent:a b", "agent:alice+", "agent:alice+00000000+AAAA"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
