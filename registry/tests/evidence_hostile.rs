//! Bytes that nobody wrote on purpose, or that somebody did: nothing panics, and what is refused has a reason.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::path::PathBuf;
use std::sync::OnceLock;

use capgate_registry::evidence::codes::Code;
use capgate_registry::evidence::identify::inspect;
use capgate_registry::evidence::{environment, llama_bench, log_dialect, mlx, probe, statistics, sums};
use proptest::prelude::*;

fn fixtures() -> &'static [Vec<u8>] {
    static FIXTURES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FIXTURES.get_or_init(|| {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
        ["cases", "llama-bench"]
            .iter()
            .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
            .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect()
    })
}

fn read_with_everything(bytes: &[u8]) {
    let inspection = inspect("file", bytes);
    assert_eq!(inspection.serves, inspection.refusals.is_empty());
    let _read = (llama_bench::read(bytes), log_dialect::read(bytes), mlx::read(bytes));
    let _read = (probe::read(bytes), environment::read(bytes), sums::read(bytes));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        read_with_everything(&bytes);
    }

    #[test]
    fn random_words(words in prop::collection::vec(
        prop::sample::select(vec![
            "[", "]", "{", "}", "\"", ":", ",", "\n", " ", "=", "(", ")", "\u{1b}[", "\u{feff}", "build_commit", "samples_ns",
            "ggml_metal_init:", "GPU name:", "GPU family:", "MTLGPUFamilyApple9", "(1009)", "Enabled for", "Apple", "M1",
            "macOS", "25G76", "exit code", "-1", "1e999", "é", "===== A =====", "supports_family=true", "Host", "..",
        ]), 0..200)) {
        read_with_everything(words.concat().as_bytes());
    }

    #[test]
    fn changed_fixtures(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 1..8),
    ) {
        let mut bytes = which.get(fixtures()).clone();
        for (place, byte, change) in changes {
            if bytes.is_empty() {
                break;
            }
            let place = place.index(bytes.len());
            match change {
                0 => bytes[place] = byte,
                1 => { bytes.remove(place); }
                _ => bytes.insert(place, byte),
            }
        }
        read_with_everything(&bytes);
    }

    #[test]
    fn cut_fixtures_never_serve_as_whole_ones(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let whole = which.get(fixtures());
        let cut = &whole[..at.index(whole.len() + 1)];
        read_with_everything(cut);
        if let (Some(before), Some(after)) = (llama_bench::read(whole), llama_bench::read(cut)) {
            let is_shorter = after.rows.len() < before.rows.len();
            let is_list = before.format == llama_bench::Format::Json;
            prop_assert!(!is_shorter || !is_list || after.findings.iter().any(|finding| finding.code == Code::Truncated));
        }
    }

    #[test]
    fn statistics_stay_in_their_ranges(values in prop::collection::vec(0.001_f64..1e6, 0..50)) {
        if let Some(median) = statistics::median(&values) {
            prop_assert!(values.iter().any(|value| *value <= median) && values.iter().any(|value| *value >= median));
        }
        if let Some(rho) = statistics::spearman(&values) {
            prop_assert!((-1.000_001..=1.000_001).contains(&rho));
        }
        prop_assert!(statistics::variation(&values).is_none_or(|cv| cv >= 0.0));
    }
}

fn codes(text: &str) -> Vec<Code> {
    llama_bench::read(text.as_bytes()).unwrap().findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn each_changed_field_has_its_code() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/llama-bench/reps-1.json");
    let good = std::fs::read_to_string(path).unwrap();
    assert_eq!(codes(&good), []);
    for (from, to, code) in [
        ("\"samples_ns\": [ 627979269 ]", "\"samples_ns\": [ -627979269 ]", Code::MalformedField),
        ("\"samples_ns\": [ 627979269 ]", "\"samples_ns\": [ 627979269.5 ]", Code::MalformedField),
        ("\"samples_ns\": [ 627979269 ]", "\"samples_ns\": [ 0 ]", Code::ZeroSample),
        ("\"samples_ns\": [ 627979269 ]", "\"samples_ns\": [ 627979269, 627979269 ]", Code::SamplesDisagree),
        ("25.4785 ]", "25.4789 ]", Code::SamplesDisagree),
        ("25.4785 ]", "\"25.4785\" ]", Code::SamplesDisagree),
        ("25.4785 ]", "nan ]", Code::MalformedJson),
        ("\"avg_ts\": 25.478548", "\"avg_ts\": 25.48", Code::SamplesDisagree),
        ("\"avg_ts\": 25.478548", "\"avg_ts\": -nan", Code::MalformedJson),
        ("\"n_gen\": 0", "\"n_gen\": 0, \"n_gen\": 1", Code::MalformedJson),
        ("\"n_gen\": 0,", "", Code::MissingField),
        ("\"n_prompt\": 16", "\"n_prompt\": 0", Code::MalformedField),
        ("\"n_prompt\": 16", "\"n_prompt\": 99999999999999", Code::MalformedField),
        ("\"n_prompt\": 16", "\"n_prompt\": -16", Code::MalformedField),
        ("2026-11-30T22:47:53Z", "yesterday", Code::MalformedField),
        ("\"build_number\": 11434", "\"build_number\": \"11434\"", Code::MalformedField),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        assert_eq!(codes(&bad), [code], "{to}");
    }
}

#[test]
fn sizes_are_bounded() {
    let huge = vec![b'['; llama_bench::MOST_BYTES + 1];
    assert_eq!(llama_bench::read(&huge).unwrap().findings[0].code, Code::TooLarge);
    let rows = format!("[{}1]", "1,".repeat(llama_bench::MOST_ROWS));
    assert!(codes(&rows).contains(&Code::MalformedJson));
}

/// Found by the fuzz target `inspect`: a chip's name went into a message with the control character that it held.
#[test]
fn what_a_message_quotes_is_harmless_on_a_terminal() {
    let named = |chip: &str| {
        format!(
            "Hardware:\n\n    Hardware Overview:\n\n      Model Name: Apple Virtual Machine 1\n      Model Identifier: \
             VirtualMac2,1\n      Chip: {chip}\n      Memory: 16 GB\n"
        )
    };
    let inspection = inspect("file", named("Apple M4\u{1c} \u{202e}Pro (Virtual)").as_bytes());
    let messages: Vec<&str> = inspection.refusals.iter().map(|finding| finding.message.as_str()).collect();
    assert!(!messages.is_empty());
    for message in messages {
        assert!(!message.contains(capgate_registry::text::is_forbidden), "{message:?}");
    }
}
