//! Profiles in files, with the signatures that they have so far: read, and judged by who must sign.

use std::path::{Path, PathBuf};

use capgate_registry::keys::{SigningKey, VerifierKey};
use capgate_registry::note::{self, Kind, MAX_NOTE, Note, NoteError, Origin};
use capgate_registry::profile;
use capgate_registry::trust::Role;

use super::{handed, keys};
use crate::exit::Failure;
use crate::profiles::{Linted, Profiles};
use crate::ui::Ui;
use crate::world::file;

/// How every signed text begins, and no profile's file.
const DOMAIN: &[u8] = b"# capgate ";

/// A profile on its way from one publisher to the next.
#[derive(Debug)]
pub struct Noted {
    /// The profile.
    pub linted: Linted,
    /// Exactly what is signed.
    text: String,
    /// The note, once somebody signed it.
    note: Option<Vec<u8>>,
}

impl Noted {
    /// Reads a profile, or the note of one.
    pub fn read(path: &Path, origin: &Origin) -> Result<Self, Failure> {
        let bytes = file::read(path, MAX_NOTE as u64).map_err(|e| not_read(path, &e))?;
        if bytes.starts_with(DOMAIN) {
            Self::of_note(path, bytes, origin)
        } else {
            Self::of_file(path, origin)
        }
    }

    /// The note as it is; none where nobody has signed.
    pub fn note(&self) -> Option<&[u8]> {
        self.note.as_deref()
    }

    fn of_file(path: &Path, origin: &Origin) -> Result<Self, Failure> {
        let read = Profiles::read(&[path.to_owned()]).map_err(|e| Failure::failed(e.to_string()))?;
        let [linted] = <[Linted; 1]>::try_from(read.files)
            .map_err(|_| Failure::usage(format!("`{}` is not one profile", path.display())))?;
        let toml = String::from_utf8_lossy(&linted.bytes);
        // What is no text at all has problems that are shown, and is never signed.
        let text = note::compose(Kind::Profile, origin, &toml).unwrap_or_default();
        Ok(Self { linted, text, note: None })
    }

    fn of_note(path: &Path, bytes: Vec<u8>, origin: &Origin) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let invalid = |e: NoteError| Failure::invalid(format!("`{name}` is no note of a profile here: {e}"));
        let parsed = Note::parse(&bytes).map_err(invalid)?;
        let body = note::body(parsed.text(), Kind::Profile, origin).map_err(invalid)?.as_bytes().to_vec();
        let (profile, problems) = profile::lint(&body);
        let linted = Linted { name, path: path.to_owned(), bytes: body, profile, problems };
        Ok(Self { linted, text: parsed.text().to_owned(), note: Some(bytes) })
    }

    /// Takes up the signatures of another file about the same profile.
    pub fn merge(&mut self, other: &Self) -> Result<(), Failure> {
        if self.text != other.text {
            let message = format!(
                "`{}` and `{}` are not the same profile, to the byte",
                self.linted.name, other.linted.name
            );
            return Err(Failure::invalid(message)
                .help("a signature is over one text: begin again from the one that is meant"));
        }
        self.note = match (self.note.take(), &other.note) {
            (Some(one), Some(other)) => Some(note::merge(&one, other).map_err(|e| self.invalid(&e))?),
            (one, other) => one.or_else(|| other.clone()),
        };
        Ok(())
    }

    /// Adds a signature.
    pub fn sign(&mut self, key: &SigningKey) -> Result<(), Failure> {
        let signed = match &self.note {
            Some(note) => note::add_signature(note, key),
            None => note::sign(&self.text, &[key]),
        };
        self.note = Some(signed.map_err(|e| keys::not_signed(&format!("`{}`", self.linted.name), &e))?);
        Ok(())
    }

    /// Tells whether there is a line of this key. Two keys may have one name, so that the name alone does not tell.
    pub fn is_signed_by(&self, key: &VerifierKey) -> bool {
        let note = self.note.as_ref().and_then(|note| Note::parse(note).ok());
        note.is_some_and(|note| note.signatures().iter().any(|line| line.is_named(key)))
    }

    /// Names of the keys of `role` that signed, sorted; fewer than must are no error.
    pub fn signers(&self, role: &Role) -> Result<Vec<String>, Failure> {
        match self.verified(role) {
            Ok(signers) | Err(NoteError::TooFew { signers, .. }) => Ok(signers),
            Err(e) => Err(self.invalid(&e)),
        }
    }

    /// Refuses a note that fewer than must have signed, and says who can.
    pub fn refuse_unsigned(&self, role: &Role) -> Result<(), Failure> {
        let signers = match self.verified(role) {
            Ok(_) => return Ok(()),
            Err(NoteError::TooFew { signers, .. }) => signers,
            Err(e) => return Err(self.invalid(&e)),
        };
        let name = &self.linted.name;
        let missing = handed::missing(&signers, role).join(", ");
        let short = role.threshold.saturating_sub(signers.len());
        let mut message = format!(
            "`{name}` is signed by {} of the {} publishers that must sign it",
            signers.len(),
            role.threshold
        );
        if !signers.is_empty() {
            message += &format!(": {}", signers.join(", "));
        }
        Err(Failure::invalid(message)
            .help(format!("{short} more of {missing} must sign it: capgate sign {name} --key KEY-FILE")))
    }

    fn verified(&self, role: &Role) -> Result<Vec<String>, NoteError> {
        match &self.note {
            Some(note) => role.verify(&Note::parse(note)?),
            None => Err(NoteError::TooFew { needed: role.threshold, signers: Vec::new() }),
        }
    }

    /// Says whose signatures count for nothing here.
    pub fn hint_of_strangers(&self, ui: &Ui, role: &Role) {
        let Some(note) = self.note.as_ref().and_then(|note| Note::parse(note).ok()) else { return };
        for line in note.unknown_signers(&role.keys) {
            let (name, file) = (line.name(), &self.linted.name);
            ui.hint(format!(
                "the signature of `{name}` in `{file}` is of no publisher here: it counts for nothing and is left out"
            ));
        }
    }

    fn invalid(&self, error: &NoteError) -> Failure {
        let failure = Failure::invalid(format!("`{}`: {error}", self.linted.name));
        match error {
            NoteError::Invalid { .. } => {
                failure.help("take that line out of the file, or begin again from the profile")
            }
            _ => failure,
        }
    }
}

/// Signed notes for publication; copies with different signatures become one.
pub fn read_all(paths: &[PathBuf], origin: &Origin) -> Result<Vec<Noted>, Failure> {
    let mut all: Vec<Noted> = Vec::new();
    for path in paths {
        let noted = Noted::read(path, origin)?;
        if noted.note.is_none() {
            let name = &noted.linted.name;
            return Err(Failure::invalid(format!("`{name}` is a profile that nobody has signed"))
                .help(format!("capgate sign {name} --key KEY-FILE")));
        }
        match all.iter_mut().find(|one| one.text == noted.text) {
            Some(one) => one.merge(&noted)?,
            None => all.push(noted),
        }
    }
    Ok(all)
}

fn not_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("`{}` cannot be read: {error}", path.display()))
}
