//! Signed notes: what Go writes is read, what lenient parsers take is refused, and thresholds count public keys.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use capgate_registry::keys::{SigningKey, VerifierKey};
use capgate_registry::note::{
    Kind, Note, NoteError, Origin, SignatureProblem, TextProblem, add_signature, body, check_text, compose,
    origin_of, sign,
};
use proptest::prelude::*;

/// The example in the documentation of Go's `note` package (a published TEST key).
const GO_KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const GO_NOTE: &str = "If you think cryptography is the answer to your problem,\n\
    then you don't know what your problem is.\n\n\
    — PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

/// A TEST key.
fn key(name: &str, byte: u8) -> SigningKey {
    SigningKey::from_seed(name, [byte; 32]).unwrap()
}

fn public(keys: &[&SigningKey]) -> Vec<VerifierKey> {
    keys.iter().map(|key| key.verifier().clone()).collect()
}

fn parse(note: &str) -> Result<Note, NoteError> {
    Note::parse(note.as_bytes())
}

fn origin() -> Origin {
    Origin::parse("example.org/gpu").unwrap()
}

#[test]
fn a_note_signed_by_go_verifies() {
    let keys: [VerifierKey; 1] = [GO_KEY.parse().unwrap()];
    let note = parse(GO_NOTE).unwrap();
    assert_eq!(note.verify(&keys, 1).unwrap(), [&keys[0]]);
    assert!(note.text().ends_with("what your problem is.\n"));
    assert!(note.unknown_signers(&keys).is_empty());
}

#[test]
fn each_changed_byte_is_refused() {
    let keys: [VerifierKey; 1] = [GO_KEY.parse().unwrap()];
    for at in 0..GO_NOTE.len() {
        for mask in [0x01, 0x20, 0x80] {
            let mut bytes = GO_NOTE.as_bytes().to_vec();
            bytes[at] ^= mask;
            let verified = Note::parse(&bytes).and_then(|note| note.verify(&keys, 1).map(|_| ()));
            assert!(verified.is_err(), "byte {at} xor {mask:02x}");
        }
    }
}

#[test]
fn each_truncation_is_refused() {
    let keys: [VerifierKey; 1] = [GO_KEY.parse().unwrap()];
    for end in 0..GO_NOTE.len() {
        let verified =
            Note::parse(&GO_NOTE.as_bytes()[..end]).and_then(|note| note.verify(&keys, 1).map(|_| ()));
        assert!(verified.is_err(), "first {end} bytes");
    }
}

