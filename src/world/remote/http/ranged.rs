//! A file on a web server, read at chosen positions.

use std::io;
use std::sync::OnceLock;

use capgate_registry::store::{ReadAt, StoreError};

use super::client::Client;
use super::fetch::{Known, Wanted, fetch};

/// Bytes that the first request brings: its answer says how long the file is, and what is read first is near the start.
const HEAD: u64 = 64 << 10;

/// An open file.
struct Ranged {
    client: Client,
    path: String,
    url: String,
    size: u64,
    known: Known,
    head: Vec<u8>,
    /// All of it, once the server sent all of it.
    whole: OnceLock<Vec<u8>>,
}

/// Asks for its first bytes.
pub(super) fn open(client: &Client, path: &str, url: String) -> Result<Box<dyn ReadAt>, StoreError> {
    let known = Known::default();
    let wanted = Wanted { path, url: &url, part: Some((0, HEAD)), cap: client.limits.whole, known };
    let fetched = fetch(client, &wanted)?;
    let have = fetched.bytes.len() as u64;
    let size = if fetched.is_whole { have } else { fetched.known.total.unwrap_or(have) };
    Ok(Box::new(Ranged {
        client: client.clone(),
        path: path.to_owned(),
        url,
        size,
        known: Known { total: Some(size), ..fetched.known },
        head: fetched.bytes,
        whole: OnceLock::new(),
    }))
}

impl ReadAt for Ranged {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.size);
        let end = end.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let near = [Some(&self.head), self.whole.get()];
        if near.into_iter().flatten().any(|bytes| copy(bytes, offset, buffer)) {
            return Ok(());
        }
        let (cap, known) = (self.client.limits.whole, self.known.clone());
        let wanted = Wanted { path: &self.path, url: &self.url, part: Some((offset, end)), cap, known };
        let fetched = fetch(&self.client, &wanted).map_err(io::Error::other)?;
        let (bytes, start) = if fetched.is_whole {
            (self.whole.get_or_init(|| fetched.bytes), 0)
        } else {
            (&fetched.bytes, offset)
        };
        let missing = || io::Error::from(io::ErrorKind::UnexpectedEof);
        copy(bytes, offset.saturating_sub(start), buffer).then_some(()).ok_or_else(missing)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// Fills the buffer from those bytes where they hold enough.
fn copy(bytes: &[u8], offset: u64, buffer: &mut [u8]) -> bool {
    let part = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)?.get(..buffer.len()));
    part.map(|part| buffer.copy_from_slice(part)).is_some()
}
