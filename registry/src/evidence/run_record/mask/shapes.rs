//! Secrets by their own shape.

use super::{Cleaned, MASKED, Rule};

/// How keys of known services and programs begin.
const PREFIXES: [&str; 42] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "hf_",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "npm_",
    "pypi-",
    "dop_v1_",
    "shpat_",
    "SG.",
    "eyJ",
    "tskey-",
    "hvs.",
    "hvb.",
    "nvapi-",
    "r8_",
    "gsk_",
    "lin_api_",
    "xai-",
    "pplx-",
    "dckr_pat_",
    "atlasv1.",
    "AGE-SECRET-KEY-",
    "tvly-",
];
/// Fewest letters and digits in a row behind such a beginning.
const FEWEST_BEHIND: usize = 10;
/// Fewest letters and digits in a row that can be random.
const FEWEST_RANDOM: usize = 20;
/// Fewest hexadecimal digits that are a key.
const FEWEST_HEX: usize = 32;

/// A text with a private key in it is all secret: where it ends is anybody's guess.
pub(super) fn private_key(cleaned: &mut Cleaned) {
    let armoured = cleaned.text.contains("-----BEGIN ") && cleaned.text.contains("PRIVATE KEY");
    if armoured || cleaned.text.contains("PRIVATE+KEY+") {
        cleaned.text = MASKED.to_owned();
        cleaned.note(Rule::PrivateKey);
    }
}

/// `scheme://user:password@host`, whatever stands before the `@`.
pub(super) fn userinfo(cleaned: &mut Cleaned) {
    let said = std::mem::take(&mut cleaned.text);
    let mut rest = said.as_str();
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((user, host)) if user != MASKED => {
                out.push_str(MASKED);
                out.push('@');
                out.push_str(host);
                cleaned.note(Rule::Userinfo);
            }
            _ => out.push_str(authority),
        }
        rest = tail;
    }
    out.push_str(rest);
    cleaned.text = out;
}

/// The word behind `Bearer` or `Basic`.
pub(super) fn schemes(cleaned: &mut Cleaned) {
    let said = std::mem::take(&mut cleaned.text);
    let mut behind = false;
    let mut fired = false;
    cleaned.text = each(
        &said,
        |c| is_of_word(c) || matches!(c, '+' | '/' | '=' | '~'),
        |word| {
            let hides = behind && word != MASKED.trim_matches(['[', ']']);
            behind = matches!(word.to_ascii_lowercase().as_str(), "bearer" | "basic");
            fired |= hides;
            hides
        },
    );
    if fired {
        cleaned.note(Rule::Scheme);
    }
}

/// Words that begin as a known key does, or have no order.
pub(super) fn words(cleaned: &mut Cleaned) {
    let said = std::mem::take(&mut cleaned.text);
    let mut fired = Vec::new();
    cleaned.text = each(&said, is_of_word, |word| {
        let rule = if has_prefix(word) {
            Rule::Prefix
        } else if runs(word).any(is_random) {
            Rule::Random
        } else {
            return false;
        };
        fired.push(rule);
        true
    });
    fired.into_iter().for_each(|rule| cleaned.note(rule));
}

/// Tells whether a whole value is a key in hexadecimal digits.
pub(super) fn is_hex(value: &str) -> bool {
    value.len() >= FEWEST_HEX && value.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Tells whether a whole value is a key in base64, the alphabet that a path can be made of, too.
pub(super) fn is_base64(value: &str) -> bool {
    let body = value.trim_end_matches('=');
    let plain: String = body.chars().filter(|c| !matches!(c, '+' | '/')).collect();
    body.len() >= FEWEST_HEX
        && !body.starts_with('/')
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
        && is_random(&plain)
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// The text with the words that `hides` chose replaced.
fn each(said: &str, is_of_word: impl Fn(char) -> bool, mut hides: impl FnMut(&str) -> bool) -> String {
    let mut out = String::new();
    let mut rest = said;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        out.push_str(if !word.is_empty() && hides(word) { MASKED } else { word });
        let next = after.find(&is_of_word).unwrap_or(after.len());
        let (between, tail) = after.split_at(next);
        out.push_str(between);
        rest = tail;
    }
    out
}

/// Tells whether a known beginning stands at the start of a word, or behind something that is no letter, and enough
/// behind it.
fn has_prefix(word: &str) -> bool {
    PREFIXES.iter().any(|prefix| {
        word.match_indices(prefix).any(|(at, _)| {
            let before = word.get(..at).and_then(|text| text.chars().next_back());
            let behind = word.get(at + prefix.len()..).unwrap_or_default();
            !before.is_some_and(|c| c.is_ascii_alphanumeric()) && runs(behind).any(is_key)
        })
    })
}

/// Letters and digits in a row.
fn runs(word: &str) -> impl Iterator<Item = &str> {
    word.split(|c: char| !c.is_ascii_alphanumeric())
}

fn is_key(run: &str) -> bool {
    let has = |test: fn(&u8) -> bool| run.as_bytes().iter().any(test);
    let mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    run.len() >= FEWEST_BEHIND && (has(u8::is_ascii_digit) || mixed)
}

/// Random letters and digits change their kind at nearly two of three places, words and versions seldom.
fn is_random(run: &str) -> bool {
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    let bytes = run.as_bytes();
    let changes = bytes.iter().zip(bytes.iter().skip(1)).filter(|(a, b)| kind(**a) != kind(**b)).count();
    let has = |test: fn(&u8) -> bool| bytes.iter().any(test);
    bytes.len() >= FEWEST_RANDOM
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && changes * 5 >= bytes.len() * 2
}
