//! Takes secrets out of what a record says: by the name that stands before a value, and by the value's own shape.
//!
//! What is taken out leaves no trace but [`MASKED`] and the name of the rule: no length, no digest, since both help to
//! guess. A rule that fires on what is no secret costs a line of a record; one that does not costs the secret. Model
//! names, paths, versions and digests that are written as such stay readable.

mod names;
mod shapes;

use std::fmt;

use serde::{Serialize, Serializer};

pub use names::is_secret;

/// What stands in the place of a secret.
pub const MASKED: &str = "[masked]";

/// Why something was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The name before it says so: `HF_TOKEN=…`, `--api-key …`, `"password": "…"`, `X-Api-Key: …`.
    Name,
    /// User and password of a URL, or of an option for both.
    Userinfo,
    /// What follows `Bearer` or `Basic`.
    Scheme,
    /// It begins as keys of a known service do: `ghp_…`, `AKIA…`.
    Prefix,
    /// A private key.
    PrivateKey,
    /// Letters of both cases and digits in no order, 20 or more.
    Random,
    /// A whole value of 32 or more hexadecimal digits that is not written as a digest.
    Hex,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 7] =
        [Self::Name, Self::Userinfo, Self::Scheme, Self::Prefix, Self::PrivateKey, Self::Random, Self::Hex];

    /// Its name in a record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Userinfo => "userinfo",
            Self::Scheme => "scheme",
            Self::Prefix => "prefix",
            Self::PrivateKey => "private-key",
            Self::Random => "random",
            Self::Hex => "hex",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Something that was taken out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mask {
    /// Where it stood: `environment HF_TOKEN`, `argument 3`.
    pub place: String,
    /// Why.
    pub rule: Rule,
}

/// A text without its secrets, and the rules that took them out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// What is left.
    pub text: String,
    /// Each rule that fired, once.
    pub rules: Vec<Rule>,
}

impl Cleaned {
    fn all(rule: Rule) -> Self {
        Self { text: MASKED.to_owned(), rules: vec![rule] }
    }

    pub(super) fn note(&mut self, rule: Rule) {
        if !self.rules.contains(&rule) {
            self.rules.push(rule);
        }
    }
}

/// Most times that the rules are run over a text: each leaves less for the next.
const MOST_PASSES: usize = 16;

/// Any text: a path, a line of a log, an argument.
///
/// What one rule takes out can show another what it missed, so they run until nothing changes: a text that was cleaned
/// stays as it is.
pub fn text(said: &str) -> Cleaned {
    let mut cleaned = Cleaned { text: said.to_owned(), rules: Vec::new() };
    for _ in 0..MOST_PASSES {
        let before = cleaned.text.clone();
        shapes::private_key(&mut cleaned);
        shapes::userinfo(&mut cleaned);
        names::pairs(&mut cleaned);
        shapes::schemes(&mut cleaned);
        shapes::words(&mut cleaned);
        if cleaned.text == before {
            return cleaned;
        }
    }
    cleaned.text = MASKED.to_owned();
    cleaned
}

/// A value that stands alone: that of a variable, or a whole argument.
fn whole(value: &str) -> Cleaned {
    if shapes::is_hex(value) {
        return Cleaned::all(Rule::Hex);
    }
    if shapes::is_base64(value) {
        return Cleaned::all(Rule::Random);
    }
    text(value)
}

/// The value of a variable of the environment.
pub fn variable(name: &str, value: &str) -> Cleaned {
    if !value.is_empty() && is_secret(name, value) { Cleaned::all(Rule::Name) } else { whole(value) }
}

