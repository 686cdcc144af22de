//! One table of a document and its typed getters.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use jiff::Timestamp;
use toml::de::{DeTable, DeValue};

use super::problem::{Problems, nearest};
use super::{Spanned, character_help};
use crate::text;

/// One table of a document. Each getter reports what is wrong with the value it was asked for.
#[derive(Debug)]
pub struct Table<'a> {
    root: &'a DeTable<'a>,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    asked: RefCell<Vec<&'static str>>,
    problems: &'a Problems,
}

impl<'a> Table<'a> {
    pub(super) fn root(table: &'a DeTable<'a>, span: Range<usize>, problems: &'a Problems) -> Self {
        Self { root: table, table, span, asked: RefCell::default(), problems }
    }

    /// Where the table stands.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Where problems go.
    pub fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// Tells whether the key is there, without asking for its value.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Where the key's value stands, or the table itself when the key is missing.
    pub fn span_of(&self, key: &str) -> Range<usize> {
        self.table.get(key).map_or_else(|| self.span(), toml::Spanned::span)
    }

    /// Reports that a required key is missing.
    pub fn missing(&self, key: &str) {
        let message = format!("`{}` is missing", self.name(key));
        self.problems.malformed(self.span(), message, None);
    }

    /// A string without control or direction characters, not empty.
    pub fn string(&self, key: &'static str) -> Option<Spanned<&'a str>> {
        let (value, span) = self.get(key)?;
        let DeValue::String(string) = value else { return self.wrong_type(key, "a string", value, span) };
        self.check_string(key, string, span)
    }

    /// A string, reported when it is missing.
    pub fn require_string(&self, key: &'static str) -> Option<Spanned<&'a str>> {
        self.require(key, Self::string)
    }

    /// A string that parses as `T`.
    pub fn parse<T: FromStr<Err: Display>>(&self, key: &'static str) -> Option<Spanned<T>> {
        let string = self.string(key)?;
        match string.value.parse() {
            Ok(value) => Some(Spanned { value, span: string.span }),
            Err(e) => {
                let message = format!("`{}`: {e}", self.name(key));
                self.problems.malformed(string.span, message, None);
                None
            }
        }
    }

    /// A string that parses as `T`, reported when it is missing.
    pub fn require_parse<T: FromStr<Err: Display>>(&self, key: &'static str) -> Option<Spanned<T>> {
        self.require(key, Self::parse)
    }

    /// One of a fixed set of words; a near miss is answered with the word that was probably meant.
    pub fn word<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Option<Spanned<T>> {
        let string = self.string(key)?;
        let found = self.choose(key, &string, words)?;
        Some(Spanned { value: found, span: string.span })
    }

    /// One of a fixed set of words, reported when it is missing.
    pub fn require_word<T: Copy>(
        &self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<Spanned<T>> {
        self.require(key, |table, key| table.word(key, words))
    }

    /// A whole number from 0 to 2^63-1 in its one spelling: TOML's other radixes, signs and underscores are refused.
    pub fn integer(&self, key: &'static str) -> Option<Spanned<u64>> {
        let (value, span) = self.get(key)?;
        let DeValue::Integer(integer) = value else {
            return self.wrong_type(key, "a whole number", value, span);
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let Some(value) = number.and_then(|n| u64::try_from(n).ok()) else {
            let message = format!("`{}` is out of range", self.name(key));
            self.problems.malformed(span, message, Some("give a whole number from 0 up".into()));
            return None;
        };
        // What TOML dropped from the number is missing from its length.
        let digits = value.to_string();
        if integer.as_str() != digits || span.len() != digits.len() {
            let message = format!("`{}` is not written in decimal digits alone", self.name(key));
            self.problems.malformed(span, message, Some(format!("write {digits}")));
            return None;
        }
        Some(Spanned { value, span })
    }

    /// A whole number, reported when it is missing.
    pub fn require_integer(&self, key: &'static str) -> Option<Spanned<u64>> {
        self.require(key, Self::integer)
    }

    /// A finite number, whole or not.
    pub fn number(&self, key: &'static str) -> Option<Spanned<f64>> {
        let (value, span) = self.get(key)?;
        let text = match value {
            DeValue::Integer(n) if n.radix() == 10 => n.as_str(),
            DeValue::Float(f) => f.as_str(),
            _ => return self.wrong_type(key, "a number", value, span),
        };
        match text.parse::<f64>().ok().filter(|n| n.is_finite()) {
            Some(value) => Some(Spanned { value, span }),
            None => self.wrong_type(key, "a finite number", value, span),
        }
    }

    /// A finite number, reported when it is missing.
    pub fn require_number(&self, key: &'static str) -> Option<Spanned<f64>> {
        self.require(key, Self::number)
    }

    /// `true` or `false`.
    pub fn boolean(&self, key: &'static str) -> Option<Spanned<bool>> {
        let (value, span) = self.get(key)?;
        let DeValue::Boolean(value) = value else {
            return self.wrong_type(key, "true or false", value, span);
        };
        Some(Spanned { value: *value, span })
    }

    /// An instant: an offset date-time of TOML (RFC 3339).
    pub fn instant(&self, key: &'static str) -> Option<Spanned<Timestamp>> {
        let (value, span) = self.get(key)?;
        let DeValue::Datetime(datetime) = value else {
            return self.wrong_type(key, "a date and time such as 2026-12-01T00:00:00Z", value, span);
        };
        match datetime.to_string().parse() {
            Ok(value) => Some(Spanned { value, span }),
            Err(_) => self.wrong_type(
                key,
                "a date and time with an offset, such as 2026-12-01T00:00:00Z",
                value,
                span,
            ),
        }
    }

    /// An instant, reported when it is missing.
    pub fn require_instant(&self, key: &'static str) -> Option<Spanned<Timestamp>> {
        self.require(key, Self::instant)
    }

    /// A calendar date: a local date of TOML.
    pub fn date(&self, key: &'static str) -> Option<Spanned<jiff::civil::Date>> {
        let (value, span) = self.get(key)?;
        let DeValue::Datetime(datetime) = value else {
            return self.wrong_type(key, "a date such as 2026-12-01", value, span);
        };
        let plain = datetime.time.is_none() && datetime.offset.is_none();
        match datetime.to_string().parse() {
            Ok(value) if plain => Some(Spanned { value, span }),
            _ => self.wrong_type(key, "a date such as 2026-12-01", value, span),
        }
    }

    /// A list of strings, empty when the key is missing.
    pub fn strings(&self, key: &'static str) -> Vec<Spanned<&'a str>> {
        let Some((value, span)) = self.get(key) else { return Vec::new() };
        let DeValue::Array(array) = value else {
            self.wrong_type::<()>(key, "a list of strings", value, span);
            return Vec::new();
        };
        let mut strings = Vec::new();
        for item in array.iter() {
            match item.get_ref() {
                DeValue::String(s) => strings.extend(self.check_string(key, s, item.span())),
                other => drop(self.wrong_type::<()>(key, "a list of strings", other, item.span())),
            }
        }
        strings
    }

    /// A list of words from a fixed set, each at most once.
    pub fn words<T: Copy>(&self, key: &'static str, words: &[(&'static str, T)]) -> Vec<Spanned<T>> {
        let mut seen = Vec::new();
        let mut found = Vec::new();
        for string in self.strings(key) {
            if seen.contains(&string.value) {
                let message = format!("`{}` names `{}` twice", self.name(key), string.value);
                self.problems.malformed(string.span.clone(), message, None);
            }
            seen.push(string.value);
            if let Some(value) = self.choose(key, &string, words) {
                found.push(Spanned { value, span: string.span });
            }
        }
        found
    }

    /// A list of strings that parse as `T`.
    pub fn parse_all<T: FromStr<Err: Display>>(&self, key: &'static str) -> Vec<Spanned<T>> {
        let mut parsed = Vec::new();
        for string in self.strings(key) {
            match string.value.parse() {
                Ok(value) => parsed.push(Spanned { value, span: string.span }),
                Err(e) => {
                    self.problems.malformed(string.span, format!("`{}`: {e}", self.name(key)), None);
                }
            }
        }
        parsed
    }

    /// A table inside this one.
    pub fn table(&self, key: &'static str) -> Option<Table<'a>> {
        let (value, span) = self.get(key)?;
        let DeValue::Table(table) = value else { return self.wrong_type(key, "a table", value, span) };
        Some(self.inner(table, span))
    }

    /// A table inside this one, reported when it is missing.
    pub fn require_table(&self, key: &'static str) -> Option<Table<'a>> {
        self.require(key, Self::table)
    }

    /// A list of tables (`[[key]]`), empty when the key is missing.
    pub fn tables(&self, key: &'static str) -> Vec<Table<'a>> {
        let Some((value, span)) = self.get(key) else { return Vec::new() };
        let DeValue::Array(array) = value else {
            self.wrong_type::<()>(key, "a list of tables", value, span);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in array.iter() {
            match item.get_ref() {
                DeValue::Table(t) => tables.push(self.inner(t, item.span())),
                other => drop(self.wrong_type::<()>(key, "a list of tables", other, item.span())),
            }
        }
        tables
    }

    /// Reports every key that nobody asked for, with the known key it resembles.
    pub fn finish(&self) {
        let asked = self.asked.borrow();
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if asked.contains(&name) {
                continue;
            }
            if self.problems.is_full() {
                return;
            }
            let known = asked.iter().copied().filter(|k| !self.has(k));
            let help = nearest(name, known).map_or_else(
                || (!asked.is_empty()).then(|| format!("known here: {}", asked.join(", "))),
                |near| Some(format!("did you mean `{near}`?")),
            );
            let message = format!("unknown key `{}`", self.name(name));
            self.problems.malformed(key.span(), message, help);
        }
    }

    fn get(&self, key: &'static str) -> Option<(&'a DeValue<'a>, Range<usize>)> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        self.table.get(key).map(|value| (value.get_ref(), value.span()))
    }

    fn require<T>(&self, key: &'static str, get: impl FnOnce(&Self, &'static str) -> Option<T>) -> Option<T> {
        let value = get(self, key);
        if !self.has(key) {
            self.missing(key);
        }
        value
    }

    fn inner(&self, table: &'a DeTable<'a>, span: Range<usize>) -> Table<'a> {
        Table { root: self.root, table, span, asked: RefCell::default(), problems: self.problems }
    }

    /// The key with the path to it. Searched for only when there is a problem: most documents have none.
    fn name(&self, key: &str) -> String {
        let key = text::visible(key);
        if self.problems.is_full() {
            return key.into_owned();
        }
        let mut path = String::new();
        push_path(&mut path, self.root, self.table);
        path + &key
    }

    fn check_string(&self, key: &str, string: &'a str, span: Range<usize>) -> Option<Spanned<&'a str>> {
        if string.is_empty() {
            self.problems.malformed(span, format!("`{}` is empty", self.name(key)), None);
            return None;
        }
        // An escape such as "\u202E" passes the check of the raw text; the value must be as clean as the text.
        if let Some(c) = text::first_forbidden_in_line(string) {
            let message = format!("`{}` holds the character U+{:04X}", self.name(key), u32::from(c));
            self.problems.malformed(span, message, Some(character_help(c)));
            return None;
        }
        Some(Spanned { value: string, span })
    }

    fn choose<T: Copy>(&self, key: &str, string: &Spanned<&str>, words: &[(&'static str, T)]) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == string.value).map(|&(_, value)| value);
        if found.is_none() {
            let all = words.iter().map(|&(word, _)| word);
            let help = match nearest(string.value, all.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("one of: {}", all.collect::<Vec<_>>().join(", ")),
            };
            let message = format!("`{}` cannot be `{}`", self.name(key), string.value);
            self.problems.malformed(string.span.clone(), message, Some(help));
        }
        found
    }

    fn wrong_type<T>(&self, key: &str, wanted: &str, found: &DeValue<'_>, span: Range<usize>) -> Option<T> {
        let message = format!("`{}` must be {wanted}, not {}", self.name(key), kind_of(found));
        self.problems.malformed(span, message, None);
        None
    }
}

/// Writes the path from `from` to `target`, a dot behind each part, and tells whether there is one.
fn push_path(path: &mut String, from: &DeTable<'_>, target: &DeTable<'_>) -> bool {
    let same = std::ptr::eq(std::ptr::from_ref(from).cast::<()>(), std::ptr::from_ref(target).cast());
    same || from.iter().any(|(key, value)| {
        let length = path.len();
        path.push_str(&text::visible(key.get_ref()));
        let found = match value.get_ref() {
            DeValue::Table(table) => push_part(path, "", table, target),
            DeValue::Array(items) => items.iter().enumerate().any(|(i, item)| match item.get_ref() {
                DeValue::Table(table) => push_part(path, &format!("[{i}]"), table, target),
                _ => false,
            }),
            _ => false,
        };
        if !found {
            path.truncate(length);
        }
        found
    })
}

fn push_part(path: &mut String, index: &str, table: &DeTable<'_>, target: &DeTable<'_>) -> bool {
    let length = path.len();
    path.push_str(index);
    path.push('.');
    let found = push_path(path, table, target);
    if !found {
        path.truncate(length);
    }
    found
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
