//! The JSON of the MLX-LM harness: one process, a warm-up, then repetitions that each measure prompt and generation.
//!
//! ```text
//! { "schema_version": 1, "runtime": {"python", "mlx", "mlx_lm", "platform"}, "model": {"id", "revision"},
//!   "configuration": {"prompt_tokens": 512, "generation_tokens": 128, "repeats": 10, …},
//!   "samples": [ {"prompt_tokens": 512, "prompt_tps": 1677.5, "generation_tokens": 128, "generation_tps": 170.7}, … ],
//!   "median": {"prompt_tps": 1665.4, "generation_tps": 170.8} }
//! ```

use std::collections::BTreeMap;

use serde::Serialize;

use super::codes::Code;
use super::finding::Finding;
use super::json::{self, End, Json, Object};
use super::llama_bench::{MOST_BYTES, MOST_SAMPLES, Test};
use super::statistics;

/// What the harness measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct MlxFile {
    /// Versions of interpreter and libraries by name; the platform text is left out, since it varies by interpreter.
    pub runtime: BTreeMap<String, String>,
    /// The model's repository.
    pub model: String,
    /// The model's revision.
    pub revision: Option<String>,
    /// How the test was run.
    pub configuration: BTreeMap<String, String>,
    /// The tests with their rates in tokens per second.
    pub tests: Vec<(Test, Vec<f64>)>,
    /// What is wrong with the file.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// The harness writes its median with all digits.
const RELATIVE: f64 = 1e-9;

/// Reads the harness's JSON; none where it is something else.
pub fn read(bytes: &[u8]) -> Option<MlxFile> {
    if bytes.len() > MOST_BYTES {
        return None;
    }
    let (value, end) = json::value(bytes);
    let value = value?;
    let object = value.as_object()?;
    let samples = object.get("samples")?;
    let version = object.get("schema_version")?;
    let mut file = MlxFile::default();
    if let End::Complete(length) = end
        && bytes.get(length..).is_some_and(|rest| !rest.trim_ascii().is_empty())
    {
        let message = format!("text outside the JSON at bytes {length}..{}", bytes.len());
        file.findings.push(Finding::new(Code::TextAroundJson, message));
    }
    if version.as_u64() != Some(1) {
        file.refuse(Code::MalformedField, "`schema_version` is not 1".to_owned());
    }
    file.runtime = texts(object.get("runtime"));
    file.runtime.remove("platform");
    file.configuration = texts(object.get("configuration"));
    match object.get("model").and_then(Json::as_object) {
        Some(model) => {
            file.model = model.get("id").and_then(Json::as_text).unwrap_or_default().to_owned();
            file.revision = model.get("revision").and_then(Json::as_text).map(str::to_owned);
        }
        None => file.refuse(Code::MissingField, "`model` is missing".to_owned()),
    }
    let samples = samples.as_list().unwrap_or_default();
    file.read_samples(samples);
    file.check_repeats(samples.len());
    file.check_median(object.get("median").and_then(Json::as_object));
    Some(file)
}

impl MlxFile {
    fn refuse(&mut self, code: Code, message: String) {
        self.findings.push(Finding::new(code, message));
    }

    fn read_samples(&mut self, samples: &[Json]) {
        if samples.is_empty() {
            return self.refuse(Code::NoSamples, "`samples` is empty".to_owned());
        }
        if samples.len() > MOST_SAMPLES {
            let message = format!("{} samples, more than {MOST_SAMPLES}", samples.len());
            return self.refuse(Code::TooLarge, message);
        }
        for (tokens, rate) in [("prompt_tokens", "prompt_tps"), ("generation_tokens", "generation_tps")] {
            match column(samples, tokens, rate) {
                Ok((count, rates)) => {
                    let is_prompt = tokens == "prompt_tokens";
                    let test = Test {
                        n_prompt: if is_prompt { count } else { 0 },
                        n_gen: if is_prompt { 0 } else { count },
                        n_depth: 0,
                    };
                    self.check_tokens(tokens, count);
                    self.tests.push((test, rates));
                }
                Err((code, why)) => self.refuse(code, why),
            }
        }
    }

    fn check_tokens(&mut self, name: &str, count: u64) {
        if self.configuration.get(name).is_some_and(|said| *said != count.to_string()) {
            self.refuse(
                Code::SamplesDisagree,
                format!("`{name}` of the configuration is not that of the samples"),
            );
        }
    }

    fn check_repeats(&mut self, count: usize) {
        if let Some(said) = self.configuration.get("repeats")
            && *said != count.to_string()
        {
            let message = format!("truncated: {count} of {said} repetitions");
            self.refuse(Code::Truncated, message);
        }
    }

