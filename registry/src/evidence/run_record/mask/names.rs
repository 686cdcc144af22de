//! Names that give a secret away, and values that stand behind one in a text.

use super::{Cleaned, MASKED, Rule};

/// Parts of a word that never stand in a harmless name.
const PARTS: [&str; 9] = [
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "COOKIE",
    "BEARER",
    "AUTHORIZATION",
    "SIGNATURE",
];
/// Whole words that are too short to be looked for inside others.
const WORDS: [&str; 6] = ["AUTH", "PAT", "SIG", "PASS", "PW", "JWT"];

/// Tells whether a name says that its value is a secret.
pub fn is_secret(name: &str, value: &str) -> bool {
    // The shell's own names for the working folder.
    if matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    words(name).iter().any(|word| {
        let holds = |part: &str| word.contains(part);
        let token = word.contains("TOKEN")
            && !word.contains("TOKENI")
            // A number of tokens, as `--max-tokens`.
            && !(word.ends_with("TOKENS") && is_number);
        token
            || word.ends_with("KEY")
            || word.ends_with("KEYS")
            || word.ends_with("PWD")
            || WORDS.contains(&word.as_str())
            || PARTS.iter().any(|part| holds(part))
    })
}

/// The words of a name in capitals: `awsSecretKey` has three, and so has `AWS_SECRET_KEY`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let starts = !c.is_ascii_alphanumeric() || (was_lower && c.is_ascii_uppercase());
        if starts && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_uppercase());
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    words
}

/// Masks the value of every `name=value`, `name: value` and `"name": "value"` whose name says so.
pub(super) fn pairs(cleaned: &mut Cleaned) {
    let said = std::mem::take(&mut cleaned.text);
    let mut rest = said.as_str();
    let mut out = String::new();
    while let Some(at) = rest.find(['=', ':']) {
        let (before, after) = rest.split_at(at);
        let name = before.trim_end_matches([' ', '"', '\'']);
        let name = name.rsplit(|c: char| !is_of_name(c)).next().unwrap_or_default();
        let separator = after.chars().next().map_or(0, char::len_utf8);
        // What quotes, spaces and a second separator stand before the value stays.
        let value = after.get(separator..).unwrap_or_default().trim_start_matches([' ', '"', '\'', '=']);
        let (lead, _) = after.split_at(after.len() - value.len());
        let is_header = lead.starts_with(": ") && !lead.contains('"');
        // Lists of folders, as PATH is one, have colons between them.
        let is_list = lead == ":" && value.starts_with(['/', '.', '~']);
        let end = value_end(value, is_header);
        let (secret, tail) = value.split_at(end);
        out.push_str(before);
        out.push_str(lead);
        if !secret.is_empty() && secret != MASKED && !is_list && is_secret(name, secret) {
            out.push_str(MASKED);
            cleaned.note(Rule::Name);
            rest = tail;
        } else {
            rest = value;
        }
    }
    out.push_str(rest);
    cleaned.text = out;
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Where a value ends; a header's may have spaces.
fn value_end(value: &str, is_header: bool) -> usize {
    let ends = |c: char| {
        matches!(c, '&' | '"' | '\'' | ';' | ',' | '}' | ')' | '\n' | '\r' | '#')
            || (c.is_whitespace() && !is_header)
    };
    value.find(ends).unwrap_or(value.len())
}
