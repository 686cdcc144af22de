//! Ed25519 at its edges: points of small order, second spellings, signatures that only lenient verifiers take.

use base64ct::{Base64, Encoding};
use capgate_registry::latest;
use capgate_registry::note::{self, Kind};
use capgate_registry::trust::Trust;
use curve25519_dalek::scalar::Scalar;
use sha2::{Digest, Sha256, Sha512};

use super::content::with;
use super::honest::{History, day, roots_of, second_trust};
use super::thief::{sign_raw, signature_line, text_of};
use super::trust::under;
use super::{Case, case};
use crate::support::{ORIGIN, origin};

/// The neutral element, a point of order 1; and a point of order 8.
const SMALL: [&str; 2] = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
];
/// y = p, a second spelling of 0, of order 4; and y = p + 18, a second spelling of a point of large order.
const SECOND_SPELLINGS: [&str; 2] = [
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];
/// y = 2, which is on no point of the curve.
const NO_POINT: &str = "0200000000000000000000000000000000000000000000000000000000000000";

pub fn cases(h: &History) -> Vec<Case> {
    [keys(h), signatures(h)].into_iter().flatten().collect()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// A verifier key's text, whatever the point.
fn spelled(name: &str, public: &[u8]) -> String {
    let tagged = [&[1], public].concat();
    let digest = Sha256::new().chain_update(name).chain_update(b"\n").chain_update(&tagged).finalize();
    let hash: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name}+{hash}+{}", Base64::encode_string(&tagged))
}

fn keys(h: &History) -> Vec<Case> {
    let roots = roots_of(&h.keys);
    let trust = Trust { version: 3, log_index: 6, issued: day(7), ..second_trust(&h.keys) };
    let honest = h.keys.dave.verifier().to_string();
    let of = |name, attack, point: &str, says: &str| {
        let toml = trust.to_toml().replace(&honest, &spelled("dave.test", &hex(point)));
        let text = note::compose(Kind::Trust, &origin(), &toml).unwrap();
        case(h, name, attack, under(h, sign_raw(text.as_bytes(), &roots)))
            .holds("the root keys, the registry key")
            .lookup("registry-malformed", says)
            .verify("trust/3.note", says)
            .sync("registry-malformed", says)
    };
    let weak = "the key `dave.test` is a weak key of small order, which anyone could sign for";
    let none = "the key `dave.test` is no Ed25519 public key";
    vec![
        of("key-of-order-1", "The trust names the neutral element as a publisher's key.", SMALL[0], weak),
        of("key-of-order-8", "The trust names a point of order 8 as a publisher's key.", SMALL[1], weak),
        of(
            "key-spelled-twice-of-small-order",
            "The trust names a second spelling of a point of order 4.",
            SECOND_SPELLINGS[0],
            weak,
        ),
        of(
            "key-spelled-twice",
            "The trust names a second spelling of a point, which would be a second signer.",
            SECOND_SPELLINGS[1],
            none,
        ),
        of("key-of-no-point", "The trust names 32 bytes that are no point of the curve.", NO_POINT, none),
    ]
}

fn signatures(h: &History) -> Vec<Case> {
    let note = h.version(6).get(latest::PATH);
    let text = text_of(&note);
    let key = h.keys.registry.verifier();
    let honest = h.keys.registry.sign(text.as_bytes()).unwrap();
    let signed = |signature: &[u8]| {
        let line = signature_line(ORIGIN, key.hash(), signature);
        with(h, latest::PATH, format!("{text}\n{line}").into_bytes())
    };
    let says = "the signature by `registry.test/capgate` does not verify";
    let refused = |case: Case| {
        case.lookup("registry-unsigned", says).verify(latest::PATH, says).sync("registry-unsigned", says)
    };
    let small = hex(SMALL[0]);
    let secret = ed25519_dalek::SigningKey::from_bytes(&[13; 32]).to_scalar(); // the TEST registry key
    let digest = Sha512::new().chain_update(&small).chain_update(key.public()).chain_update(&text);
    let s = Scalar::from_bytes_mod_order_wide(&digest.finalize().into()) * secret;
    let short = [&honest[..32], &honest[32..63]].concat();
    let long = [&honest[..], &[0]].concat();
    vec![
        refused(case(
            h,
            "signature-s-plus-order",
            "The group's order is added to S: a second signature made from the first without a key.",
            signed(&plus_order(&honest)),
        )),
        refused(
            case(
                h,
                "signature-of-small-order-r",
                "R is the neutral element, which lenient verifiers take.",
                signed(&[&small[..], s.as_bytes()].concat()),
            )
            .holds("the registry key"),
        ),
        refused(case(h, "signature-of-zeros", "The signature is 64 zeros.", signed(&[0; 64]))),
        refused(case(h, "signature-too-short", "The signature lacks its last byte.", signed(&short))),
        refused(case(h, "signature-too-long", "A byte follows the signature.", signed(&long))),
    ]
}

/// S + L, little endian.
fn plus_order(signature: &[u8; 64]) -> [u8; 64] {
    let order = hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut changed = *signature;
    let mut carry = 0u16;
    for (byte, add) in changed[32..].iter_mut().zip(order) {
        carry += u16::from(*byte) + u16::from(add);
        *byte = (carry & 0xff) as u8;
        carry >>= 8;
    }
    assert_eq!(carry, 0);
    changed
}
