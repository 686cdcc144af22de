//! What differs between two property lists, in words.

use plist::{Dictionary, Value};

/// One line for each key that differs; empty where nothing does.
pub fn differences(found: &Value, wanted: &Value) -> Vec<String> {
    let (Some(found), Some(wanted)) = (found.as_dictionary(), wanted.as_dictionary()) else {
        return vec!["it is no dictionary".to_owned()];
    };
    let mut keys: Vec<&String> = found.keys().chain(wanted.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().filter_map(|key| difference(key, found, wanted)).collect()
}

fn difference(key: &str, found: &Dictionary, wanted: &Dictionary) -> Option<String> {
    match (found.get(key), wanted.get(key)) {
        (Some(found), Some(wanted)) if found == wanted => None,
        (Some(found), Some(wanted)) => {
            Some(format!("`{key}` is {}, it should be {}", shown(found), shown(wanted)))
        }
        (Some(found), None) => Some(format!("`{key}` is {}, it should not be there", shown(found))),
        (None, Some(wanted)) => Some(format!("`{key}` is missing, it should be {}", shown(wanted))),
        (None, None) => None,
    }
}

/// Longest value that is shown, in characters.
const LONGEST: usize = 400;

fn shown(value: &Value) -> String {
    let text = whole(value);
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

fn whole(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        Value::Boolean(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(whole).collect::<Vec<_>>().join(", "))
        }
        Value::Dictionary(items) => {
            let one = |(key, value): (&String, &Value)| format!("{key} = {}", whole(value));
            format!("{{{}}}", items.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        _ => "something else".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_difference_is_said() {
        let list = |pairs: &[(&str, Value)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
            Value::Dictionary(pairs.collect())
        };
        let found = list(&[("A", true.into()), ("B", Value::Array(vec!["x".into()])), ("C", "c".into())]);
        let wanted = list(&[("A", false.into()), ("B", Value::Array(vec!["x".into()])), ("D", "d".into())]);
        assert_eq!(
            differences(&found, &wanted),
            [
                "`A` is true, it should be false",
                "`C` is `c`, it should not be there",
                "`D` is missing, it should be `d`",
            ]
        );
        assert_eq!(differences(&found, &found), [""; 0]);
        assert_eq!(differences(&"x".into(), &found), ["it is no dictionary"]);
    }
}
