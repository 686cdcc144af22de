//! What a registry says of its log now, and how that continues what a witness holds.

use capgate_registry::latest::Latest;
use capgate_registry::log::LogReader;
use capgate_registry::merkle::{Hash, prove_consistency};
use capgate_registry::publish::{Overlay, committed_log};
use capgate_registry::reader::{read_chain, read_latest};
use capgate_registry::record::Doubt;
use capgate_registry::store::Store;
use capgate_registry::trust::Chain;
use capgate_registry::witness::{checkpoint_of, of_latest};

/// The log that a registry has committed.
pub struct Current<'s> {
    /// The trust by which it is signed.
    pub chain: Chain,
    /// What is in force.
    pub latest: Latest,
    /// The newest version of the trust that stands there.
    pub newest: u64,
    /// Its size.
    pub size: u64,
    /// The text of its checkpoint.
    pub text: String,
    /// The signed checkpoint.
    pub checkpoint: Vec<u8>,
    log: Overlay<'s>,
}

impl<'s> Current<'s> {
    /// Reads and verifies it.
    pub fn read(store: &'s dyn Store, root: &Hash) -> Result<Self, Doubt> {
        let newest = read_chain(store, root, None)?;
        let latest = read_latest(store, &newest)?;
        let version = newest.current().version;
        let chain = newest.as_of(latest.trust).unwrap_or(newest);
        let text = of_latest(chain.origin(), &latest).to_text();
        let checkpoint = checkpoint_of(store, chain.origin(), &latest)?;
        let (log, _) = committed_log(store, &chain, &latest).map_err(|e| Doubt::Corrupt(e.to_string()))?;
        Ok(Self { chain, newest: version, size: latest.log_size, latest, text, checkpoint, log })
    }

    /// The proof that its first `old` entries are where it began.
    pub fn proof(&self, old: u64) -> Result<Vec<Hash>, Doubt> {
        let reader = LogReader::new(&self.log, self.size);
        prove_consistency(&reader, old, self.size).map_err(|e| Doubt::Corrupt(e.to_string()))
    }
}
