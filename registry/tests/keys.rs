//! Keys: RFC 8032 vectors, one spelling each, and the attacks on Ed25519 that lenient verifiers accept.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::string_slice)]

use std::collections::{BTreeSet, HashSet};

use base64ct::{Base64, Encoding};
use capgate_registry::keys::{KeyError, SigningKey, VerifierKey, check_name};
use sha2::{Digest, Sha256, Sha512};

/// A published TEST key, from the documentation of Go's `note` package.
const GO_PUBLIC: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const GO_PRIVATE: &str = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";

/// RFC 8032 §7.1, tests 1 to 3 (TEST keys): seed, public key, message, signature.
const RFC8032: [[&str; 4]; 3] = [
    [
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ],
    [
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ],
    [
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ],
];

/// Every encoding of a point of small order, those that are not canonical included.
const SMALL_ORDER: [&str; 14] = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
];

/// The group order L, little-endian.
const ORDER: &str = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn array<const N: usize>(text: &str) -> [u8; N] {
    hex(text).try_into().unwrap()
}

/// A TEST key.
fn test_key(name: &str, byte: u8) -> SigningKey {
    SigningKey::from_seed(name, [byte; 32]).unwrap()
}

/// Encodes any name, algorithm and bytes with the hash that belongs to them.
fn encode(name: &str, algorithm: u8, bytes: &[u8]) -> String {
    let material = [&[algorithm], bytes].concat();
    let hash = Sha256::new().chain_update(name).chain_update("\n").chain_update(&material).finalize();
    let hash: String = hash[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name}+{hash}+{}", Base64::encode_string(&material))
}

#[test]
fn rfc8032_vectors_sign_and_verify() {
    for [seed, public, message, signature] in RFC8032 {
        let key = SigningKey::from_seed("rfc8032", array(seed)).unwrap();
        assert_eq!(key.verifier().public(), &array::<32>(public));
        assert_eq!(key.sign(&hex(message)).unwrap(), array::<64>(signature));
        assert!(key.verifier().verify(&hex(message), &array(signature)));
        assert!(!key.verifier().verify(b"another message", &array(signature)));
    }
}

