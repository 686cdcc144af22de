//! Putting the next version of the trust in force.
//!
//! ```text
//! 1  hold the new version against the chain, the log and the keys at hand, before anything is written
//! 2  make trust/N.note, if nobody else made one first
//! 3  publish: the next `latest.note` names version N and is signed by its registry keys
//! ```
//!
//! Between 2 and 3 readers go on with the version that `latest.note` names. Whoever publishes next completes 3.

use jiff::Timestamp;

use super::{Publication, PublishError, Terms, publish, signers};
use crate::latest::Latest;
use crate::log::LogReader;
use crate::merkle::Hash;
use crate::note::Note;
use crate::reader::{read_chain, read_latest, trust_path};
use crate::record::Doubt;
use crate::snapshot::Standing;
use crate::store::StoreMut;
use crate::trust::{Chain, MAX_BYTES, Trust, TrustError};

/// Says why the next version of the trust was not put in force.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// It does not follow from the version before it.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// No reader would believe anything under it now.
    #[error("version {version} counts from {issued} to {expires}, and it is {now}")]
    NotNow {
        /// The version.
        version: u64,
        /// When it was made.
        issued: Timestamp,
        /// When it ends.
        expires: Timestamp,
        /// The time.
        now: Timestamp,
    },
    /// What is in force could not be read, or the publication that puts the version in force failed.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl From<Doubt> for RotateError {
    fn from(doubt: Doubt) -> Self {
        Self::Publish(doubt.into())
    }
}

/// Puts `note`, the signed next version, in force. Given the version that is the newest already, completes its rotation.
///
/// The caller holds the store's lock, if it has one.
pub fn rotate(
    store: &dyn StoreMut,
    pin: &Hash,
    note: &[u8],
    terms: &Terms<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Publication, RotateError> {
    let chain = read_chain(store, pin, None)?;
    let newest = trust_path(chain.current().version);
    let stands = store.read(&newest, MAX_BYTES as u64).map_err(PublishError::from)?;
    let parsed =
        Note::parse(note).map_err(|source| PublishError::Note { what: "the draft".into(), source })?;
    if Note::parse(&stands).is_ok_and(|stands| stands.text() == parsed.text()) {
        return Ok(publish(store, pin, &[], &Terms { renew: true, ..*terms }, progress)?);
    }
    let next = chain.clone().extend(note)?;
    let Trust { version, issued, expires, .. } = *next.current();
    if terms.now < issued || expires <= terms.now {
        return Err(RotateError::NotNow { version, issued, expires, now: terms.now });
    }
    signers(&next.current().registry, terms.keys)?;
    if let Some(latest) = in_force(store, &chain)? {
        refuse_disowned(store, &next, &latest)?;
    }
    // The file never changes again, and only lines of those who may sign it belong there.
    let roots = [chain.current().root.keys.as_slice(), &next.current().root.keys].concat();
    let path = trust_path(next.current().version);
    store.swap(&path, None, &parsed.only_known(&roots)).map_err(PublishError::from)?;
    Ok(publish(store, pin, &[], &Terms { renew: true, ..*terms }, progress)?)
}

fn in_force(store: &dyn StoreMut, chain: &Chain) -> Result<Option<Latest>, Doubt> {
    match read_latest(store, chain) {
        Ok(latest) => Ok(Some(latest)),
        Err(Doubt::Missing(_)) => Ok(None),
        Err(doubt) => Err(doubt),
    }
}

/// Refuses a version of the trust that is not in force yet if entries of the log would count no longer under it. Whoever
/// drafted it may not have known the newest entries, and where there is no lock, some may have come since it was checked. They
/// were signed under another version, so that their signatures are held against this one, not the names in them alone.
pub(super) fn refuse_disowned(
    store: &dyn StoreMut,
    next: &Chain,
    latest: &Latest,
) -> Result<(), PublishError> {
    let Trust { version, log_index, .. } = *next.current();
    // Of several that wait, the first takes force first.
    let first =
        next.as_of(latest.trust.saturating_add(1)).map_or(log_index, |first| first.current().log_index);
    let reader = LogReader::new(store, latest.log_size);
    for index in first.min(latest.log_size)..latest.log_size {
        let entry = reader.entry(index)?;
        Standing::of(&entry, index, next).map_err(|why| PublishError::Disowned {
            size: latest.log_size,
            first: index,
            why,
            version,
            log_index,
        })?;
    }
    Ok(())
}
