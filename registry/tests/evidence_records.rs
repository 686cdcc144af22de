//! Run records in bundles, held against their manifests; and what must hold of any record.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod bundles;

use bundles::sound::{codes, judged, pin, sound};
use capgate_registry::evidence::codes::Code::{self, *};
use capgate_registry::evidence::identify::{Kind, inspect};
use capgate_registry::evidence::judge::Verdict;
use capgate_registry::evidence::run_record::{self, Exit, diff, mask};
use proptest::prelude::*;

const GUEST: &str = include_str!("../../tests/records/good/guest.json");

/// Codes of the sound bundle's refusals with this record of one of its arms.
fn refusals(record: &str, of: &str) -> Vec<Code> {
    let mut bundle = sound();
    let manifest = String::from_utf8(bundle.files["bundle.toml"].clone()).unwrap();
    let line = format!("file = [\n  {{ path = \"run.json\", role = \"record\"{of} }},\n");
    bundle.files.insert("bundle.toml".to_owned(), manifest.replace("file = [\n", &line).into_bytes());
    bundle.files.insert("run.json".to_owned(), record.as_bytes().to_vec());
    pin(&mut bundle);
    let judgement = judged(&bundle);
    let (refusals, warnings) = codes(&judgement);
    assert_eq!(warnings, []);
    assert_eq!(judgement.verdict == Verdict::Publishable, refusals.is_empty());
    for refusal in &judgement.refusals {
        assert_eq!(refusal.file.as_deref(), Some("run.json"));
    }
    refusals
}

#[test]
fn a_record_that_bears_the_manifest_out_changes_nothing() {
    for of in ["", ", of = \"override\"", ", of = \"stock\""] {
        assert_eq!(refusals(GUEST, of), [], "{of}");
    }
}

#[test]
fn a_record_that_contradicts_the_manifest_is_refused() {
    for (from, to, code) in [
        ("\"build\": \"25F84\"", "\"build\": \"25F85\"", RecordDiffers),
        ("\"build\": \"25G76\"", "\"build\": \"25G77\"", RecordDiffers),
        ("\"chip\": \"Apple M1 Ultra\"", "\"chip\": \"Apple M1\"", RecordDiffers),
        ("28faa552", "28faa553", RecordDiffers),
        ("9fecc3b3", "9fecc3b4", RecordDiffers),
        ("\"code\": 0", "\"code\": 1", Aborted),
        ("\"code\": 0", "\"signal\": 9", Aborted),
        ("\"value\": \"[masked]\"", "\"value\": \"sk-abcdefghij0123456789\"", RecordSecret),
        ("run-record v1", "run-record v2", RecordMalformed),
        ("\"notes\"", "\"note\"", RecordMalformed),
    ] {
        assert!(GUEST.contains(from), "{from}");
        assert_eq!(refusals(&GUEST.replacen(from, to, 1), ", of = \"override\""), [code], "{from}");
    }
    let incomplete = GUEST
        .replace("\"complete\": true", "\"complete\": false")
        .replace("\"exit\": {\n      \"code\": 0\n    }", "\"exit\": null");
    assert_eq!(refusals(&incomplete, ""), [RecordIncomplete]);
    // A record of the host's own arm names the host's systems as its own.
    assert_eq!(refusals(GUEST, ", of = \"host\""), [RecordDiffers]);
}

#[test]
fn inspect_knows_a_record_by_its_content() {
    let found = inspect("any-name", GUEST.as_bytes());
    assert_eq!((found.kind, found.serves), (Kind::RunRecord, true));
    let found = inspect("any-name", GUEST.replace("run-record v1", "run-record v9").as_bytes());
    assert_eq!((found.kind, found.refusals[0].code), (Kind::RunRecord, RecordMalformed));
}

#[test]
fn what_is_written_reads_as_the_same_again() {
    let record = run_record::read(GUEST.as_bytes()).unwrap();
    assert_eq!(record.to_json(), GUEST);
    assert_eq!(record.run.exit, Some(Exit::Code(0)));
    assert!(record.secrets().is_empty());
}

#[test]
fn too_much_is_refused_before_it_is_read() {
    let large = format!("{}{GUEST}", " ".repeat(run_record::MOST_BYTES));
    assert!(run_record::read(large.as_bytes()).unwrap_err().what.contains("more than the 4194304 bytes"));
    let list = format!("[{}]", vec!["\"x\""; run_record::MOST_ITEMS + 1].join(","));
    let many =
        GUEST.replace("[\n    \"made by hand after the form of a real one: no Mac was at hand\"\n  ]", &list);
    let wrong = run_record::read(many.as_bytes()).unwrap_err();
    assert_eq!(wrong.to_string(), "notes: has 20001 items, more than 20000");
}

#[test]
fn what_was_denied_outweighs_everything_else() {
    let a = run_record::read(GUEST.as_bytes()).unwrap();
    let mut b = a.clone();
    b.capabilities.metal[0].supports_family = Some(false);
    b.run.command[4] = "jsonl".to_owned();
    b.run.directory = "/elsewhere".to_owned();
    b.os.here.build = Some("25F85".to_owned());
    b.files[2].sha256 = b.files[1].sha256;
    b.run.samples[0].median = Some(1600.0);
    let found = diff::compare(&a, &b);
    let codes: Vec<&str> = found.differences.iter().map(|difference| difference.code).collect();
    assert_eq!(codes, ["metal-family", "model", "argument", "os", "directory"]);
    assert!((found.outcomes[0].times_slower - 16.0).abs() < 0.01);
    let back = diff::compare(&b, &a);
    assert_eq!(back.differences.iter().map(|difference| difference.code).collect::<Vec<_>>(), codes);
    assert_eq!(diff::compare(&b, &b).differences, []);
}

proptest! {
    #[test]
    fn masking_twice_masks_nothing_more(said in "([a-zA-Z0-9_=:/@.+\"' ,;&?-]|://|Bearer |token|KEY|\\[masked\\]|ghp_|eyJ|\t|\n){0,60}") {
        let once = mask::text(&said);
        let twice = mask::text(&once.text);
        prop_assert_eq!(&twice.text, &once.text);
        prop_assert!(twice.rules.is_empty(), "{:?}: {:?}", once.text, twice.rules);
    }

    #[test]
    fn a_cleaned_record_holds_no_secret_and_can_be_read(said in ".{0,80}", name in "[A-Z_]{1,12}(TOKEN|KEY)?") {
        let mut record = run_record::read(GUEST.as_bytes()).unwrap();
        record.run.command = vec![said.clone(), format!("{name}={said}")];
        record.notes = vec![said];
        record.clean();
        prop_assert!(record.secrets().is_empty());
        prop_assert_eq!(run_record::read(record.to_json().as_bytes()).unwrap(), record);
    }

    #[test]
    fn no_change_of_a_record_makes_its_reader_panic(at in 0..GUEST.len(), byte: u8) {
        let mut bytes = GUEST.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(record) = run_record::read(&bytes) {
            prop_assert_eq!(run_record::read(record.to_json().as_bytes()).unwrap(), record);
        }
    }
}
