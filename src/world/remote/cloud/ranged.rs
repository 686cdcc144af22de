//! An object, read at chosen positions.

use std::io;
use std::sync::Arc;

use capgate_registry::store::{ReadAt, StoreError};
use object_store::{GetOptions, GetRange, ObjectStoreExt};

use super::{Bucket, read_error};

/// An open object: always the version that it had when it was opened.
struct Ranged {
    bucket: Arc<Bucket>,
    path: String,
    size: u64,
    tag: Option<String>,
}

pub(super) fn open(bucket: &Arc<Bucket>, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
    let location = bucket.location(path)?;
    let found = bucket.runtime.block_on(bucket.objects.head(&location)).map_err(|e| read_error(path, e))?;
    let (bucket, path) = (Arc::clone(bucket), path.to_owned());
    Ok(Box::new(Ranged { bucket, path, size: found.size, tag: found.e_tag }))
}

impl ReadAt for Ranged {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let size = buffer.len() as u64;
        let end = offset.checked_add(size).filter(|end| *end <= self.size);
        let end = end.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        if buffer.is_empty() {
            return Ok(());
        }
        let part = GetRange::Bounded(offset..end);
        let options = GetOptions::new().with_range(Some(part)).with_if_match(self.tag.clone());
        let found = self.bucket.get(&self.path, options, size).map_err(|e| match e {
            StoreError::Conflict { .. } => io::Error::other("the file was changed while it was read"),
            e => io::Error::other(e),
        })?;
        if found.bytes.len() != buffer.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.copy_from_slice(&found.bytes);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }
}
