//! The file of a draft: the text of the next version, with the signatures that it has so far.

use std::path::Path;

use capgate_registry::document::position;
use capgate_registry::note::{self, Kind, MAX_NOTE, Note, NoteError};
use capgate_registry::trust::{Chain, Role, Trust};

use crate::exit::Failure;
use crate::world::file;

/// A draft as it was read.
#[derive(Debug)]
pub struct Draft {
    /// Exactly what is signed.
    pub text: String,
    /// What it says.
    pub trust: Trust,
    /// The note, once somebody signed it.
    pub note: Option<Vec<u8>>,
}

impl Draft {
    /// Reads the draft of the version that follows `chain`.
    pub fn read(path: &Path, chain: &Chain) -> Result<Self, Failure> {
        let shown = path.display();
        let bytes = file::read(path, MAX_NOTE as u64).map_err(|e| {
            Failure::failed(format!("`{shown}` cannot be read: {e}"))
                .help("`capgate trust draft` begins the next version")
        })?;
        let invalid = |what: String| Failure::invalid(format!("`{shown}` {what}"));
        let (text, note) = match Note::parse(&bytes) {
            Ok(note) => (note.text().to_owned(), Some(bytes)),
            // Nobody has signed it yet.
            Err(NoteError::NoSignatures | NoteError::Signature { .. }) => {
                let text = String::from_utf8(bytes).map_err(|_| invalid("is not UTF-8".into()))?;
                note::check_text(&text).map_err(|e| invalid(format!("is no draft: {e}")))?;
                (text, None)
            }
            Err(e) => return Err(invalid(format!("is no draft: {e}"))),
        };
        let body = note::body(&text, Kind::Trust, chain.origin())
            .map_err(|e| invalid(format!("is no version of this trust: {e}")))?;
        let trust = Trust::parse(body.as_bytes(), chain.origin()).map_err(|problems| {
            let first = problems.first().map_or_else(String::new, |problem| {
                let line = position(body.as_bytes(), problem.span.start).0 + 1;
                format!("line {line}: {}", problem.message)
            });
            invalid(format!("is malformed: {first}"))
        })?;
        Ok(Self { text, trust, note })
    }

    /// Refuses a draft that does not follow the newest version.
    pub fn follows(&self, path: &Path, chain: &Chain) -> Result<(), Failure> {
        let (found, next) = (self.trust.version, chain.current().version.saturating_add(1));
        if found == next {
            return Ok(());
        }
        let message = format!("`{}` is version {found}, and the next version is {next}", path.display());
        Err(Failure::invalid(message).help("remove the file, and begin again with `capgate trust draft`"))
    }

    /// Names of the keys of `role` that signed it, sorted.
    pub fn signers(&self, role: &Role) -> Vec<String> {
        let note = self.note.as_ref().and_then(|bytes| Note::parse(bytes).ok());
        note.and_then(|note| role.verify_any(&note).ok()).unwrap_or_default()
    }
}