#[test]
fn two_of_three_signatures() {
    let (a, b, c) = (key("a", 1), key("b", 2), key("c", 3));
    let note = Note::parse(&sign("text\n", &[&a, &c]).unwrap()).unwrap();
    let keys = public(&[&a, &b, &c]);
    assert_eq!(note.verify(&keys, 2).unwrap(), [&keys[0], &keys[2]]);
    let error = note.verify(&keys, 3).unwrap_err();
    assert_eq!(error.to_string(), "signed by 2 of the 3 keys that are needed: `a`, `c`");
    let error = note.verify(&keys[1..2], 1).unwrap_err();
    assert_eq!(error.to_string(), "signed by 0 of the 1 keys that are needed");
    let unknown = note.unknown_signers(&keys[..1]);
    assert_eq!(unknown.iter().map(|signature| signature.name()).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn attack_threshold_zero() {
    let note = parse(GO_NOTE).unwrap();
    assert_eq!(note.verify::<VerifierKey>(&[], 0), Err(NoteError::ZeroThreshold));
    assert_eq!(note.verify::<VerifierKey>(&[], 1), Err(NoteError::TooFew { needed: 1, signers: vec![] }));
}

#[test]
fn attack_one_key_listed_twice_counts_once() {
    let a = key("a", 1);
    let note = Note::parse(&sign("text\n", &[&a]).unwrap()).unwrap();
    let keys = public(&[&a, &a]);
    assert_eq!(note.verify(&keys, 1).unwrap().len(), 1);
    assert!(matches!(note.verify(&keys, 2), Err(NoteError::TooFew { needed: 2, .. })));
}

#[test]
fn attack_one_key_under_two_names_counts_once() {
    let (a, b) = (key("a", 1), key("b", 1));
    let signed = add_signature(&sign("text\n", &[&a]).unwrap(), &b).unwrap();
    let note = Note::parse(&signed).unwrap();
    let keys = public(&[&a, &b]);
    assert_eq!(note.verify(&keys, 1).unwrap(), [&keys[0]]);
    assert!(note.verify(&keys, 2).is_err());
}

#[test]
fn attack_one_signature_repeated_counts_once() {
    let (a, b) = (key("a", 1), key("b", 2));
    let signed = String::from_utf8(sign("text\n", &[&a]).unwrap()).unwrap();
    let line = signed.lines().last().unwrap();
    let note = parse(&format!("{signed}{line}\n{line}\n")).unwrap();
    assert_eq!(note.verify(&public(&[&a, &b]), 1).unwrap().len(), 1);
    assert!(note.verify(&public(&[&a, &b]), 2).is_err());
}

#[test]
fn attack_one_bad_signature_among_good_ones() {
    let (a, b) = (key("a", 1), key("b", 2));
    let good = String::from_utf8(sign("text\n", &[&a]).unwrap()).unwrap();
    let other = String::from_utf8(sign("other\n", &[&b]).unwrap()).unwrap();
    let note = parse(&format!("{good}{}\n", other.lines().last().unwrap())).unwrap();
    assert_eq!(note.verify(&public(&[&a, &b]), 1), Err(NoteError::Invalid { name: "b".into() }));
    assert_eq!(note.verify(&public(&[&a]), 1).unwrap().len(), 1);
}

#[test]
fn attack_second_signature_of_a_known_key_is_bad() {
    // Go skips further lines of a key that already signed; here they must verify too.
    let a = key("a", 1);
    let good = String::from_utf8(sign("text\n", &[&a]).unwrap()).unwrap();
    let other = String::from_utf8(sign("other\n", &[&a]).unwrap()).unwrap();
    let note = parse(&format!("{good}{}\n", other.lines().last().unwrap())).unwrap();
    assert_eq!(note.verify(&public(&[&a]), 1), Err(NoteError::Invalid { name: "a".into() }));
}

#[test]
fn attack_known_key_with_a_signature_of_another_length() {
    let a = key("a", 1);
    let mut material = a.verifier().hash().to_vec();
    material.extend_from_slice(&a.sign(b"text\n").unwrap());
    material.push(0);
    let line = <base64ct::Base64 as base64ct::Encoding>::encode_string(&material);
    let note = parse(&format!("text\n\n— a {line}\n")).unwrap();
    assert_eq!(note.verify(&public(&[&a]), 1), Err(NoteError::Invalid { name: "a".into() }));
}

#[test]
fn signatures_of_unknown_algorithms_are_kept_and_count_nothing() {
    let a = key("a", 1);
    let signed = String::from_utf8(sign("text\n", &[&a]).unwrap()).unwrap();
    // Five bytes are the least; a witness's cosignature has 76; Go keeps both.
    let note = parse(&format!("{signed}— witness AAAAAAE=\n")).unwrap();
    let keys = public(&[&a]);
    assert_eq!(note.verify(&keys, 1).unwrap().len(), 1);
    assert_eq!(note.unknown_signers(&keys)[0].bytes(), [1]);
    assert_eq!(note.signatures().len(), 2);
}

#[test]
fn malformed_notes_are_refused() {
    let line = "— a AAAAAAE=\n";
    let long = "x".repeat(1 << 20);
    let many = line.repeat(101);
    for (note, expected) in [
        (String::new(), NoteError::NoFinalLineFeed),
        ("text\n".into(), NoteError::NoSignatures),
        ("text\n\n".into(), NoteError::NoSignatures),
        (format!("text\n{line}"), NoteError::NoSignatures),
        (line.into(), NoteError::NoSignatures),
        (format!("\n{line}"), NoteError::NoSignatures),
        (format!("text\n\n{line}\n"), NoteError::NoSignatures),
        (format!("text\n\n{line}— a"), NoteError::NoFinalLineFeed),
        (format!("{long}\n\n{line}"), NoteError::TooLarge { size: long.len() + 2 + line.len() }),
        (format!("text\n\n{many}"), NoteError::TooManySignatures),
        ("te\rxt\n\n— a AAAAAAE=\n".into(), TextProblem { offset: 2, character: '\r' }.into()),
        ("text\n\n— a\u{202e} AAAAAAE=\n".into(), TextProblem { offset: 11, character: '\u{202e}' }.into()),
    ] {
        assert_eq!(parse(&note).unwrap_err(), expected);
    }
    assert_eq!(Note::parse(b"te\xff\n\n").unwrap_err(), NoteError::NotUtf8 { offset: 2 });
    assert!(parse(&format!("text\n\n{}", line.repeat(100))).is_ok());
}

#[test]
fn malformed_signature_lines_are_refused() {
    for (line, problem) in [
        ("- a AAAAAAE=", SignatureProblem::Form),
        ("\u{2013} a AAAAAAE=", SignatureProblem::Form),
        ("—  a AAAAAAE=", SignatureProblem::Name),
        ("— a  AAAAAAE=", SignatureProblem::Base64),
        ("— a AAAAAAE= ", SignatureProblem::Base64),
        ("— a AAAAAAE= x", SignatureProblem::Base64),
        ("— a AAAAAAE", SignatureProblem::Base64),
        ("— a AAAAAAF=", SignatureProblem::Base64),
        ("— a AAAAAA-_", SignatureProblem::Base64),
        ("— a AAAAAA==", SignatureProblem::Short),
        ("— a ", SignatureProblem::Short),
        ("— a", SignatureProblem::Form),
        ("— +a AAAAAAE=", SignatureProblem::Name),
        ("— a\u{a0}b AAAAAAE=", SignatureProblem::Name),
        ("trailing", SignatureProblem::Form),
    ] {
        let error = parse(&format!("text\n\n— b AAAAAAE=\n{line}\n")).unwrap_err();
        assert_eq!(error, NoteError::Signature { line: 2, problem }, "{line}");
    }
}

#[test]
fn the_last_blank_line_splits() {
    let a = key("a", 1);
    for text in ["\n", "\n\n", "one\n\ntwo\n", "one\n\n\n", "— a AAAAAAE=\n\n— a AAAAAAE=\n"] {
        let note = Note::parse(&sign(text, &[&a]).unwrap()).unwrap();
        assert_eq!(note.text(), text);
        assert!(note.verify(&public(&[&a]), 1).is_ok());
    }
}

#[test]
fn refused_characters() {
    let refused = "\0\t\r\u{b}\u{1b}\u{7f}\u{80}\u{85}\u{9f}\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\
        \u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{2028}\u{2029}\u{feff}";
    for character in refused.chars() {
        let problem = TextProblem { offset: 3, character };
        assert_eq!(check_text(&format!("é\n{character}\n")), Err(problem));
        assert_eq!(sign(&format!("é\n{character}\n"), &[&key("a", 1)]), Err(problem.into()));
    }
    assert!(check_text("plain, Ünïcode, 漢字, \u{a0}\n").is_ok());
    let shown = TextProblem { offset: 3, character: '\u{202e}' }.to_string();
    assert_eq!(shown, "the character U+202E at byte 3 is not allowed in a signed text");
}

#[test]
fn signing_refuses_what_reading_would() {
    let a = key("a", 1);
    assert_eq!(sign("text", &[&a]), Err(NoteError::NoFinalLineFeed));
    assert_eq!(sign("text\n", &[]), Err(NoteError::NoKey));
    assert_eq!(sign("text\n", &[&a, &key("b", 1)]), Err(NoteError::AlreadySigned { name: "b".into() }));
    let large = format!("{}\n", "x".repeat(1 << 20));
    assert!(matches!(sign(&large, &[&a]), Err(NoteError::TooLarge { .. })));
}

#[test]
fn signatures_are_added_without_touching_the_rest() {
    let (a, b) = (key("a", 1), key("b", 2));
    let one = sign("text\n", &[&a]).unwrap();
    let two = add_signature(&one, &b).unwrap();
    assert!(two.starts_with(&one));
    assert_eq!(two, sign("text\n", &[&a, &b]).unwrap());
    assert_eq!(add_signature(&two, &a), Err(NoteError::AlreadySigned { name: "a".into() }));
    assert!(add_signature(b"text\n", &a).is_err());
}

#[test]
fn domains_separate_kinds_and_registries() {
    let text = compose(Kind::Profile, &origin(), "schema = \"1.0.0\"\n").unwrap();
    assert_eq!(text, "# capgate profile v1 example.org/gpu\nschema = \"1.0.0\"\n");
    assert_eq!(body(&text, Kind::Profile, &origin()).unwrap(), "schema = \"1.0.0\"\n");
    assert_eq!(origin_of(&text, Kind::Profile).unwrap(), "example.org/gpu");
    for kind in Kind::ALL.into_iter().filter(|&kind| kind != Kind::Profile) {
        let error = body(&text, kind, &origin()).unwrap_err();
        assert_eq!(error, NoteError::WrongKind { expected: kind, found: "profile".into() });
        assert!(origin_of(&text, kind).is_err());
    }
    let other = Origin::parse("example.org/gpu2").unwrap();
    let error = body(&text, Kind::Profile, &other).unwrap_err();
    assert_eq!(error.to_string(), "the text belongs to `example.org/gpu`, not to `example.org/gpu2`");
    assert_eq!(compose(Kind::Host, &origin(), "").unwrap(), "# capgate host v1 example.org/gpu\n");
    assert_eq!(compose(Kind::Host, &origin(), "x"), Err(NoteError::NoFinalLineFeed));
    assert!(compose(Kind::Host, &origin(), "\t\n").is_err());
}

#[test]
fn domain_lines_have_one_spelling() {
    for text in [
        "",
        "\n",
        "schema = 1\n",
        "#capgate profile v1 example.org/gpu\n",
        "# capgate  profile v1 example.org/gpu\n",
        "# capgate profile\n",
        "# capgate profile v1\n",
        "# capgate profile v1 example.org/gpu",
        " # capgate profile v1 example.org/gpu\n",
        "\n# capgate profile v1 example.org/gpu\n",
        "# Capgate profile v1 example.org/gpu\n",
        "# capgate profile v1  example.org/gpu\n",
        "# capgate profile v1 example.org/gpu \n",
        "# capgate profile v1 example.org/GPU\n",
        "# capgate Profile v1 example.org/gpu\n",
        "# capgate profile v01 example.org/gpu\n",
    ] {
        assert!(body(text, Kind::Profile, &origin()).is_err(), "{text:?}");
        assert!(origin_of(text, Kind::Profile).is_err(), "{text:?}");
    }
    let error = body("# capgate profile v2 example.org/gpu\n", Kind::Profile, &origin()).unwrap_err();
    assert_eq!(error, NoteError::Version { found: "v2".into() });
    assert_eq!(body("schema = 1\n", Kind::Profile, &origin()), Err(NoteError::NoDomain));
}

#[test]
fn origins_are_checked() {
    for good in ["a", "example.org/gpu", "trial/2f", "a_b-c.d/0", &"o".repeat(128)] {
        assert!(Origin::parse(good).is_ok(), "{good}");
    }
    let long = "o".repeat(129);
    for bad in [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        "..",
        "a/../b",
        "a..b",
        ".",
        "a/./b",
        "A",
        "a b",
        "a+b",
        "é",
        "a\n",
        "https://a",
        &long,
    ] {
        assert!(Origin::parse(bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn anything_signed_is_read_back(body in "[ -~é漢\n]{0,200}", seeds in prop::collection::btree_set(1u8..200, 1..5)) {
        let keys: Vec<SigningKey> = seeds.iter().map(|&seed| key(&format!("k{seed}"), seed)).collect();
        let all: Vec<&SigningKey> = keys.iter().collect();
        let text = format!("{body}\n");
        let note = Note::parse(&sign(&text, &all).unwrap()).unwrap();
        prop_assert_eq!(note.text(), &text);
        prop_assert_eq!(note.verify(&public(&all), all.len()).unwrap().len(), all.len());
        prop_assert!(note.verify(&public(&all), all.len() + 1).is_err());
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,40}\n\n— \\PC{0,40}\n") {
        let _ = Note::parse(&bytes);
        let _ = parse(&text);
        let _ = body(&text, Kind::Latest, &origin());
    }
}
