//! JSON that keeps what evidence needs: exact integers, every key once, the byte at which a value ends.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number from zero up.
    Unsigned(u64),
    /// A whole number below zero.
    Signed(i64),
    /// Any other number; always finite.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object.
    Object(Object),
}

impl Json {
    /// What it is, in words for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Unsigned(_) | Self::Signed(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// The number, however it is spelled.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Unsigned(value) => Some(*value as f64),
            Self::Signed(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The whole number from zero up.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(*value),
            _ => None,
        }
    }

    /// The text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn as_list(&self) -> Option<&[Json]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }
}

/// A JSON object: its members in the order of the file, no key twice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Object(Vec<(String, Json)>);

impl Object {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Every key with its value, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Most members of one object; a row of llama-bench has 42.
const MOST_MEMBERS: usize = 1_000;

impl<'de> de::Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Json;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Unsigned(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Json, E> {
        Ok(u64::try_from(value).map_or(Json::Signed(value), Json::Unsigned))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
        if value.is_finite() { Ok(Json::Float(value)) } else { Err(E::custom("a number is too large")) }
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object: Vec<(String, Json)> = Vec::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.iter().any(|(name, _)| *name == key) {
                return Err(de::Error::custom(format_args!(
                    "the key `{}` stands twice",
                    key.escape_default()
                )));
            }
            if object.len() == MOST_MEMBERS {
                return Err(de::Error::custom(format_args!("an object has more than {MOST_MEMBERS} keys")));
            }
            object.push((key, members.next_value()?));
        }
        Ok(Json::Object(Object(object)))
    }
}

/// How reading JSON ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The value is complete; this is the byte after it.
    Complete(usize),
    /// The bytes stop inside the value.
    Early,
    /// The bytes are no JSON, or JSON that is refused; the text says what and where.
    Malformed(String),
}

/// Reads the one value that `bytes` begin with, whatever follows it.
pub fn value(bytes: &[u8]) -> (Option<Json>, End) {
    let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<Json>();
    match stream.next() {
        Some(Ok(found)) => {
            let end = stream.byte_offset();
            (Some(found), End::Complete(end))
        }
        Some(Err(error)) => (None, end_of(&error)),
        None => (None, End::Early),
    }
}

/// Reads the list that `bytes` begin with, keeping every complete item even where the list itself is not.
pub fn items(bytes: &[u8], most: usize) -> (Vec<Json>, End) {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    if let Err(error) = (Items { found: &mut found, most }).deserialize(&mut deserializer) {
        return (found, end_of(&error));
    }
    let end = deserializer.into_iter::<de::IgnoredAny>().byte_offset();
    (found, End::Complete(end))
}

fn end_of(error: &serde_json::Error) -> End {
    if error.is_eof() { End::Early } else { End::Malformed(error.to_string()) }
}

struct Items<'a> {
    found: &'a mut Vec<Json>,
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            if self.found.len() == self.most {
                return Err(de::Error::custom(format_args!("a list has more than {} items", self.most)));
            }
            self.found.push(item);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_was_complete() {
        let (found, end) = items(br#"[ {"a":1}, {"a":2"#, 10);
        assert_eq!((found.len(), end), (1, End::Early));
        let (found, end) = items(br#"[1, -2, 3.5] tail"#, 10);
        assert_eq!(found, [Json::Unsigned(1), Json::Signed(-2), Json::Float(3.5)]);
        assert_eq!(end, End::Complete(12));
    }

    #[test]
    fn refuses_repeated_keys_nan_and_too_many() {
        for (text, says) in [
            (&br#"{"a":1,"a":2}"#[..], "the key `a` stands twice"),
            (br#"{"a":nan}"#, "expected"),
            (br#"{"a":1e999}"#, "out of range"),
        ] {
            let (found, end) = value(text);
            assert_eq!(found, None);
            assert!(matches!(&end, End::Malformed(why) if why.contains(says)), "{end:?}");
        }
        assert!(matches!(items(b"[1,2,3]", 2).1, End::Malformed(_)));
    }

    #[test]
    fn depth_is_bounded() {
        let (found, end) = value("[".repeat(100_000).as_bytes());
        assert_eq!(found, None);
        assert!(matches!(end, End::Malformed(_)));
    }
}
