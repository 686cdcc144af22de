//! One row's fields: ten that every generation has, and settings whose names and types changed over the years.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Build, MOST_SAMPLES, Model, Row, Test};
use crate::evidence::codes::Code;
use crate::evidence::finding::excerpt;
use crate::evidence::json::{Json, Object};

/// What is wrong with a row.
pub(super) type Wrong = Vec<(Code, String)>;

/// Fields that say what came out, who made it or on what, not how a test was run.
const NOT_SETTINGS: [&str; 17] = [
    "build_commit",
    "build_number",
    "cpu_info",
    "gpu_info",
    "model_filename",
    "model_type",
    "model_size",
    "model_n_params",
    "n_prompt",
    "n_gen",
    "test_time",
    "avg_ns",
    "stddev_ns",
    "avg_ts",
    "stddev_ts",
    "samples_ns",
    "samples_ts",
];

/// Most tokens of one test; far above any context, far below where a product could overflow.
const MOST_TOKENS: u64 = 1 << 32;

/// Reads a row, or says everything that is wrong with its required fields.
pub(super) fn row(value: &Json) -> Result<Row, Wrong> {
    let Some(object) = value.as_object() else {
        return Err(vec![(Code::MalformedField, format!("is {}, not an object", value.kind()))]);
    };
    let mut reader = Reader { object, wrong: Vec::new() };
    let row = Row {
        build: Build { commit: reader.text("build_commit"), number: reader.whole("build_number") },
        model: Model {
            filename: reader.text("model_filename"),
            kind: reader.text("model_type"),
            size: reader.whole("model_size"),
            n_params: reader.whole("model_n_params"),
        },
        test: Test {
            n_prompt: reader.tokens("n_prompt"),
            n_gen: reader.tokens("n_gen"),
            n_depth: if object.get("n_depth").is_some() { reader.tokens("n_depth") } else { 0 },
        },
        test_time: reader.time("test_time"),
        samples_ns: reader.samples("samples_ns"),
        rates: Vec::new(),
        cpu: optional_text(object, "cpu_info"),
        gpu: optional_text(object, "gpu_info"),
        settings: settings(object),
        fields: object.iter().filter(|(name, _)| !name.starts_with("samples_")).count(),
        era: era(object),
    };
    let mut wrong = reader.wrong;
    let tokens = row.test.n_prompt.saturating_add(row.test.n_gen);
    if wrong.is_empty() && tokens == 0 {
        wrong.push((Code::MalformedField, "`n_prompt` and `n_gen` are both 0".to_owned()));
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    Ok(Row { rates: rates(tokens, &row.samples_ns), ..row })
}

/// The name of a row's test, where that much of it can be read.
pub(super) fn test(value: &Json) -> Option<Test> {
    let number = |name: &str| value.as_object()?.get(name)?.as_u64();
    Some(Test {
        n_prompt: number("n_prompt")?,
        n_gen: number("n_gen")?,
        n_depth: number("n_depth").unwrap_or(0),
    })
}

/// Tokens per second of each sample; none at all where one is zero.
fn rates(tokens: u64, samples_ns: &[u64]) -> Vec<f64> {
    if samples_ns.contains(&0) {
        return Vec::new();
    }
    samples_ns.iter().map(|ns| tokens as f64 * 1e9 / *ns as f64).collect()
}

struct Reader<'a> {
    object: &'a Object,
    wrong: Wrong,
}

impl Reader<'_> {
    fn field(&mut self, name: &str) -> Option<&Json> {
        let found = self.object.get(name);
        if found.is_none() {
            self.wrong.push((Code::MissingField, format!("`{name}` is missing")));
        }
        found
    }

    fn refuse(&mut self, name: &str, why: &str) {
        self.wrong.push((Code::MalformedField, format!("`{name}` {why}")));
    }

    fn text(&mut self, name: &str) -> String {
        match self.field(name).map(|value| value.as_text().map(str::to_owned)) {
            Some(Some(text)) => return text,
            Some(None) => self.refuse(name, "is not text"),
            None => {}
        }
        String::new()
    }

    fn whole(&mut self, name: &str) -> u64 {
        match self.field(name).map(Json::as_u64) {
            Some(Some(number)) => return number,
            Some(None) => self.refuse(name, "is not a whole number from 0 up"),
            None => {}
        }
        0
    }

    fn tokens(&mut self, name: &str) -> u64 {
        let tokens = self.whole(name);
        if tokens > MOST_TOKENS {
            self.refuse(name, &format!("is more than {MOST_TOKENS}"));
        }
        tokens
    }

    fn time(&mut self, name: &str) -> Timestamp {
        let text = self.text(name);
        text.parse().unwrap_or_else(|_| {
            if !text.is_empty() {
                self.refuse(name, &format!("is `{}`, not a time like 2026-08-09T18:13:03Z", excerpt(&text)));
            }
            Timestamp::UNIX_EPOCH
        })
    }

    fn samples(&mut self, name: &str) -> Vec<u64> {
        let Some(value) = self.field(name) else { return Vec::new() };
        let samples: Option<Vec<u64>> =
            value.as_list().map(|list| list.iter().map(Json::as_u64).collect()).unwrap_or_default();
        match samples {
            Some(samples) if samples.len() <= MOST_SAMPLES => return samples,
            Some(samples) => {
                let why = format!("`{name}` has {} samples, more than {MOST_SAMPLES}", samples.len());
                self.wrong.push((Code::TooLarge, why));
            }
            None => self.refuse(name, "is not a list of whole numbers from 0 up"),
        }
        Vec::new()
    }
}

/// The year in which a set of fields was the newest, by the fields that came and went.
fn era(object: &Object) -> &'static str {
    let has = |name: &str| object.get(name).is_some();
    if has("f16_kv") || has("low_vram") || has("mul_mat_q") {
        "2023"
    } else if !has("n_depth") {
        "2024"
    } else if has("load_mode") {
        "2026"
    } else {
        "2025"
    }
}

fn optional_text(object: &Object, name: &str) -> Option<String> {
    object.get(name).and_then(Json::as_text).map(str::to_owned)
}

/// Every setting as text, with the spelling of the newest generation where one was renamed.
fn settings(object: &Object) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = object
        .iter()
        .filter(|(name, _)| !NOT_SETTINGS.contains(name) && *name != "n_depth")
        .map(|(name, value)| (name.to_owned(), spelled(value)))
        .collect();
    let mapped = settings.remove("use_mmap");
    let direct = settings.remove("use_direct_io");
    if let Some(mode) = load_mode(mapped.as_deref(), direct.as_deref()) {
        settings.entry("load_mode".to_owned()).or_insert_with(|| mode.to_owned());
    }
    settings
}

fn load_mode(mapped: Option<&str>, direct: Option<&str>) -> Option<&'static str> {
    match (mapped, direct) {
        (None, None) => None,
        (_, Some("1")) => Some("dio"),
        (Some("1"), _) => Some("mmap"),
        _ => Some("none"),
    }
}

/// A value as text; `true` and `1` are the same, since `flash_attn` was once the one and then the other.
fn spelled(value: &Json) -> String {
    match value {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => u8::from(*value).to_string(),
        Json::Unsigned(value) => value.to_string(),
        Json::Signed(value) => value.to_string(),
        Json::Float(value) => value.to_string(),
        Json::Text(value) => value.clone(),
        Json::List(items) => format!("[{}]", items.iter().map(spelled).collect::<Vec<_>>().join(",")),
        Json::Object(_) => "{…}".to_owned(),
    }
}
