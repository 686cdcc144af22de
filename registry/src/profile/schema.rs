//! JSON Schema of profiles (draft 2020-12), for editors and for validators that we did not write.
//!
//! It says what one file can say about itself in a schema's words. What needs arithmetic, other files or the file's
//! name is for `lint` alone.

use serde_json::{Map, Value, json};

use super::evidence::{KINDS, OUTCOMES, SHIMS};
use super::{
    ACKNOWLEDGEMENTS, APPLE_FAMILIES, FEATURE_LEVELS, INTERPRETERS, SCHEMA, THREADGROUP_MEMORIES, VERDICTS,
};

/// The schema of profiles.
pub fn profile() -> Value {
    let mut schema = object(
        &[
            ("schema", json!({ "const": SCHEMA.to_string(), "description": "version of this format" })),
            ("id", with(id(), "description", "never used again; the file is named by it")),
            ("verdict", with(words(&VERDICTS), "description", "what the test concluded")),
            ("summary", with(line(), "description", "one line for people")),
            ("host", host()),
            ("guest", guest()),
            ("workload", workload()),
        ],
        &[
            ("supersedes", id()),
            ("override", json!({ "type": "array", "minItems": 1, "items": override_set() })),
            ("evidence", json!({ "type": "array", "minItems": 1, "items": evidence() })),
        ],
    );
    let conditions = json!([
        {
            "if": { "properties": { "verdict": { "const": "override" } }, "required": ["verdict"] },
            "then": {
                "required": ["override", "evidence"],
                "properties": {
                    "workload": { "anyOf": [{ "required": ["sha256"] }, { "required": ["cdhash"] }] },
                    "evidence": { "items": { "required": ["override"] } },
                },
            },
            "else": { "not": { "required": ["override"] }, "required": ["evidence"] },
        },
        {
            "if": { "properties": { "workload": { "not": { "required": ["image"] } } } },
            "then": { "properties": { "override": { "items": acknowledges("images-unrecorded") } } },
        },
        {
            "if": { "properties": { "workload": { "properties": { "name": { "pattern": interpreter() } } } } },
            "then": { "properties": { "workload": { "if": digest_given(), "then": { "required": ["image"] } } } },
        },
        above_host_memory(),
    ]);
    let above_family = APPLE_FAMILIES.map(above_host_family);
    if let (Some(map), Value::Array(mut all)) = (schema.as_object_mut(), conditions) {
        all.extend(above_family);
        map.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        map.insert("title".into(), "capgate profile".into());
        map.insert("allOf".into(), Value::Array(all));
    }
    schema
}

fn digest_given() -> Value {
    json!({ "anyOf": [{ "required": ["sha256"] }, { "required": ["cdhash"] }] })
}

/// On a host of this family, a higher ceiling must be acknowledged.
fn above_host_family(family: u64) -> Value {
    json!({
        "if": { "properties": { "host": { "properties": { "apple_family": { "maximum": family } } } } },
        "then": { "properties": { "override": { "items": {
            "if": { "properties": { "apple_family_max": { "minimum": family + 1 } } },
            "then": acknowledges("above-host-family"),
        } } } },
    })
}

fn above_host_memory() -> Value {
    json!({
        "if": { "properties": { "host": { "properties": { "max_threadgroup_memory": { "maximum": 65_535 } } } } },
        "then": { "properties": { "override": { "items": {
            "if": { "properties": { "max_threadgroup_memory": { "const": 65_536 } } },
            "then": acknowledges("above-host-memory"),
        } } } },
    })
}

fn acknowledges(word: &str) -> Value {
    json!({ "required": ["acknowledges"], "properties": { "acknowledges": { "contains": { "const": word } } } })
}

fn interpreter() -> String {
    // A schema has no way to ignore case but this.
    let either = |c: char| {
        if c.is_ascii_alphabetic() { format!("[{}{c}]", c.to_ascii_uppercase()) } else { c.to_string() }
    };
    let names: Vec<String> = INTERPRETERS.iter().map(|word| word.chars().map(either).collect()).collect();
    format!("^(.*/)?({})[._-]*([0-9][^/]*)?$", names.join("|"))
}

fn host() -> Value {
    let (family, memory) = answers();
    object(&[("chip", chip()), ("os", os()), memory, ("feature_level", words(&FEATURE_LEVELS))], &[family])
}

fn guest() -> Value {
    let (family, memory) = answers();
    let model = json!({ "type": "string", "pattern": format!("^VirtualMac{}*$", plain()) });
    object(&[("os", os()), ("model", model), ("stock", object(&[memory], &[family]))], &[])
}

fn answers() -> ((&'static str, Value), (&'static str, Value)) {
    let whole = json!({ "type": "integer", "minimum": 0 });
    (("apple_family", whole.clone()), ("max_threadgroup_memory", whole))
}

