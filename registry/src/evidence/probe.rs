//! What a capability probe printed: a few questions to the Metal device and its answers.
//!
//! Two dialects, with any number of answers in each:
//!
//! ```text
//! device=Apple Paravirtual device          ===== STOCK =====
//! family=1009                              {"device":"…","family":1009,"supports_family":false,
//! supports_family=true                      "max_threadgroup_memory":32768}
//! max_threadgroup_memory=65536             ===== BOOSTED =====
//! ```

use serde::Serialize;

use super::codes::Code;
use super::finding::Finding;
use super::json::{self, End, Json};

/// Most bytes of one file.
pub const MOST_BYTES: usize = 1024 * 1024;

/// What a probe said.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Probe {
    /// The answers, in the order of the file.
    pub answers: Vec<Answer>,
    /// Lines that are no part of an answer.
    pub ignored: usize,
    /// What is wrong with the file.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// The answers of one device in one state; what was not asked is none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Answer {
    /// The section it stands in, `STOCK`.
    pub section: Option<String>,
    /// Metal's name of the device.
    pub device: Option<String>,
    /// The Apple family that was asked for.
    pub family: Option<u64>,
    /// Whether the device says it supports that family.
    pub supports_family: Option<bool>,
    /// Threadgroup memory, in bytes.
    pub max_threadgroup_memory: Option<u64>,
}

impl Answer {
    fn is_empty(&self) -> bool {
        self.family.is_none() && self.supports_family.is_none() && self.max_threadgroup_memory.is_none()
    }

    /// Takes in one answer; false where the name is none of a probe's or was answered before.
    fn take(&mut self, name: &str, value: &str) -> bool {
        let number = value.trim().parse::<u64>().ok();
        match name.trim() {
            "device" | "device_name" | "name" => set(&mut self.device, Some(value.trim().to_owned())),
            "family" | "apple_family" => set(&mut self.family, number),
            "supports_family" | "supportsFamily" => set(&mut self.supports_family, truth(value.trim())),
            "max_threadgroup_memory" | "maxThreadgroupMemory" | "maxThreadgroupMemoryLength" => {
                set(&mut self.max_threadgroup_memory, number)
            }
            _ => false,
        }
    }
}

fn set<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
    let is_new = slot.is_none() && value.is_some();
    if is_new {
        *slot = value;
    }
    is_new
}

fn truth(value: &str) -> Option<bool> {
    match value {
        "true" | "1" | "yes" | "YES" => Some(true),
        "false" | "0" | "no" | "NO" => Some(false),
        _ => None,
    }
}

/// Reads a probe's output; none where it holds no answer.
pub fn read(bytes: &[u8]) -> Option<Probe> {
    if bytes.len() > MOST_BYTES {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let mut reader = Reader::default();
    for line in text.lines().map(|line| line.trim_start_matches('\u{feff}').trim()) {
        reader.line(line);
    }
    reader.finish();
    (!reader.probe.answers.is_empty()).then_some(reader.probe)
}

#[derive(Default)]
struct Reader {
    probe: Probe,
    section: Option<String>,
    answer: Answer,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        if let Some(section) = section(line) {
            self.finish();
            self.section = Some(section);
            return;
        }
        if line.starts_with('{') {
            if !self.object(line) {
                self.probe.ignored += 1;
            }
            return;
        }
        self.probe.findings.extend(few_repetitions(line));
        let pair = line.split_once('=').or_else(|| line.split_once(": "));
        if !pair.is_some_and(|(name, value)| self.pair(name, value)) {
            self.probe.ignored += 1;
        }
    }

    /// A name that comes again begins the next answer.
    fn pair(&mut self, name: &str, value: &str) -> bool {
        if self.answer.take(name, value) {
            return true;
        }
        let mut next = Answer::default();
        if !next.take(name, value) {
            return false;
        }
        self.finish();
        self.answer = next;
        true
    }

    fn object(&mut self, line: &str) -> bool {
        let (Some(Json::Object(object)), End::Complete(_)) = json::value(line.as_bytes()) else {
            return false;
        };
        self.finish();
        for (name, value) in object.iter() {
            let value = match value {
                Json::Text(text) => text.clone(),
                Json::Bool(truth) => truth.to_string(),
                Json::Unsigned(number) => number.to_string(),
                _ => continue,
            };
            self.answer.take(name, &value);
        }
        let said = !self.answer.is_empty();
        self.finish();
        said
    }

    fn finish(&mut self) {
        let mut answer = std::mem::take(&mut self.answer);
        if !answer.is_empty() {
            answer.section.clone_from(&self.section);
            self.probe.answers.push(answer);
        }
    }
}

/// `===== STOCK =====`
fn section(line: &str) -> Option<String> {
    let inner = line.strip_prefix("===")?.strip_suffix("===")?;
    let name = inner.trim_matches('=').trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Figures beside a probe's answers, from a run with fewer repetitions than count.
fn few_repetitions(line: &str) -> Option<Finding> {
    let (_, after) = line.split_once("llama-bench")?.1.split_once(" -r ")?;
    let repetitions: usize = after.split_whitespace().next()?.parse().ok()?;
    (repetitions < super::samples::FEWEST).then(|| {
        let message = format!("the figures beside the answers are from -r {repetitions}: not enough samples");
        Finding::new(Code::TooFewSamples, message).as_warning()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_and_repeated_names() {
        let probe = read(
            b"device=Apple Paravirtual device\nfamily=1009\nsupports_family=false\nmax_threadgroup_memory=32768\n\
              family=1005\nsupports_family=true\nnoise\n",
        )
        .unwrap();
        assert_eq!(probe.answers.len(), 2);
        assert_eq!(probe.answers[0].supports_family, Some(false));
        assert_eq!(probe.answers[1].family, Some(1005));
        assert_eq!(probe.ignored, 1);
    }

    #[test]
    fn what_is_no_probe() {
        for text in ["", "hello=1", "device=x", "{\"device\":\"x\"}", "{\"supports_family\":"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(read(&[0xff, 0xfe]), None);
    }
}
