//! Private key files of `ssh-keygen`, as they are and changed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use base64ct::{Base64, Encoding};
use capgate_ssh::private_key::{self, PrivateKey, PrivateKeyError};

/// A TEST key, public knowledge: `ssh-keygen -t ed25519 -N '' -C alice@example.org`, OpenSSH 9.2.
const FILE: &str = "-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACAz1rjRK4n1AemAUf4kP2UEeaPDV4jpNgcmycRrZn9EcQAAAJgO0neFDtJ3
hQAAAAtzc2gtZWQyNTUxOQAAACAz1rjRK4n1AemAUf4kP2UEeaPDV4jpNgcmycRrZn9EcQ
AAAECaCNsyI7K2klGZ5XqjdR0A7pvTiAoisrXzaL5f+UtkJjPWuNErifUB6YBR/iQ/ZQR5
o8NXiOk2BybJxGtmf0RxAAAAEWFsaWNlQGV4YW1wbGUub3JnAQIDBA==
-----END OPENSSH PRIVATE KEY-----
";

fn bytes() -> Vec<u8> {
    let inner: String = FILE.lines().filter(|line| !line.starts_with('-')).collect();
    Base64::decode_vec(&inner).unwrap()
}

fn read(bytes: &[u8]) -> Result<PrivateKey, PrivateKeyError> {
    let (begin, end) = (private_key::BEGIN, "-----END OPENSSH PRIVATE KEY-----");
    private_key::read(&format!("{begin}\n{}\n{end}\n", Base64::encode_string(bytes)))
}

/// The same file with bytes at a place replaced.
fn changed(at: usize, to: &[u8]) -> Option<PrivateKeyError> {
    let mut bytes = bytes();
    bytes[at..at + to.len()].copy_from_slice(to);
    read(&bytes).err()
}

#[test]
fn a_file_of_ssh_keygen_is_read() {
    for text in [FILE.to_owned(), FILE.replace('\n', "\r\n"), FILE.trim_end().to_owned()] {
        let key = private_key::read(&text).unwrap();
        assert_eq!(key.comment, "alice@example.org");
        assert_eq!((key.seed[..2].to_vec(), key.public[..2].to_vec()), (vec![0x9a, 0x08], vec![0x33, 0xd6]));
    }
}

#[test]
fn an_encrypted_file_and_other_kinds_are_named() {
    // Behind the magic and a length, the cipher's name.
    assert_eq!(changed(19, b"aes2"), Some(PrivateKeyError::Encrypted { cipher: "aes2".into() }));
    assert_eq!(changed(27, b"bcry"), Some(PrivateKeyError::Malformed("the key derivation")));
    assert_eq!(changed(35, &[0, 0, 0, 2]), Some(PrivateKeyError::Count { count: 2 }));
    assert_eq!(changed(47, b"ssh-ed44819"), Some(PrivateKeyError::Kind { found: "ssh-ed44819".into() }));
}

#[test]
fn every_changed_byte_but_the_comments_is_refused_or_changes_the_seed() {
    let whole = bytes();
    let (seed, comment) = (seed_at(&whole), whole.len() - 4 - 17);
    for (at, byte) in whole.iter().enumerate() {
        let free = (seed..seed + 32).contains(&at) || (comment..comment + 17).contains(&at);
        assert_eq!(changed(at, &[byte ^ 1]).is_none(), free, "byte {at}");
    }
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length}");
    }
    assert!(read(&[whole, vec![5]].concat()).is_err());
}

fn seed_at(whole: &[u8]) -> usize {
    let seed = private_key::read(FILE).unwrap().seed;
    whole.windows(32).position(|window| window == seed.as_slice()).unwrap()
}

#[test]
fn other_text_is_no_key_file() {
    for (text, wanted) in [
        (String::new(), PrivateKeyError::Armour),
        (FILE.replace("OPENSSH ", ""), PrivateKeyError::Armour),
        (FILE.lines().take(5).collect(), PrivateKeyError::Armour),
        (FILE.replace("AQIDBA==", "AQIDBA"), PrivateKeyError::Base64),
        (FILE.replace("b3Bl", "b3B "), PrivateKeyError::Base64),
        (
            format!("{}\n{}\n", private_key::BEGIN, "-----END OPENSSH PRIVATE KEY-----"),
            PrivateKeyError::Malformed("its first bytes"),
        ),
    ] {
        assert_eq!(private_key::read(&text).err(), Some(wanted), "{text}");
    }
}
