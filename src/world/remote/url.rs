//! The address of a registry on a web server, and of the files in it.

use std::fmt::Write;

use crate::world::folder::is_name;

/// The address of a registry: `http://` or `https://`, a host, and a path to which names are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Without a slash at its end.
    text: String,
}

impl Base {
    /// Reads an address as somebody wrote it. What would change the meaning of a name that is added is refused: a query, a
    /// fragment, parts such as `..`; and so are credentials, which would end up in messages and logs.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("has no `://`")?;
        if scheme != "http" && scheme != "https" {
            return Err("begins neither with http:// nor with https://".to_owned());
        }
        if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic() || "\\\"<>^`{|}".contains(*c)) {
            return Err(format!("holds {odd:?}, which an address cannot hold as it is"));
        }
        if rest.contains(['?', '#']) {
            return Err("has a query or a fragment, which the address of a registry has not".to_owned());
        }
        let rest = rest.trim_end_matches('/');
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.contains('@') {
            return Err("holds a user or a password".to_owned());
        }
        if host.is_empty() || host.starts_with(':') {
            return Err("names no host".to_owned());
        }
        let is_odd =
            |part: &str| matches!(part, "" | "." | "..") || part.to_ascii_lowercase().contains("%2e");
        if !path.is_empty() && path.split('/').any(is_odd) {
            return Err("has an empty part, a `.` or a `..` in its path".to_owned());
        }
        Ok(Self { text: format!("{scheme}://{rest}") })
    }

    /// Whether the connection is encrypted, which is then never given up.
    pub fn is_encrypted(&self) -> bool {
        self.text.starts_with("https:")
    }

    /// The address of a file; `None` for what is no name inside a registry.
    pub fn join(&self, name: &str) -> Option<String> {
        is_name(name).then(|| format!("{}/{}", self.text, escaped(name)))
    }
}

/// Everything but slashes and what a URL takes unchanged is written as `%` and two digits.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_added_below_the_base_and_nowhere_else() {
        for base in ["https://example.org/gpu", "https://example.org/gpu/", "https://example.org/gpu//"] {
            let base = Base::parse(base).unwrap();
            let join = |name: &str| base.join(name);
            assert_eq!(join("log/tile/0/000.p/5").unwrap(), "https://example.org/gpu/log/tile/0/000.p/5");
            assert_eq!(join("a b?c#d%2e+é").unwrap(), "https://example.org/gpu/a%20b%3Fc%23d%252e%2B%C3%A9");
            for name in ["", "/etc/passwd", "../x", "a/../b", "a//b", ".tmp/1", "a/", "a\\b", "a\0"] {
                assert_eq!(join(name), None, "{name:?}");
            }
        }
        let base = Base::parse("http://[::1]:8080").unwrap();
        assert_eq!(base.join("x").unwrap(), "http://[::1]:8080/x");
        assert!(!base.is_encrypted());
    }

    #[test]
    fn addresses_that_mean_something_else_are_refused() {
        for (text, why) in [
            ("example.org", "://"),
            ("ftp://example.org", "neither"),
            ("HTTPS://example.org", "neither"),
            ("https://", "no host"),
            ("https:///path", "no host"),
            ("https://:80/", "no host"),
            ("https://me:secret@example.org/", "password"),
            ("https://example.org/?list", "query"),
            ("https://example.org/a#b", "fragment"),
            ("https://example.org/a/../b", ".."),
            ("https://example.org/a/%2E%2e/b", ".."),
            ("https://example.org/a//b", "empty part"),
            ("https://example.org/a b", "' '"),
            ("https://example.org/\u{e9}", "'é'"),
            ("https://example.org/a\nb", "'\\n'"),
            ("https://example.org/a\\b", "'\\\\'"),
        ] {
            let refused = Base::parse(text).unwrap_err();
            assert!(refused.contains(why), "{text:?}: {refused}");
        }
    }
}
