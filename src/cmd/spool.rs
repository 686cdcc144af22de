//! A whole registry fetched from where there is no listing, so that it can be read as often as an audit needs.

use std::io;

use capgate_registry::latest::{self, Latest};
use capgate_registry::log::{CHECKPOINT, MAX_ENTRY, Row, TILE_WIDTH, Tile, decode_bundle};
use capgate_registry::merkle::Hash;
use capgate_registry::publish::{MAX_CHECKPOINT, MAX_STAGED, Overlay, PublishError, committed_log};
use capgate_registry::reader::{read_chain, read_latest, trust_path};
use capgate_registry::snapshot::{Catalogue, Standing};
use capgate_registry::store::{ReadAt, Store, StoreError, StoreMut};
use capgate_registry::trust::{Chain, MAX_BYTES as TRUST_BYTES};
use indicatif::ProgressBar;

use super::opened;
use crate::exit::Failure;
use crate::ui::progress;
use crate::world::folder::Folder;
use crate::world::throwaway::Throwaway;

/// Bytes of a snapshot that are fetched at once.
const PIECE: usize = 1 << 20;
/// Bytes of a hash.
const HASH: u64 = 32;
/// Most bytes of a bundle: one of the longest entries.
const MAX_BUNDLE: u64 = TILE_WIDTH * (MAX_ENTRY as u64 + 2);

/// Bundles that hold something else than what publishers signed, once: so many are fetched for the audit to name.
const MAX_DOUBTFUL: u32 = 16;
/// How often it is fetched again because somebody published meanwhile.
const ATTEMPTS: usize = 5;

/// A folder that goes when it is dropped.
pub struct Spool {
    /// What was fetched.
    pub folder: Folder,
    _throwaway: Throwaway,
}

impl Spool {
    /// Fetches every file that what is in force names. One that is missing stays missing: the audit says so. Where somebody
    /// publishes meanwhile, it is begun anew.
    pub fn fetch(source: &dyn Store, pin: &Hash, name: &str) -> Result<Self, Failure> {
        let failed = |e: StoreError| Failure::failed(format!("{name}: {e}"));
        for _ in 0..ATTEMPTS {
            let before = source.read(latest::PATH, latest::MAX_BYTES).ok();
            let spool = Self::fetch_once(source, pin, name)?;
            // What was fetched is of the version that stood before and still stands.
            let after = source.read(latest::PATH, latest::MAX_BYTES).map_err(failed)?;
            let fetched = spool.folder.read(latest::PATH, latest::MAX_BYTES).map_err(failed)?;
            if before.as_ref() == Some(&after) && fetched == after {
                return Ok(spool);
            }
        }
        Err(Failure::failed(format!("{name}: it was published to all the time")).help("try again later"))
    }

    fn fetch_once(source: &dyn Store, pin: &Hash, name: &str) -> Result<Self, Failure> {
        let spool =
            Self::new().map_err(|e| Failure::failed(format!("no temporary folder can be made: {e}")))?;
        let doubted = |doubt| opened::doubted_at(&doubt, name);
        let chain = read_chain(source, pin, None).map_err(doubted)?;
        let latest = read_latest(source, &chain).map_err(doubted)?;
        let bar = progress::counter("files fetched:");
        let fetched = Fetch { source, spool: &spool, chain: &chain, latest: &latest, bar: &bar }.run();
        bar.finish_and_clear();
        fetched.map(|()| spool).map_err(|stop| match stop {
            Stop::Store(e) => Failure::failed(format!("{name}: {e}")),
            Stop::Endless(what) => Failure::invalid(format!("{name}: {what}"))
                .help("whoever signed it holds the registry key alone; tell the registry's maintainers"),
        })
    }

    fn new() -> io::Result<Self> {
        let throwaway = Throwaway::make(&std::env::temp_dir(), "verify")?;
        Ok(Self { folder: Folder::new(throwaway.path()), _throwaway: throwaway })
    }
}

/// Why fetching ended.
enum Stop {
    Store(StoreError),
    /// More is signed than there can be.
    Endless(String),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// One registry being fetched.
///
/// Whoever holds the registry key alone can sign any size, and a server that is in league answers whatever it is asked. So
/// what is fetched is bounded by what publishers signed.
struct Fetch<'a> {
    source: &'a dyn Store,
    spool: &'a Spool,
    chain: &'a Chain,
    latest: &'a Latest,
    bar: &'a ProgressBar,
}

/// The entries that were there.
#[derive(Default)]
struct Log {
    entries: u64,
    bytes: u64,
}

