//! Making a registry: the first trust note, then the first, empty publication.

use capgate_registry::keys::SigningKey;
use capgate_registry::latest;
use capgate_registry::merkle::Hash;
use capgate_registry::note::Origin;
use capgate_registry::publish::{self, Publication, PublishError, Terms};
use capgate_registry::reader::{read_chain, trust_path};
use capgate_registry::store::{StoreError, StoreMut};
use capgate_registry::trust::Trust;

/// A new registry.
#[derive(Debug)]
pub struct Founded {
    /// Digest of the first root.
    pub root: Hash,
    /// The first publication.
    pub publication: Publication,
    /// Whether an earlier attempt had been interrupted, and its root was kept.
    pub resumed: bool,
}

/// Writes the first root and publishes nothing, so that there is a registry to read.
///
/// An attempt that was interrupted between the two is completed, if it was made with the same keys and thresholds.
pub fn found(
    store: &dyn StoreMut,
    origin: &Origin,
    trust: &Trust,
    root_keys: &[&SigningKey],
    terms: &Terms<'_>,
) -> Result<Founded, PublishError> {
    let (root, resumed) = match interrupted(store, origin, trust)? {
        Some(root) => (root, true),
        None => (publish::init(store, origin, trust, root_keys)?, false),
    };
    let publication = publish::publish(store, &root, &[], terms, &mut |_| {})?;
    Ok(Founded { root, publication, resumed })
}

/// The root that an interrupted attempt with the same trust left behind.
fn interrupted(store: &dyn StoreMut, origin: &Origin, trust: &Trust) -> Result<Option<Hash>, PublishError> {
    if exists(store, latest::PATH)? || !exists(store, &trust_path(1))? {
        return Ok(None);
    }
    let root = Hash::of(&store.read(&trust_path(1), latest::MAX_BYTES)?);
    let Ok(chain) = read_chain(store, &root, None) else { return Ok(None) };
    let found = chain.current();
    // It was signed at another time; everything else must be as it is wanted now.
    let same = Trust { issued: trust.issued, expires: trust.expires, ..found.clone() } == *trust;
    Ok((same && chain.origin() == origin).then_some(root))
}

fn exists(store: &dyn StoreMut, path: &str) -> Result<bool, StoreError> {
    match store.read(path, latest::MAX_BYTES) {
        Ok(_) => Ok(true),
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(e),
    }
}
