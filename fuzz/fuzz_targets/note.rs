//! A note that parses is written again from its parts, byte for byte.
#![no_main]

use base64ct::{Base64, Encoding};
use capgate_registry::keys::SigningKey;
use capgate_registry::note::{self, Kind, Note, Origin};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(note) = Note::parse(bytes) else { return };
    let mut again = format!("{}\n", note.text());
    for signature in note.signatures() {
        let material = [signature.hash().as_slice(), signature.bytes()].concat();
        again += &format!("\u{2014} {} {}\n", signature.name(), Base64::encode_string(&material));
    }
    assert_eq!(again.as_bytes(), bytes);
    let key = SigningKey::from_seed("fuzz.test", [9; 32]).unwrap();
    assert!(note.verify(&[key.verifier().clone()], 1).is_err(), "nobody signed this");
    if let Ok(signed) = note::add_signature(bytes, &key) {
        assert_eq!(&signed[..bytes.len()], bytes);
        let signed = Note::parse(&signed).unwrap();
        assert_eq!(signed.verify(&[key.verifier().clone()], 1).unwrap().len(), 1);
    }
    for kind in Kind::ALL {
        let Ok(origin) = note::origin_of(note.text(), kind) else { continue };
        let origin = Origin::parse(origin).unwrap();
        let body = note::body(note.text(), kind, &origin).unwrap();
        assert_eq!(note::compose(kind, &origin, body).as_deref(), Ok(note.text()));
    }
});
