//! Answers of an agent, well-formed and not.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use capgate_ssh::agent::{self, AnswerError, MAX_MESSAGE};
use capgate_ssh::{blob, fingerprint};

/// The public bytes of the key in tests/private_key.rs, and the digest that `ssh-keygen -l` gives for it.
const PUBLIC: [u8; 32] = [
    0x33, 0xd6, 0xb8, 0xd1, 0x2b, 0x89, 0xf5, 0x01, 0xe9, 0x80, 0x51, 0xfe, 0x24, 0x3f, 0x65, 0x04, 0x79,
    0xa3, 0xc3, 0x57, 0x88, 0xe9, 0x36, 0x07, 0x26, 0xc9, 0xc4, 0x6b, 0x66, 0x7f, 0x44, 0x71,
];

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn identities() -> Vec<u8> {
    let rsa = [string(b"ssh-rsa"), string(b"\x01\x00\x01"), string(b"\x00many")].concat();
    let fields =
        [string(&blob(&PUBLIC)), string(b"alice@example.org"), string(&rsa), string(b"an old \xff one")];
    [vec![12, 0, 0, 0, 2], fields.concat()].concat()
}

fn signature() -> Vec<u8> {
    let signature = [string(b"ssh-ed25519"), string(&[7; 64])].concat();
    [vec![14], string(&signature)].concat()
}

#[test]
fn requests_have_their_form() {
    assert_eq!(agent::request_identities(), [0, 0, 0, 1, 11]);
    let request = agent::sign_request(&PUBLIC, b"text\n").unwrap();
    let body = [vec![13], string(&blob(&PUBLIC)), string(b"text\n"), vec![0; 4]].concat();
    assert_eq!(request, string(&body));
    let long = vec![b'a'; MAX_MESSAGE];
    assert_eq!(agent::sign_request(&PUBLIC, &long), Err(AnswerError::Unsendable { size: MAX_MESSAGE }));
}

#[test]
fn keys_are_listed_with_what_their_owner_calls_them() {
    let found = agent::identities(&identities()).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].public, found[0].comment.as_str()), (Some(PUBLIC), "alice@example.org"));
    assert_eq!(found[0].fingerprint, fingerprint(&blob(&PUBLIC)));
    assert_eq!(found[0].fingerprint, "SHA256:/bA3srs+9cN3TcUkpzziDVeddvzhpUfLGlexvhUlUw4");
    assert_eq!((found[1].public, found[1].kind.as_str()), (None, "ssh-rsa"));
    assert_eq!(found[1].comment, "an old \u{fffd} one");
    assert_eq!(agent::identities(&[12, 0, 0, 0, 0]).unwrap(), []);
}

#[test]
fn a_signature_is_taken_out_of_its_two_strings() {
    assert_eq!(agent::signature(&signature()), Ok([7; 64]));
    let rsa = [string(b"rsa-sha2-512"), string(&[7; 64])].concat();
    let answer = [vec![14], string(&rsa)].concat();
    assert_eq!(agent::signature(&answer), Err(AnswerError::Algorithm { found: "rsa-sha2-512".into() }));
    for length in [0, 63, 65] {
        let other = [string(b"ssh-ed25519"), string(&vec![7; length])].concat();
        let answer = [vec![14], string(&other)].concat();
        assert_eq!(agent::signature(&answer), Err(AnswerError::Malformed("the signature")), "{length}");
    }
}

#[test]
fn each_truncated_or_longer_answer_is_refused() {
    let (identities, signature) = (identities(), signature());
    for length in 0..identities.len() {
        assert!(agent::identities(&identities[..length]).is_err(), "{length}");
    }
    for length in 0..signature.len() {
        assert!(agent::signature(&signature[..length]).is_err(), "{length}");
    }
    assert!(agent::identities(&[identities, vec![0]].concat()).is_err());
    assert!(agent::signature(&[signature, vec![0]].concat()).is_err());
}

#[test]
fn refusals_and_other_messages_are_told_apart() {
    assert_eq!(agent::identities(&[5]), Err(AnswerError::Refused));
    assert_eq!(agent::signature(&[5]), Err(AnswerError::Refused));
    assert_eq!(agent::identities(&[14]), Err(AnswerError::Type { expected: 12, found: 14 }));
    assert_eq!(agent::signature(&[12, 0, 0, 0, 0]), Err(AnswerError::Type { expected: 14, found: 12 }));
    assert_eq!(agent::identities(&[]), Err(AnswerError::Empty));
}

#[test]
fn endless_data_is_refused_before_it_is_read() {
    assert_eq!(agent::answer_length([0, 0, 0, 0]), Err(AnswerError::Empty));
    assert_eq!(agent::answer_length([0, 4, 0, 0]), Ok(MAX_MESSAGE));
    assert_eq!(agent::answer_length([0, 4, 0, 1]), Err(AnswerError::TooLarge { size: 262_145 }));
    assert_eq!(agent::answer_length([0xff; 4]), Err(AnswerError::TooLarge { size: u32::MAX }));
    let many = [12, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(agent::identities(&many), Err(AnswerError::TooMany { count: u32::MAX }));
    // A string that promises more than there is takes no memory.
    assert_eq!(
        agent::identities(&[12, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]),
        Err(AnswerError::Malformed("a key"))
    );
}
