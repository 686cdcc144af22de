//! Where a registry keeps the cosignatures of what is in force.

use super::of_latest;
use crate::latest::Latest;
use crate::log::CHECKPOINT;
use crate::note::{Note, NoteError, Origin};
use crate::publish::{MAX_CHECKPOINT, staged_checkpoint};
use crate::record::Doubt;
use crate::store::Store;

/// The signed checkpoint of what `latest` says of the log. It stands at its own place, or, where a publication or a
/// synchronisation is not complete, in front of what was staged. Only its text is looked at.
///
/// Errors: [`Doubt::Unwitnessed`] where there is none of this state, [`Doubt::Unreadable`].
pub fn checkpoint_of(store: &dyn Store, origin: &Origin, latest: &Latest) -> Result<Vec<u8>, Doubt> {
    let text = of_latest(origin, latest).to_text();
    let fits = |bytes: &[u8]| Note::parse(bytes).is_ok_and(|note| note.text() == text);
    let standing = || match store.read(CHECKPOINT, MAX_CHECKPOINT) {
        Ok(bytes) => Ok(Some(bytes).filter(|bytes| fits(bytes))),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(Doubt::Unreadable(e.to_string())),
    };
    if let Some(found) = standing()? {
        return Ok(found);
    }
    if let Some(found) = staged_checkpoint(store, latest).filter(|bytes| fits(bytes)) {
        return Ok(found);
    }
    // What was staged a moment ago may have been put in its place meanwhile.
    let of_another = || Doubt::Unwitnessed(format!("`{CHECKPOINT}` is missing, or of another state"));
    standing()?.ok_or_else(of_another)
}

/// The doubt about cosignatures that do not meet a demand.
pub fn unwitnessed(error: &NoteError) -> Doubt {
    Doubt::Unwitnessed(match error {
        NoteError::TooFew { needed, signers } if signers.is_empty() => {
            format!("none of the {needed} witnesses that are needed cosigned it")
        }
        NoteError::TooFew { needed, signers } => {
            format!("of the {needed} witnesses that are needed only `{}` cosigned it", signers.join("`, `"))
        }
        NoteError::Invalid { name } => format!("the cosignature by `{name}` does not verify"),
        NoteError::OtherText => format!("`{CHECKPOINT}` is of another state"),
        e => format!("`{CHECKPOINT}`: {e}"),
    })
}
