//! Other people's vectors against the one function that verifies signatures here: Project Wycheproof's, and those of
//! "Taming the many EdDSAs" (speccheck), which tell strict verifiers from lenient ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::unreachable,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests fail by panicking"
)]

use capgate_registry::keys::{KeyError, VerifierKey};

/// What becomes of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Verifies,
    /// A good key, and not its signature.
    Refused,
    /// Not 64 bytes, which no reader hands to the key at all.
    Length,
    /// The key itself is refused when it is imported.
    WeakKey,
    NoKey,
}

fn judge(public: &str, signature: &str, message: &str) -> Verdict {
    let public: [u8; 32] = hex(public).try_into().unwrap();
    let key = match VerifierKey::new("vector.test", &public) {
        Ok(key) => key,
        Err(KeyError::Weak { .. }) => return Verdict::WeakKey,
        Err(_) => return Verdict::NoKey,
    };
    match <[u8; 64]>::try_from(hex(signature)) {
        Err(_) => Verdict::Length,
        Ok(signature) if key.verify(&hex(message), &signature) => Verdict::Verifies,
        Ok(_) => Verdict::Refused,
    }
}

fn hex(text: &str) -> Vec<u8> {
    let text = if text == "-" { "" } else { text };
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn rows(file: &str) -> Vec<Vec<&str>> {
    file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect()).collect()
}

#[test]
fn every_vector_of_wycheproof_is_judged_as_it_says() {
    let rows = rows(include_str!("vectors/wycheproof-ed25519.tsv"));
    let mut counts = [0; 3];
    for row in &rows {
        let [id, result, public, signature, message] = row[..] else { unreachable!() };
        let verdict = judge(public, signature, message);
        match (result, verdict) {
            ("valid", Verdict::Verifies) => counts[0] += 1,
            ("invalid", Verdict::Refused) => counts[1] += 1,
            ("invalid", Verdict::Length) => counts[2] += 1,
            _ => panic!("vector {id} is {result}, and here {verdict:?}"),
        }
    }
    let [accepted, refused, length] = counts;
    println!(
        "Wycheproof: {} vectors, {accepted} accepted, {refused} refused, {length} of another length",
        rows.len()
    );
    assert_eq!((rows.len(), counts), (151, [88, 51, 12]));
}

#[test]
fn of_the_speccheck_cases_one_is_accepted() {
    let rows = rows(include_str!("vectors/speccheck-ed25519.tsv"));
    let verdicts: Vec<Verdict> = rows.iter().map(|row| judge(row[1], row[2], row[3])).collect();
    use Verdict::{Refused, Verifies, WeakKey};
    let expected = [
        WeakKey,  // 0: A and R of small order, S = 0
        WeakKey,  // 1: A of small order
        Refused,  // 2: R of small order
        Verifies, // 3: A and R of mixed order, and both equations hold
        Refused,  // 4: the equation holds with the cofactor alone
        Refused,  // 5: the same, and k must not be multiplied by it first
        Refused,  // 6: S above the order
        Refused,  // 7: S far above the order
        Refused,  // 8: R not canonical, reduced for the hash
        Refused,  // 9: R not canonical, not reduced for the hash
        WeakKey,  // 10: A of small order and not canonical, reduced for the hash
        WeakKey,  // 11: the same, not reduced for the hash
    ];
    assert_eq!(verdicts, expected);
    println!("speccheck: {} cases, 1 accepted, 11 refused, 4 of them with their key", rows.len());
}