impl Fetch<'_> {
    fn run(&self) -> Result<(), Stop> {
        for version in 1..=self.chain.current().version {
            self.take(self.source, &trust_path(version), TRUST_BYTES as u64)?;
        }
        self.take(self.source, latest::PATH, latest::MAX_BYTES)?;
        // What a publication has not written yet is computed, as every reader does.
        let then = self.chain.as_of(self.latest.trust);
        let committed = then.as_ref().map(|then| committed_log(self.source, then, self.latest));
        let store = match committed {
            Some(Ok((overlay, _))) => overlay,
            Some(Err(PublishError::Store(e @ StoreError::Io { .. }))) => return Err(e.into()),
            // The audit says what is wrong with it.
            _ => {
                self.take(self.source, &self.latest.staged_path(), MAX_STAGED)?;
                Overlay::plain(self.source)
            }
        };
        self.take(&store, CHECKPOINT, MAX_CHECKPOINT)?;
        let log = self.take_entries(&store)?;
        self.take_hashes(&store, log.entries)?;
        self.take_snapshot(&log)
    }

    /// Fetches a file; one that is missing stays missing.
    fn take(&self, store: &dyn Store, path: &str, cap: u64) -> Result<Option<Vec<u8>>, StoreError> {
        match store.read(path, cap) {
            Ok(bytes) => {
                self.spool.folder.put(path, &bytes)?;
                self.bar.inc(1);
                Ok(Some(bytes))
            }
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// A tile, or the full one that serves in its place.
    fn take_tile(&self, store: &dyn Store, tile: Tile) -> Result<Option<(Tile, Vec<u8>)>, StoreError> {
        for tile in [tile, tile.full()] {
            let cap = if tile.row() == Row::Entries { MAX_BUNDLE } else { tile.width() * HASH };
            if let Some(bytes) = self.take(store, &tile.path(), cap)? {
                return Ok(Some((tile, bytes)));
            }
        }
        Ok(None)
    }

    /// Bundles up to the first that is missing.
    fn take_entries(&self, store: &dyn Store) -> Result<Log, Stop> {
        let (mut log, mut catalogue, mut doubtful) = (Log::default(), Catalogue::default(), 0);
        while log.entries < self.latest.log_size {
            let tile = Tile::at(Row::Entries, log.entries / TILE_WIDTH, self.latest.log_size);
            let Some(tile) = tile else { break };
            let Some((found, bytes)) = self.take_tile(store, tile)? else { break };
            let first = log.entries;
            log.entries = first.saturating_add(tile.width());
            log.bytes = log.bytes.saturating_add(bytes.len() as u64);
            let is_sound = decode_bundle(&bytes, found.width()).is_ok_and(|entries| {
                (first..log.entries).zip(entries).all(|(index, entry)| {
                    Standing::of(entry, index, self.chain).is_ok()
                        && catalogue.add(index, entry, self.chain).is_ok()
                })
            });
            doubtful += u32::from(!is_sound);
            if doubtful > MAX_DOUBTFUL {
                return Err(Stop::Endless(format!(
                    "{doubtful} bundles of entries up to `{tile}` hold what no publisher signed, or signed once: of the \
                     {} entries that are claimed, those behind it were not fetched",
                    self.latest.log_size
                )));
            }
        }
        Ok(log)
    }

    /// The hash tiles of so many entries.
    fn take_hashes(&self, store: &dyn Store, entries: u64) -> Result<(), StoreError> {
        for tile in Tile::all(entries).filter(|tile| tile.row() != Row::Entries) {
            let tile = Tile::at(tile.row(), tile.index(), self.latest.log_size).unwrap_or(tile);
            self.take_tile(store, tile)?;
        }
        Ok(())
    }

    fn take_snapshot(&self, log: &Log) -> Result<(), Stop> {
        let path = self.latest.snapshot_path();
        let file = match self.source.open(&path) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        let most = largest_snapshot(log);
        if file.size() > most {
            // Of a log that is not all there, nobody knows.
            return if log.entries < self.latest.log_size {
                Ok(())
            } else {
                Err(Stop::Endless(format!(
                    "`{path}` has {} bytes, and the log's {} entries make at most {most}",
                    file.size(),
                    log.entries
                )))
            };
        }
        self.spool.folder.write(&mut |out| {
            copy(file.as_ref(), out)?;
            Ok(path.clone())
        })?;
        self.bar.inc(1);
        Ok(())
    }
}

/// Bytes that no snapshot of such a log exceeds: an entry stands under two keys at most, and index, fences and hashes take less
/// than 512 bytes for each.
fn largest_snapshot(log: &Log) -> u64 {
    let around = log.entries.saturating_mul(1024).saturating_add(2 << 20);
    log.bytes.saturating_mul(2).saturating_add(around)
}

fn copy(file: &dyn ReadAt, out: &mut dyn io::Write) -> io::Result<()> {
    let mut at = 0;
    while at < file.size() {
        let length = usize::try_from(file.size() - at).unwrap_or(PIECE).min(PIECE);
        let mut piece = vec![0; length];
        file.read_exact_at(&mut piece, at)?;
        out.write_all(&piece)?;
        at += length as u64;
    }
    Ok(())
}
