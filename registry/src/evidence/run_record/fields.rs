//! One object of a record, member by member: each must be there, have its type, and be known.

use std::cell::RefCell;
use std::fmt;

use super::MOST_ITEMS;
use crate::evidence::json::{Json, Object};
use crate::text;

/// Says what in a record is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Wrong {
    /// The member, such as `run.exit` or `files[3].sha256`; `byte 17` where it is no JSON at all.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
}

impl Wrong {
    pub(super) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: text::visible(&what.into()).into_owned() }
    }
}

/// What a reader returns.
pub(super) type Read<T> = Result<T, Wrong>;

/// A value and the place it stands at.
#[derive(Clone)]
pub(super) struct At<'j> {
    pub place: String,
    pub value: &'j Json,
}

impl<'j> At<'j> {
    fn wrong(&self, wanted: &str) -> Wrong {
        Wrong::new(&*self.place, format!("is {}, not {wanted}", self.value.kind()))
    }

    /// The members of an object.
    pub fn object(&self) -> Read<Fields<'j>> {
        let object = self.value.as_object().ok_or_else(|| self.wrong("an object"))?;
        Ok(Fields { place: self.place.clone(), object, known: RefCell::default() })
    }

    /// The items of a list.
    pub fn list(&self) -> Read<Vec<At<'j>>> {
        let items = self.value.as_list().ok_or_else(|| self.wrong("a list"))?;
        if items.len() > MOST_ITEMS {
            return Err(Wrong::new(
                &*self.place,
                format!("has {} items, more than {MOST_ITEMS}", items.len()),
            ));
        }
        let at = |(index, value)| At { place: format!("{}[{index}]", self.place), value };
        Ok(items.iter().enumerate().map(at).collect())
    }

    /// A text without characters that could mislead whoever reads it on a terminal.
    pub fn text(&self) -> Read<&'j str> {
        let found = self.value.as_text().ok_or_else(|| self.wrong("text"))?;
        match text::first_forbidden(found) {
            None => Ok(found),
            Some((_, c)) => {
                Err(Wrong::new(&*self.place, format!("holds the character U+{:04X}", u32::from(c))))
            }
        }
    }

    /// A whole number from 0 up.
    pub fn whole(&self) -> Read<u64> {
        self.value.as_u64().ok_or_else(|| self.wrong("a whole number from 0 up"))
    }

    /// A number from 0 up.
    pub fn number(&self) -> Read<f64> {
        let found = self.value.as_f64().ok_or_else(|| self.wrong("a number"))?;
        if found < 0.0 {
            return Err(Wrong::new(&*self.place, "is below 0"));
        }
        Ok(found)
    }

    /// A truth.
    pub fn truth(&self) -> Read<bool> {
        match self.value {
            Json::Bool(truth) => Ok(*truth),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// One of some words.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Read<T> {
        let found = self.text()?;
        words.iter().find(|(word, _)| *word == found).map(|(_, value)| *value).ok_or_else(|| {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            Wrong::new(&*self.place, format!("is `{found}`, none of {}", all.join(", ")))
        })
    }

    /// A text of a form, such as a digest or an instant.
    pub fn parse<T: std::str::FromStr<Err: fmt::Display>>(&self) -> Read<T> {
        let found = self.text()?;
        found.parse().map_err(|e| Wrong::new(&*self.place, format!("`{found}`: {e}")))
    }

    /// None for `null`.
    pub fn known<T>(&self, read: impl FnOnce(&Self) -> Read<T>) -> Read<Option<T>> {
        if *self.value == Json::Null { Ok(None) } else { read(self).map(Some) }
    }
}

/// The members of one object.
pub(super) struct Fields<'j> {
    place: String,
    object: &'j Object,
    known: RefCell<Vec<&'static str>>,
}

impl<'j> Fields<'j> {
    /// A member, which must be there.
    pub fn at(&self, name: &'static str) -> Read<At<'j>> {
        self.known.borrow_mut().push(name);
        let place = if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) };
        match self.object.get(name) {
            Some(value) => Ok(At { place, value }),
            None => Err(Wrong::new(place, "is missing")),
        }
    }

    /// A text.
    pub fn text(&self, name: &'static str) -> Read<String> {
        self.at(name)?.text().map(str::to_owned)
    }

    /// A text, or `null`.
    pub fn maybe_text(&self, name: &'static str) -> Read<Option<String>> {
        self.at(name)?.known(|at| at.text().map(str::to_owned))
    }

    /// A whole number, or `null`.
    pub fn maybe_whole(&self, name: &'static str) -> Read<Option<u64>> {
        self.at(name)?.known(At::whole)
    }

    /// A number, or `null`.
    pub fn maybe_number(&self, name: &'static str) -> Read<Option<f64>> {
        self.at(name)?.known(At::number)
    }

    /// A truth, or `null`.
    pub fn maybe_truth(&self, name: &'static str) -> Read<Option<bool>> {
        self.at(name)?.known(At::truth)
    }

    /// A list, each item read the same way.
    pub fn list<T>(&self, name: &'static str, read: impl Fn(&At<'j>) -> Read<T>) -> Read<Vec<T>> {
        self.at(name)?.list()?.iter().map(read).collect()
    }

    /// A list of texts.
    pub fn texts(&self, name: &'static str) -> Read<Vec<String>> {
        self.list(name, |at| at.text().map(str::to_owned))
    }

    /// Refuses members that nobody asked for.
    pub fn finish(self) -> Read<()> {
        let known = self.known.borrow();
        match self.object.iter().find(|(name, _)| !known.contains(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let place = if self.place.is_empty() { "the record" } else { self.place.as_str() };
                Err(Wrong::new(place, format!("has a member `{name}`, which this version does not know")))
            }
        }
    }
}
