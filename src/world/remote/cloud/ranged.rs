//! An object, read at chosen positions.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use capgate_registry::store::{ReadAt, StoreError};
use object_store::{GetOptions, GetRange, ObjectStoreExt};

use super::{Bucket, read_error};

/// Bytes that are fetched at once: what is read piece by piece, as an audit does, would cost a request for each.
const AHEAD: u64 = 1 << 20;

/// An open object: always the version that it had when it was opened.
struct Ranged {
    bucket: Arc<Bucket>,
    path: String,
    size: u64,
    tag: Option<String>,
    /// What was fetched last, and where it begins.
    near: Mutex<(u64, Vec<u8>)>,
}

pub(super) fn open(bucket: &Arc<Bucket>, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
    let location = bucket.location(path)?;
    let found = bucket.runtime.block_on(bucket.objects.head(&location)).map_err(|e| read_error(path, e))?;
    let (bucket, path) = (Arc::clone(bucket), path.to_owned());
    Ok(Box::new(Ranged { bucket, path, size: found.size, tag: found.e_tag, near: Mutex::default() }))
}

impl Ranged {
    fn fetch(&self, offset: u64, end: u64) -> io::Result<Vec<u8>> {
        let part = GetRange::Bounded(offset..end);
        let options = GetOptions::new().with_range(Some(part)).with_if_match(self.tag.clone());
        let found =
            self.bucket.get(&self.path, options, end.saturating_sub(offset)).map_err(|e| match e {
                StoreError::Conflict { .. } => io::Error::other("the file was changed while it was read"),
                e => io::Error::other(e),
            })?;
        Ok(found.bytes)
    }
}

impl ReadAt for Ranged {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.size);
        let end = end.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        if buffer.is_empty() {
            return Ok(());
        }
        let mut near = self.near.lock().unwrap_or_else(PoisonError::into_inner);
        if copy(&near, offset, buffer) {
            return Ok(());
        }
        *near = (offset, self.fetch(offset, end.max(offset.saturating_add(AHEAD).min(self.size)))?);
        copy(&near, offset, buffer).then_some(()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// Fills the buffer from those bytes where they hold enough.
fn copy((start, bytes): &(u64, Vec<u8>), offset: u64, buffer: &mut [u8]) -> bool {
    let part = offset.checked_sub(*start).and_then(|at| usize::try_from(at).ok());
    let part = part.and_then(|at| bytes.get(at..)?.get(..buffer.len()));
    part.map(|part| buffer.copy_from_slice(part)).is_some()
}