#[test]
fn each_changed_byte_of_a_signature_is_refused() {
    let key = test_key("a", 1);
    let signature = key.sign(b"message").unwrap();
    for at in 0..64 {
        for bit in 0..8 {
            let mut changed = signature;
            changed[at] ^= 1 << bit;
            assert!(!key.verifier().verify(b"message", &changed), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn attack_malleable_s_is_refused() {
    let key = test_key("a", 1);
    let mut signature = key.sign(b"message").unwrap();
    let mut carry = 0u16;
    for (byte, order) in signature[32..].iter_mut().zip(hex(ORDER)) {
        carry += u16::from(*byte) + u16::from(order);
        *byte = carry.to_le_bytes()[0];
        carry >>= 8;
    }
    assert_eq!(carry, 0);
    assert!(!key.verifier().verify(b"message", &signature));
}

#[test]
fn attack_small_order_keys_are_refused() {
    for public in SMALL_ORDER {
        let error = VerifierKey::new("weak", &array(public)).unwrap_err();
        let no_point = matches!(error, KeyError::Point { .. });
        // Zero x with the sign bit set is no point at all to some decoders; either reason refuses it.
        assert!(no_point || matches!(error, KeyError::Weak { .. }), "{public}: {error}");
        assert!(VerifierKey::parse(&encode("weak", 1, &hex(public))).is_err());
    }
    let error = VerifierKey::new("weak", &array(SMALL_ORDER[6])).unwrap_err();
    assert_eq!(error, KeyError::Weak { name: "weak".into() });
}

#[test]
fn attack_second_spelling_of_a_point_is_refused() {
    // y = p + 3 and its like: lenient decoders reduce them and would see a key under two spellings.
    for low in 0xed..=0xff_u8 {
        let mut public = [0xff; 32];
        public[0] = low;
        public[31] = 0x7f;
        assert!(VerifierKey::new("a", &public).is_err(), "{low:02x}");
    }
}

#[test]
fn attack_small_order_r_is_refused() {
    use curve25519_dalek::scalar::Scalar;
    use ed25519_dalek::Verifier;

    let seed = [1; 32]; // TEST key
    let lenient = ed25519_dalek::SigningKey::from_bytes(&seed);
    let key = SigningKey::from_seed("a", seed).unwrap();
    let r = hex(SMALL_ORDER[0]);
    let digest = Sha512::new().chain_update(&r).chain_update(key.verifier().public()).chain_update("message");
    let k = Scalar::from_bytes_mod_order_wide(&digest.finalize().into());
    let s = k * lenient.to_scalar();
    let signature: [u8; 64] = [&r[..], s.as_bytes()].concat().try_into().unwrap();
    let accepted = lenient.verifying_key().verify(b"message", &signature.into());
    assert!(accepted.is_ok(), "a lenient verifier takes it");
    assert!(!key.verifier().verify(b"message", &signature));
}

#[test]
fn keys_of_go_are_read_and_written_alike() {
    let private = SigningKey::parse(GO_PRIVATE).unwrap();
    assert_eq!(*private.encode().unwrap(), GO_PRIVATE);
    assert_eq!(private.verifier().to_string(), GO_PUBLIC);
    let public: VerifierKey = GO_PUBLIC.parse().unwrap();
    assert_eq!(&public, private.verifier());
    assert_eq!(public.name(), "PeterNeumann");
    assert_eq!(public.hash(), [0xc7, 0x4f, 0x20, 0xa3]);
}

#[test]
fn openssl_pkcs8_pem_is_read() {
    // RFC 8410 §10.3, the example without attributes (TEST key); public key from §10.1.
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
    let key = SigningKey::from_pkcs8_pem("example.org/alice", pem).unwrap();
    let public: [u8; 32] = array("19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1");
    assert_eq!(key.verifier().public(), &public);
    for bad in ["", &pem[..60], &pem.replace("PRIVATE", "PUBLIC"), &pem.replace("VwBC", "VvBC")] {
        let error = SigningKey::from_pkcs8_pem("a", bad).unwrap_err();
        assert_eq!(error, KeyError::Pem { name: "a".into() });
    }
}

#[test]
fn every_single_character_change_of_a_key_is_refused() {
    for at in 0..GO_PUBLIC.len() {
        for new in ['A', 'a', '0', '+', ' ', '=', '\n'] {
            let mut changed: Vec<char> = GO_PUBLIC.chars().collect();
            changed[at] = new;
            let changed: String = changed.into_iter().collect();
            assert!(changed == GO_PUBLIC || VerifierKey::parse(&changed).is_err(), "{changed}");
        }
    }
}

#[test]
fn other_spellings_are_refused() {
    let upper = GO_PUBLIC.replace("c74f20a3", "C74F20A3");
    let padded = format!("{GO_PUBLIC}=");
    let cosigner = encode("a", 4, &[7; 32]);
    let long = encode("a", 1, &[7; 33]);
    let short = encode("a", 1, &[7; 31]);
    let empty = encode("a", 1, &[]);
    for text in [
        "",
        "+",
        "++",
        "a+00000000+",
        GO_PRIVATE,
        &upper,
        &padded,
        &cosigner,
        &long,
        &short,
        &empty,
        &format!(" {GO_PUBLIC}"),
        &format!("{GO_PUBLIC}\n"),
        &encode("", 1, &[1; 32]),
    ] {
        assert!(VerifierKey::parse(text).is_err(), "{text:?}");
        assert!(SigningKey::parse(&format!("PRIVATE+KEY+{text}")).is_err(), "{text:?}");
    }
    let error = VerifierKey::parse(&cosigner).unwrap_err();
    assert_eq!(error.to_string(), "the key `a` has algorithm 0x04, only Ed25519 (0x01) is accepted");
    assert!(SigningKey::parse(GO_PUBLIC).is_err());
    let wrong = SigningKey::parse(&GO_PRIVATE.replace("c74f20a3", "c74f20a4")).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "the key `PeterNeumann` says hash `c74f20a4`, its name and bytes give `c74f20a3`"
    );
}

#[test]
fn names_are_checked() {
    for good in ["a", "example.org/gpu/alice", &"n".repeat(256)] {
        assert!(check_name(good).is_ok(), "{good}");
        let key = test_key(good, 2);
        assert_eq!(&VerifierKey::parse(&key.verifier().to_string()).unwrap(), key.verifier());
        assert_eq!(SigningKey::parse(&key.encode().unwrap()).unwrap().verifier(), key.verifier());
    }
    let long = "n".repeat(257);
    for bad in ["", "a b", "a+b", "a\nb", "a\u{a0}b", "a\u{2003}b", "a\0", "a\u{202e}b", "\u{feff}a", &long] {
        assert!(SigningKey::from_seed(bad, [2; 32]).is_err(), "{bad:?}");
    }
}

#[test]
fn a_key_is_its_name_and_public_bytes() {
    let same = test_key("a", 1);
    let keys = [same.verifier(), test_key("a", 1).verifier(), test_key("b", 1).verifier()].map(Clone::clone);
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 2);
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn debug_and_errors_do_not_show_the_secret() {
    let key = SigningKey::parse(GO_PRIVATE).unwrap();
    let secret = GO_PRIVATE.rsplit('+').next().unwrap();
    assert!(!format!("{key:?}").contains(&secret[2..10]));
    for broken in [
        GO_PRIVATE.replace("AYEK", "AZEK"),
        GO_PRIVATE.replace("c74f", "c74e"),
        GO_PRIVATE.replace("PRIVATE+", ""),
    ] {
        let error = SigningKey::parse(&broken).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("FALVFGyN"), "{error:?}");
    }
}

#[test]
fn attack_names_that_look_alike_are_no_names() {
    for name in ["alice\u{200b}.example", "аlice.example", "Ünïcode", "alice example", "alice+example", ""]
    {
        assert!(SigningKey::from_seed(name, [7; 32]).is_err(), "{name:?}");
    }
    assert!(SigningKey::from_seed("alice.example", [7; 32]).is_ok());
}
