//! Whether an entry of the log was rightly logged, and whether it still counts.

use super::Change;
use crate::note::Note;
use crate::trust::Chain;

/// What an entry that was rightly logged is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It counts.
    Counts,
    /// A profile that did when it was logged; keys with these names were found to be in foreign hands since.
    Compromised(Vec<String>),
    /// A revocation by keys with these names, which were found to be in foreign hands since. It counts all the same.
    Revokes(Vec<String>),
}

impl Standing {
    /// Checks the signatures of the entry at `index`; an error says why it should never have been logged.
    pub fn of(entry: &[u8], index: u64, chain: &Chain) -> Result<Self, String> {
        let note = Note::parse(entry).map_err(|e| e.to_string())?;
        let change = Change::read(&note, chain.origin()).map_err(|e| e.to_string())?;
        let (now, then) = (chain.publishers_at(index), chain.publishers_then(index));
        match change {
            Change::Profile(_) => match now.verify(&note) {
                Ok(_) => Ok(Self::Counts),
                Err(e) => then.verify(&note).map(Self::Compromised).map_err(|_| e.to_string()),
            },
            Change::Revocation(_) => match now.verify_any(&note) {
                Ok(_) => Ok(Self::Counts),
                Err(e) => then.verify_any(&note).map(Self::Revokes).map_err(|_| e.to_string()),
            },
        }
    }

    /// Tells whether what the entry says is so.
    pub fn counts(&self) -> bool {
        !matches!(self, Self::Compromised(_))
    }
}
