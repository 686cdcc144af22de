//! The versions of the trust, each verified by the one before it.

use std::borrow::Cow;

use super::{Compromised, Role, Trust};
use crate::keys::VerifierKey;
use crate::merkle::Hash;
use crate::note::{self, Kind, Note, NoteError, Origin};

/// Says why a chain of trust does not hold.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The first root is another one.
    #[error("the first root is sha256:{found}, not sha256:{pinned}")]
    NotPinned {
        /// Digest that the reader was given.
        pinned: Hash,
        /// Digest of the file.
        found: Hash,
    },
    /// A version does not hold.
    #[error("trust/{version}.note: {what}")]
    Version {
        /// Which one.
        version: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A version is not signed by those who must.
    #[error("trust/{version}.note: {source}")]
    Signature {
        /// Which one.
        version: u64,
        /// What is wrong.
        #[source]
        source: NoteError,
    },
}

/// What vouches for the first version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// The pin and its own root keys.
    Signed,
    /// The pin.
    Pinned,
}

/// Every version of the trust, verified from the pinned one on.
#[derive(Debug, Clone)]
pub struct Chain {
    origin: Origin,
    current: Trust,
    earlier: Vec<Trust>,
}

impl Chain {
    /// Verifies the notes of versions 1, 2, … in order. `pin` is the SHA-256 of the first note's bytes.
    pub fn open<'n>(notes: impl IntoIterator<Item = &'n [u8]>, pin: &Hash) -> Result<Self, TrustError> {
        Self::open_from(notes, pin, First::Signed)
    }

    /// The same for one who only reads, in less time: whoever believes the pin believes the bytes of the first note, so
    /// that its own signatures add nothing. Those who publish or audit hold it to its threshold.
    pub fn open_pinned<'n>(
        notes: impl IntoIterator<Item = &'n [u8]>,
        pin: &Hash,
    ) -> Result<Self, TrustError> {
        Self::open_from(notes, pin, First::Pinned)
    }

    fn open_from<'n>(
        notes: impl IntoIterator<Item = &'n [u8]>,
        pin: &Hash,
        first: First,
    ) -> Result<Self, TrustError> {
        let mut chain: Option<Self> = None;
        for (version, bytes) in (1..).zip(notes) {
            chain = Some(match chain {
                None => Self::first(bytes, pin, first)?,
                Some(chain) => chain.next(version, bytes)?,
            });
        }
        chain.ok_or_else(|| wrong(1, "is missing"))
    }

    fn first(bytes: &[u8], pin: &Hash, by: First) -> Result<Self, TrustError> {
        let found = Hash::of(bytes);
        if found != *pin {
            return Err(TrustError::NotPinned { pinned: *pin, found });
        }
        let note = Note::parse(bytes).map_err(|source| TrustError::Signature { version: 1, source })?;
        let origin = note::origin_of(note.text(), Kind::Trust).and_then(|text| Ok(Origin::parse(text)?));
        let origin = origin.map_err(|source| TrustError::Signature { version: 1, source })?;
        let trust = read_version(1, &note, &origin)?;
        if by == First::Signed {
            verify(1, &note, &trust.root)?;
        }
        if trust.log_index != 0 {
            return Err(wrong(1, "must judge the log from index 0 on"));
        }
        Ok(Self { origin, current: trust, earlier: Vec::new() })
    }

    /// Verifies the version that follows.
    pub fn extend(self, bytes: &[u8]) -> Result<Self, TrustError> {
        let version = self.current.version.saturating_add(1);
        self.next(version, bytes)
    }

    fn next(mut self, version: u64, bytes: &[u8]) -> Result<Self, TrustError> {
        let note = Note::parse(bytes).map_err(|source| TrustError::Signature { version, source })?;
        let trust = read_version(version, &note, &self.origin)?;
        verify(version, &note, &self.current.root)?;
        verify(version, &note, &trust.root)?;
        if trust.log_index < self.current.log_index {
            return Err(wrong(version, "takes force before the version it follows"));
        }
        if let Some(key) = self.current.compromised.iter().find(|known| !trust.remembers(known)) {
            let what = format!("does not say any more that `{}` is compromised", key.key.name());
            return Err(wrong(version, &what));
        }
        self.earlier.push(std::mem::replace(&mut self.current, trust));
        Ok(self)
    }

    /// Whose registry this is.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The newest version.
    pub fn current(&self) -> &Trust {
        &self.current
    }

    /// The version before the newest.
    pub fn previous(&self) -> Option<&Trust> {
        self.earlier.last()
    }

    /// The chain as it was when `version` was its newest; `None` for one that it does not have.
    pub fn as_of(&self, version: u64) -> Option<Self> {
        let mut chain = self.clone();
        while chain.current.version > version {
            chain.current = chain.earlier.pop()?;
        }
        (chain.current.version == version).then_some(chain)
    }

    /// The version by which the log entry at `index` is judged.
    pub fn at(&self, index: u64) -> &Trust {
        let newest_first = std::iter::once(&self.current).chain(self.earlier.iter().rev());
        newest_first.clone().find(|trust| trust.log_index <= index).unwrap_or(&self.current)
    }

    /// The keys that count for the log entry at `index`: the publishers of the version in force there, without those
    /// that are known to be in foreign hands from that index or an earlier one on.
    pub fn publishers_at(&self, index: u64) -> Publishers<'_> {
        let role = &self.at(index).publisher;
        let stolen = |key: &VerifierKey| {
            let is_it = |known: &Compromised| known.from <= index && known.key.public() == key.public();
            self.current.compromised.iter().any(is_it)
        };
        let keys = if role.keys.iter().any(stolen) {
            Cow::Owned(role.keys.iter().filter(|key| !stolen(key)).cloned().collect())
        } else {
            Cow::Borrowed(role.keys.as_slice())
        };
        Publishers { threshold: role.threshold, keys }
    }

    /// The keys under which the log entry at `index` was logged: the same, with those that were found to be in foreign
    /// hands since.
    ///
    /// What takes a grant away is judged by them. Otherwise naming a key as compromised, from an index on that is low
    /// enough to be sure, would put back in force what its owner had found to be harmful.
    pub fn publishers_then(&self, index: u64) -> Publishers<'_> {
        let role = &self.at(index).publisher;
        Publishers { threshold: role.threshold, keys: Cow::Borrowed(role.keys.as_slice()) }
    }

    /// The version of the trust that last took a registry key out, as seen from `version`; 1 where none did.
    ///
    /// Whoever had that key may have signed any number as the version of a snapshot, the last one even. So versions are
    /// compared only among those that were signed since: The Update Framework recovers from a fast-forward likewise
    /// (specification, 5.3.11).
    pub fn registry_epoch(&self, version: u64) -> u64 {
        let versions = || self.earlier.iter().chain([&self.current]).filter(|trust| trust.version <= version);
        let takes_one_out = |(before, after): &(&Trust, &Trust)| {
            let stays = |key: &VerifierKey| after.registry.keys.iter().any(|k| k.public() == key.public());
            !before.registry.keys.iter().all(stays)
        };
        let last = versions().zip(versions().skip(1)).filter(takes_one_out).last();
        last.map_or(1, |(_, after)| after.version)
    }

    /// The chain as it would be if `next`, which nobody has signed yet, followed: to show what it would change.
    pub fn if_followed_by(&self, next: Trust) -> Self {
        let mut chain = self.clone();
        chain.earlier.push(std::mem::replace(&mut chain.current, next));
        chain
    }
}

