//! A request to a witness is written again from its parts, and judged; an answer is written again, and counts for nobody.
#![no_main]

use capgate_registry::keys::SigningKey;
use capgate_registry::note::NoteKey;
use capgate_registry::trust::Role;
use capgate_registry::witness::{
    Held, Request, WitnessKey, WitnessSigner, judge, parse_answer, with_cosignatures,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let key = SigningKey::from_seed("fuzz.test", [9; 32]).unwrap();
    let witness = WitnessSigner::new(SigningKey::from_seed("fuzz.test", [9; 32]).unwrap());
    if let Ok(request) = Request::parse(bytes) {
        assert_eq!(Request::encode(request.old, &request.proof, &request.bytes), bytes);
        let log = Role { threshold: 1, keys: vec![key.verifier().clone()] };
        assert!(judge(&request, &log, None).is_err(), "nobody signed this");
        let held = Held::parse(request.bytes.clone(), request.checkpoint.origin.as_str()).unwrap();
        assert_eq!(held.checkpoint, request.checkpoint);
        // With a log that signs it, whatever is held then is held again.
        let signed = capgate_registry::note::sign(request.note.text(), &[&key]).unwrap();
        let again = Request::parse(&Request::encode(request.checkpoint.size, &[], &signed)).unwrap();
        judge(&again, &log, Some(&held)).unwrap();
        let time = jiff::Timestamp::UNIX_EPOCH;
        let line = parse_answer(witness.cosign(request.note.text(), time).unwrap().as_bytes()).unwrap();
        let cosigned = with_cosignatures(&signed, &line).unwrap();
        assert_eq!(&cosigned[..signed.len()], signed);
    }
    if let Ok(lines) = parse_answer(bytes) {
        assert_eq!(lines.iter().map(|line| line.line()).collect::<String>().as_bytes(), bytes);
        for line in lines {
            assert!(!witness.verifier().verifies("fuzz.test/log\n0\n", line.bytes()));
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(key) = WitnessKey::parse(text)
    {
        assert_eq!(key.to_string(), text);
    }
});