/// A command line. Arguments are counted from 0, the program's name.
pub fn arguments(words: &[String]) -> (Vec<String>, Vec<Mask>) {
    let (mut shown, mut masks) = (Vec::new(), Vec::new());
    let mut before: Option<&str> = None;
    for (at, word) in words.iter().enumerate() {
        let cleaned = match before.filter(|_| !word.is_empty()) {
            Some(option) if is_secret(option, word) && !word.starts_with("--") => Cleaned::all(Rule::Name),
            Some("u" | "user" | "proxy-user") if word.contains(':') => Cleaned::all(Rule::Userinfo),
            _ => whole(word),
        };
        masks.extend(cleaned.rules.iter().map(|&rule| Mask { place: format!("argument {at}"), rule }));
        shown.push(cleaned.text);
        // `--name value`; with `=` the value stands in the word itself.
        let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
        before = name.filter(|name| at > 0 && !name.contains('='));
    }
    (shown, masks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Put together here, so that no file of this repository looks as if it held one.
    fn secret(start: &str) -> String {
        format!("{start}{}", "a8Kd02LmZq".repeat(4))
    }

    #[test]
    fn what_a_record_needs_stays_readable() {
        for said in [
            "/models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
            "--max-tokens=128",
            "sha256:9fecc3b3cd76bba89d504f29b616eedf7da85b96540e490ca5824d3f7d2776a0",
            "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
            "/nix/store/0c5by07ralvkk6ymdd7gpq6jmsyvvhs3-glibc-2.39/lib/libc.so.6",
            "models--x/snapshots/fb08a1e1f0b3e5d1f63b1b0d8a3ce9d3b2a07b55/model.gguf",
            "glibc.cpu.hwcaps=-AVX2,-AVX512F",
            "https://huggingface.co/TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF?download=true",
            "/Users/me/Library/Application Support/libLumeMetalCapabilities64.dylib",
            "--tokenizer=hf-internal-testing/llama-tokenizer",
            "user@host:/path",
        ] {
            assert_eq!(whole(said), Cleaned { text: said.to_owned(), rules: vec![] });
        }
        let words = ["llama-bench", "-p", "512", "--tokens", "128", "-r", "10"].map(str::to_owned);
        assert_eq!(arguments(&words), (words.to_vec(), vec![]));
    }

    #[test]
    fn a_name_gives_its_value_away() {
        for (name, value) in [
            ("HF_TOKEN", "x"),
            ("LLAMA_API_KEY", "1"),
            ("MY_PASSWORD", "hunter2"),
            ("GGML_SECRET_SAUCE", "s"),
            ("awsSecretAccessKey", "a"),
            ("NPM_CONFIG__AUTH", "b"),
            ("ACCESS_TOKENS", "a,b"),
            ("GITHUB_PAT", "c"),
        ] {
            assert_eq!(variable(name, value).rules, [Rule::Name], "{name}");
        }
        for (name, value) in
            [("PWD", "/x"), ("LLAMA_MAX_TOKENS", "128"), ("TOKENIZER", "x"), ("HF_TOKEN", "")]
        {
            assert_eq!(variable(name, value).text, value, "{name}");
        }
    }

    #[test]
    fn secrets_are_found_wherever_they_stand() {
        let random = secret("");
        for (said, left, rule) in [
            (format!("https://me:{random}@host/x"), "https://[masked]@host/x", Rule::Userinfo),
            ("https://host/x?a=1&sig=abc&b=2".to_owned(), "https://host/x?a=1&sig=[masked]&b=2", Rule::Name),
            ("--api-key=abc".to_owned(), "--api-key=[masked]", Rule::Name),
            ("export HF_TOKEN=abc; run".to_owned(), "export HF_TOKEN=[masked]; run", Rule::Name),
            (r#"{"api_key": "abc", "n": 1}"#.to_owned(), r#"{"api_key": "[masked]", "n": 1}"#, Rule::Name),
            ("X-Api-Key: abc".to_owned(), "X-Api-Key: [masked]", Rule::Name),
            ("got Bearer abcdef!".to_owned(), "got Bearer [masked]!", Rule::Scheme),
            (secret("ghp_"), "[masked]", Rule::Prefix),
            (format!("/x/{}/y", secret("hf_")), "/x/[masked]/y", Rule::Prefix),
            (format!("say {random} twice"), "say [masked] twice", Rule::Random),
            ("-----BEGIN X PRIVATE KEY-----\nabc".to_owned(), "[masked]", Rule::PrivateKey),
            ("0123456789abcdef".repeat(2), "[masked]", Rule::Hex),
            (format!("{}/+", "aB3d".repeat(9)), "[masked]", Rule::Random),
        ] {
            let cleaned = whole(&said);
            assert_eq!(
                (cleaned.text.as_str(), cleaned.rules.as_slice()),
                (left, [rule].as_slice()),
                "{said}"
            );
            assert_eq!(whole(&cleaned.text), Cleaned { text: cleaned.text.clone(), rules: vec![] });
        }
    }

    #[test]
    fn an_option_masks_the_word_behind_it() {
        let words =
            ["curl", "--token", "-x", "-u", "me:pw", "--header", "Authorization: Bearer q", "--token"];
        let (shown, masks) = arguments(&words.map(str::to_owned));
        assert_eq!(shown[2..5], ["[masked]", "-u", "[masked]"]);
        assert_eq!(shown[6], "Authorization: [masked]");
        let places: Vec<&str> = masks.iter().map(|mask| mask.place.as_str()).collect();
        assert_eq!(places, ["argument 2", "argument 4", "argument 6"]);
    }
}
