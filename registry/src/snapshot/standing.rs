//! Whether an entry of the log was rightly logged, and whether it still counts.

use super::Change;
use crate::note::Note;
use crate::trust::Chain;

/// What an entry that was rightly logged is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It counts.
    Counts,
    /// It did when it was logged; keys with these names were found to be in foreign hands since.
    Compromised(Vec<String>),
}

impl Standing {
    /// Checks the signatures of the entry at `index`; an error says why it should never have been logged.
    pub fn of(entry: &[u8], index: u64, chain: &Chain) -> Result<Self, String> {
        let note = Note::parse(entry).map_err(|e| e.to_string())?;
        let change = Change::read(&note, chain.origin()).map_err(|e| e.to_string())?;
        let (now, then) = (chain.publishers_at(index), &chain.at(index).publisher);
        let now = match change {
            Change::Profile(_) => now.verify(&note),
            Change::Revocation(_) => now.verify_any(&note),
        };
        let Err(e) = now else { return Ok(Self::Counts) };
        let then = match change {
            Change::Profile(_) => then.verify(&note),
            Change::Revocation(_) => then.verify_any(&note),
        };
        then.map(Self::Compromised).map_err(|_| e.to_string())
    }
}
