//! Keys that are kept elsewhere: what comes back is used only if it is that key's signature.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use capgate_registry::keys::{SignError, Signer, SigningKey};
use capgate_registry::note::{self, Note, NoteError};

const TEXT: &str = "# capgate profile v1 test.example/gpu\nid = \"a\"\n";

fn here(seed: u8) -> SigningKey {
    SigningKey::from_seed("alice.test", [seed; 32]).unwrap()
}

/// Answers with what it was made of.
struct Answers<F>(F);

impl<F: Fn(&[u8]) -> Result<[u8; 64], String>> Signer for Answers<F> {
    fn sign(&self, message: &[u8]) -> Result<[u8; 64], String> {
        self.0(message)
    }
}

/// The key of seed 1, kept by something that answers so.
fn kept(answer: impl Fn(&[u8]) -> Result<[u8; 64], String> + Send + Sync + 'static) -> SigningKey {
    SigningKey::elsewhere(here(1).verifier().clone(), Box::new(Answers(answer)))
}

#[test]
fn a_key_that_is_kept_elsewhere_signs_as_it_would_here() {
    let key = kept(|message| Ok(here(1).sign(message).unwrap()));
    assert_eq!(note::sign(TEXT, &[&key]).unwrap(), note::sign(TEXT, &[&here(1)]).unwrap());
    let first = note::sign(TEXT, &[&here(2)]).unwrap();
    let both = note::add_signature(&first, &key).unwrap();
    let keys = [here(1).verifier().clone(), here(2).verifier().clone()];
    assert_eq!(Note::parse(&both).unwrap().verify(&keys, 2).unwrap().len(), 2);
    assert!(key.encode().is_none(), "there is no secret to write");
    assert!(format!("{key:?}").contains("alice.test"));
}

#[test]
fn nonsense_from_elsewhere_is_an_error_and_never_a_signature() {
    let nonsense: [(&str, SigningKey); 4] = [
        ("another key's", kept(|message| Ok(here(2).sign(message).unwrap()))),
        ("over another text", kept(|_| Ok(here(1).sign(b"another text\n").unwrap()))),
        ("zeroes", kept(|_| Ok([0; 64]))),
        (
            "one bit off",
            kept(|message| {
                let mut signature = here(1).sign(message).unwrap();
                signature[63] ^= 1;
                Ok(signature)
            }),
        ),
    ];
    let other = note::sign(TEXT, &[&here(3)]).unwrap();
    for (what, key) in nonsense {
        let wrong = NoteError::Sign(SignError::Wrong { name: "alice.test".into() });
        assert_eq!(note::sign(TEXT, &[&key]), Err(wrong.clone()), "{what}");
        assert_eq!(note::add_signature(&other, &key), Err(wrong), "{what}");
    }
}

#[test]
fn a_refusal_says_whose_and_why() {
    let key = kept(|_| Err("the agent is locked".into()));
    let error = note::sign(TEXT, &[&here(2), &key]).unwrap_err();
    assert_eq!(error.to_string(), "no signature of the key `alice.test`: the agent is locked");
}