fn workload() -> Value {
    let image = object(&[("name", line())], &[("cdhash", hex(40)), ("sha256", hex(64))]);
    let image = with(image, "anyOf", json!([{ "required": ["cdhash"] }, { "required": ["sha256"] }]));
    object(
        &[("name", line()), ("version", line())],
        &[
            ("sha256", hex(64)),
            ("cdhash", hex(40)),
            ("not_covered", json!({ "type": "array", "items": line() })),
            ("image", json!({ "type": "array", "items": image })),
        ],
    )
}

fn values() -> [(&'static str, Value); 2] {
    let (first, last) = (APPLE_FAMILIES.start(), APPLE_FAMILIES.end());
    [
        ("apple_family_max", json!({ "type": "integer", "minimum": first, "maximum": last })),
        ("max_threadgroup_memory", json!({ "enum": THREADGROUP_MEMORIES })),
    ]
}

fn override_set() -> Value {
    let list = json!({ "type": "array", "uniqueItems": true, "items": words(&ACKNOWLEDGEMENTS) });
    object(&values(), &[("acknowledges", list)])
}

fn evidence() -> Value {
    let shim = object(&[("name", words(&SHIMS)), ("sha256", hex(64))], &[]);
    let model = object(&[("name", line())], &[("sha256", hex(64)), ("revision", line())]);
    let model = with(model, "anyOf", json!([{ "required": ["sha256"] }, { "required": ["revision"] }]));
    let test = object(
        &[("name", line()), ("stock", arm())],
        &[("override", arm()), ("host", arm()), ("cpu", arm())],
    );
    let bundle = json!({ "type": "string", "pattern": "^sha256:(?!0{64}$)[0-9a-f]{64}$" });
    let source = json!({ "type": "string", "pattern": format!("^https://{}+$", plain()) });
    let day = json!({ "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" });
    let item = object(
        &[("kind", words(&KINDS)), ("bundle", bundle), ("source", source), ("measured", day)],
        &[
            ("override", object(&values(), &[])),
            ("shim", shim),
            ("model", model),
            ("test", json!({ "type": "array", "minItems": 1, "items": test })),
            ("method", line()),
            ("outcome", words(&OUTCOMES)),
            ("warnings", json!({ "type": "array", "items": line() })),
        ],
    );
    let each_kind = json!([
        { "if": { "properties": { "kind": { "const": "speed" } } }, "then": { "required": ["test"] } },
        {
            "if": { "properties": { "kind": { "const": "speed" } }, "required": ["override"] },
            "then": { "properties": { "test": { "items": { "required": ["override"] } } } },
        },
        { "if": { "properties": { "kind": { "const": "correctness" } } }, "then": { "required": ["method", "outcome"] } },
    ]);
    with(item, "allOf", each_kind)
}

fn arm() -> Value {
    object(
        &[
            ("n", json!({ "type": "integer", "minimum": 1 })),
            ("median", json!({ "type": "number", "exclusiveMinimum": 0 })),
            ("cv", json!({ "type": "number", "minimum": 0 })),
        ],
        &[],
    )
}

fn os() -> Value {
    let version =
        r"^(1[1-5]|2[6-9]|[3-9][0-9])\.(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))?( \([a-z]\)| beta( [0-9]+)?)?$";
    let build = r"^[0-9]{2}[A-Z]([0-9]{2,4}[a-z]?|[0-9]{6}[a-z])$";
    let string = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    object(&[("version", string(version)), ("build", string(build))], &[])
}

fn chip() -> Value {
    let pattern = r"^(?!Apple processor$)(?!.* \(Virtual\)$)[!-~]+( [!-~]+)*$";
    json!({ "type": "string", "maxLength": 64, "pattern": pattern })
}

fn id() -> Value {
    json!({ "type": "string", "minLength": 3, "maxLength": 80, "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$" })
}

fn hex(digits: usize) -> Value {
    json!({ "type": "string", "pattern": format!("^(?!0{{{digits}}}$)[0-9a-f]{{{digits}}}$") })
}

/// One character of a line: none that moves the cursor, hides text or reverses its direction.
fn plain() -> &'static str {
    r"[^\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8]"
}

fn line() -> Value {
    json!({ "type": "string", "minLength": 1, "pattern": format!("^{}+$", plain()) })
}

fn words<T>(words: &[(&'static str, T)]) -> Value {
    json!({ "enum": words.iter().map(|&(word, _)| word).collect::<Vec<_>>() })
}

fn with(mut schema: Value, key: &str, value: impl Into<Value>) -> Value {
    if let Some(map) = schema.as_object_mut() {
        map.insert(key.to_owned(), value.into());
    }
    schema
}

/// A table with exactly these keys.
fn object(required: &[(&'static str, Value)], optional: &[(&'static str, Value)]) -> Value {
    let all = required.iter().chain(optional);
    let properties: Map<String, Value> = all.map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let required: Vec<&str> = required.iter().map(|&(key, _)| key).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required })
}