    fn check_median(&mut self, stated: Option<&Object>) {
        let Some(stated) = stated else {
            return self
                .refuse(Code::Truncated, "`median` is missing: the harness did not finish".to_owned());
        };
        let mut wrong = Vec::new();
        for ((_, rates), name) in self.tests.iter().zip(["prompt_tps", "generation_tps"]) {
            let said = stated.get(name).and_then(Json::as_f64);
            let found = statistics::median(rates);
            let agree =
                said.zip(found).is_some_and(|(said, found)| (said - found).abs() <= found.abs() * RELATIVE);
            if !agree {
                wrong.push(format!("the stated median of `{name}` is not that of the samples"));
            }
        }
        for message in wrong {
            self.refuse(Code::SamplesDisagree, message);
        }
    }
}

/// The rates of all samples, and the number of tokens that they share.
fn column(samples: &[Json], tokens: &str, rate: &str) -> Result<(u64, Vec<f64>), (Code, String)> {
    let mut count = None;
    let mut rates = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        let field = |name: &str| sample.as_object().and_then(|sample| sample.get(name));
        let said = format!("sample {}", index + 1);
        let Some(number) = field(tokens).and_then(Json::as_u64).filter(|number| *number > 0) else {
            return Err((
                Code::MalformedField,
                format!("{said}: `{tokens}` is not a whole number from 1 up"),
            ));
        };
        if *count.get_or_insert(number) != number {
            return Err((
                Code::MalformedField,
                format!("{said}: `{tokens}` is not that of the first sample"),
            ));
        }
        match field(rate).and_then(Json::as_f64) {
            Some(0.0) => return Err((Code::ZeroSample, format!("{said}: `{rate}` is 0"))),
            Some(value) if value > 0.0 => rates.push(value),
            _ => return Err((Code::MalformedField, format!("{said}: `{rate}` is not a number above 0"))),
        }
    }
    Ok((count.unwrap_or_default(), rates))
}

fn texts(value: Option<&Json>) -> BTreeMap<String, String> {
    let members = value.and_then(Json::as_object).into_iter().flat_map(Object::iter);
    members
        .filter_map(|(name, value)| {
            let text = match value {
                Json::Text(text) => text.clone(),
                Json::Bool(truth) => truth.to_string(),
                Json::Unsigned(number) => number.to_string(),
                Json::Signed(number) => number.to_string(),
                Json::Float(number) => number.to_string(),
                _ => return None,
            };
            Some((name.to_owned(), text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(samples: &str, median: &str) -> String {
        format!(
            r#"{{"schema_version":1,"runtime":{{"mlx":"0.32.0","platform":"x"}},"model":{{"id":"m","revision":"r"}},
            "configuration":{{"prompt_tokens":512,"generation_tokens":128,"repeats":2}},
            "samples":[{samples}],"median":{median}}}"#
        )
    }

    const SAMPLE: &str =
        r#"{"prompt_tokens":512,"prompt_tps":10.0,"generation_tokens":128,"generation_tps":4.0}"#;
    const MEDIAN: &str = r#"{"prompt_tps":10.0,"generation_tps":4.0}"#;

    fn codes(text: &str) -> Vec<Code> {
        read(text.as_bytes()).unwrap().findings.iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn reads_both_tests() {
        let read = read(file(&format!("{SAMPLE},{SAMPLE}"), MEDIAN).as_bytes()).unwrap();
        assert_eq!(read.findings, []);
        let names: Vec<String> = read.tests.iter().map(|(test, _)| test.to_string()).collect();
        assert_eq!(names, ["pp512", "tg128"]);
        assert_eq!(read.runtime.len(), 1);
    }

    #[test]
    fn each_fault_has_its_code() {
        let two = format!("{SAMPLE},{SAMPLE}");
        assert_eq!(codes(&file(SAMPLE, MEDIAN)), [Code::Truncated]);
        assert_eq!(codes(&file("", MEDIAN)), [Code::NoSamples, Code::Truncated]);
        assert_eq!(
            codes(&file(&two, r#"{"prompt_tps":11.0,"generation_tps":4.0}"#)),
            [Code::SamplesDisagree]
        );
        assert_eq!(codes(&file(&two, "null")), [Code::Truncated]);
        assert_eq!(codes(&file(&two.replacen("10.0", "0.0", 1), MEDIAN))[0], Code::ZeroSample);
        assert_eq!(codes(&file(&two.replacen("10.0", "-1", 1), MEDIAN))[0], Code::MalformedField);
        assert_eq!(codes(&file(&two.replacen("512", "256", 1), MEDIAN))[0], Code::MalformedField);
        assert_eq!(codes(&format!("{} tail", file(&two, MEDIAN))), [Code::TextAroundJson]);
        assert_eq!(codes(&file(&two, MEDIAN).replacen(":1,", ":2,", 1)), [Code::MalformedField]);
        assert_eq!(read(b"{}"), None);
    }
}
