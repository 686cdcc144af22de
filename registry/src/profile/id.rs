//! Ids of profiles and revocations.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::combination::{Hex, Key};

/// An id such as `m1-ultra-25g76-25f84-llama-bench-b10167`: 3 to 80 of `a-z`, `0-9` and single hyphens between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileId(String);

/// Says why an id is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id: 3 to 80 of a-z, 0-9 and single hyphens between them")]
pub struct IdError(String);

impl ProfileId {
    /// The id as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key that lists a profile without a workload digest. It is no combination's key, so it never grants.
    pub fn key(&self) -> Key {
        Hex(Sha256::digest(format!("capgate listed v1\nid {self}\n")).into())
    }
}

impl FromStr for ProfileId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let words = text.split('-').all(|word| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        });
        if words && (3..=80).contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError(text.chars().take(90).collect()))
        }
    }
}

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
