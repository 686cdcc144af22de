//! Bytes of a record, both ways, one spelling.

use crate::combination::{Hex, Key};

/// Most profiles under one key.
pub(super) const MAX_PROFILES: usize = 64;
/// Longest record: every profile with the longest note and its revocation.
pub(super) const MAX_RECORD: u64 = 64 * 2 * (65_535 + 32);

/// A profile note in a record, not yet verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawProfile {
    /// Position of the profile note in the log.
    pub index: u64,
    /// The exact bytes of the profile note.
    pub note: Vec<u8>,
    /// Position and exact bytes of the revocation note.
    pub revocation: Option<(u64, Vec<u8>)>,
}

/// A record, not yet verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawRecord {
    /// Its key.
    pub key: Key,
    /// Its profiles, in log order.
    pub profiles: Vec<RawProfile>,
}

impl RawRecord {
    /// Bytes of the record. Notes are at most 65,535 bytes, as entries of a log are.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        out.extend(self.key.0);
        out.extend(short(self.profiles.len()).to_be_bytes());
        for profile in &self.profiles {
            push_note(&mut out, profile.index, &profile.note);
            out.push(u8::from(profile.revocation.is_some()));
            if let Some((index, note)) = &profile.revocation {
                push_note(&mut out, *index, note);
            }
        }
        out
    }

    fn encoded_len(&self) -> usize {
        let notes = self
            .profiles
            .iter()
            .map(|p| encoded_len(p.note.len(), p.revocation.as_ref().map(|(_, note)| note.len())));
        34 + notes.sum::<usize>()
    }

    /// Reads a record; any other spelling, or a byte too many, gives `None`.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (key, rest) = bytes.split_first_chunk::<32>()?;
        let (count, mut rest) = rest.split_first_chunk::<2>()?;
        let count = usize::from(u16::from_be_bytes(*count));
        if count == 0 || count > MAX_PROFILES {
            return None;
        }
        let mut profiles = Vec::with_capacity(count);
        for _ in 0..count {
            let (index, note) = take_note(&mut rest)?;
            let (revoked, after) = rest.split_first()?;
            rest = after;
            let revocation = match revoked {
                0 => None,
                1 => Some(take_note(&mut rest)?),
                _ => return None,
            };
            profiles.push(RawProfile { index, note, revocation });
        }
        let ordered = profiles.windows(2).all(|pair| matches!(pair, [a, b] if a.index < b.index));
        (rest.is_empty() && ordered).then_some(Self { key: Hex(*key), profiles })
    }
}

/// Bytes that one profile takes in a record.
pub(super) fn encoded_len(note: usize, revocation: Option<usize>) -> usize {
    8 + 2 + note + 1 + revocation.map_or(0, |len| 8 + 2 + len)
}

fn push_note(out: &mut Vec<u8>, index: u64, note: &[u8]) {
    out.extend(index.to_be_bytes());
    out.extend(short(note.len()).to_be_bytes());
    out.extend(note);
}

/// Lengths are bounded where they arise; a longer one would be refused by every reader.
fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

fn take_note(rest: &mut &[u8]) -> Option<(u64, Vec<u8>)> {
    let (index, after) = rest.split_first_chunk::<8>()?;
    let (length, after) = after.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (note, after) = after.split_at_checked(length)?;
    *rest = after;
    Some((u64::from_be_bytes(*index), note.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> RawRecord {
        RawRecord {
            key: Hex([7; 32]),
            profiles: vec![
                RawProfile { index: 3, note: b"one".to_vec(), revocation: None },
                RawProfile { index: 5, note: b"two".to_vec(), revocation: Some((9, b"gone".to_vec())) },
            ],
        }
    }

    #[test]
    fn records_survive_the_round_trip_and_nothing_else_decodes() {
        let bytes = record().encode();
        assert_eq!(bytes.len(), record().encoded_len());
        assert_eq!(RawRecord::decode(&bytes), Some(record()));
        for cut in 0..bytes.len() {
            assert_eq!(RawRecord::decode(&bytes[..cut]), None, "cut at {cut}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(RawRecord::decode(&longer), None);
    }

    #[test]
    fn every_changed_byte_changes_the_record_or_is_refused() {
        let bytes = record().encode();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_ne!(RawRecord::decode(&changed), Some(record()), "byte {at}");
        }
    }
}