/// Whose signatures count for one log entry.
#[derive(Debug)]
pub struct Publishers<'c> {
    threshold: usize,
    keys: Cow<'c, [VerifierKey]>,
}

impl Publishers<'_> {
    /// How many of them must sign a profile.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// Their keys.
    pub fn keys(&self) -> &[VerifierKey] {
        &self.keys
    }

    /// Checks a profile's note against the threshold and names the signers, sorted.
    pub fn verify(&self, note: &Note) -> Result<Vec<String>, NoteError> {
        super::signers(note, &self.keys, self.threshold)
    }

    /// Checks that one of them signed, as a revocation needs it.
    pub fn verify_any(&self, note: &Note) -> Result<Vec<String>, NoteError> {
        super::signers(note, &self.keys, 1)
    }

    /// Tells by names alone whether enough of them are said to have signed. Entries of a log that was verified under this
    /// very chain are told apart by it: those that count, and those whose key was found to be stolen since. Where a version
    /// takes force for entries that stand already, they are verified anew first, by whoever puts it in force and by whoever
    /// follows: a name may have stood there before its key was known.
    pub fn are_named(&self, note: &Note, threshold: usize) -> bool {
        let named = |key: &&VerifierKey| note.signatures().iter().any(|signature| signature.is_named(key));
        let mut distinct: Vec<&[u8; 32]> = self.keys.iter().filter(named).map(VerifierKey::public).collect();
        distinct.sort_unstable();
        distinct.dedup();
        threshold > 0 && distinct.len() >= threshold
    }
}

fn read_version(version: u64, note: &Note, origin: &Origin) -> Result<Trust, TrustError> {
    let body = note::body(note.text(), Kind::Trust, origin)
        .map_err(|source| TrustError::Signature { version, source })?;
    let trust = Trust::parse(body.as_bytes(), origin).map_err(|problems| {
        let first = problems.first().map_or_else(String::new, |p| p.message.clone());
        wrong(version, &first)
    })?;
    if trust.version == version {
        Ok(trust)
    } else {
        Err(wrong(version, &format!("says that it is version {}", trust.version)))
    }
}

fn verify(version: u64, note: &Note, role: &Role) -> Result<(), TrustError> {
    role.verify(note).map(drop).map_err(|source| TrustError::Signature { version, source })
}

fn wrong(version: u64, what: &str) -> TrustError {
    TrustError::Version { version, what: what.to_owned() }
}
