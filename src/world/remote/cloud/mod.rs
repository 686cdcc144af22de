//! A registry in an object store: S3, what speaks like it, Google Cloud Storage, Azure.
//!
//! The one conditional replace is a conditional put: `If-None-Match: *` where nothing may be there, `If-Match` with the
//! version that was read and compared where something is. Everything else is whole objects that appear at once. A store
//! that ignores these conditions forks a registry; S3 itself has kept them since 2024.

mod access;
mod bounded;
mod ranged;

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::sync::Arc;
use std::time::Instant;

use capgate_registry::latest;
use capgate_registry::log::CHECKPOINT;
use capgate_registry::store::{Fill, Listed, ReadAt, Store, StoreError, StoreMut};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, UpdateVersion,
};
use tokio::runtime::Runtime;

use super::{Limits, Options, no_name};
use crate::exit::Failure;
use crate::world::folder::is_name;

/// Bytes of one part of an upload: larger objects are sent in several, the smallest that S3 takes, since each must arrive while
/// the reader's patience lasts. S3 takes ten thousand of them.
const PART: u64 = 5 << 20;
/// Names in a listing.
const MOST_LISTED: usize = 4_000_000;
/// Characters of what a server said that are repeated in a message.
const SAID: usize = 400;

/// A registry below a prefix of a bucket.
#[derive(Debug)]
pub struct CloudStore {
    bucket: Arc<Bucket>,
}

/// What open files share with their store.
#[derive(Debug)]
struct Bucket {
    objects: Box<dyn ObjectStore>,
    runtime: Runtime,
    /// Without slashes around it; empty where the registry fills the bucket.
    prefix: String,
    limits: Limits,
}

impl CloudStore {
    /// The registry at `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`. `settings` are pairs such as
    /// `AWS_REGION` and its value: usually the environment. Nothing is asked yet.
    ///
    /// Google's and Azure's own settings are taken from the environment, as the crate `object_store` reads them.
    pub fn new(
        url: &str,
        settings: impl IntoIterator<Item = (String, String)>,
        options: &Options,
    ) -> Result<Self, Failure> {
        let address = access::Address::parse(url).map_err(|why| Failure::usage(format!("`{url}` {why}")))?;
        let objects = access::objects(&address, settings, options)?;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().map_err(|e| Failure::failed(e.to_string()))?;
        let (prefix, limits) = (address.prefix, options.limits);
        Ok(Self { bucket: Arc::new(Bucket { objects, runtime, prefix, limits }) })
    }
}

/// An object that was read, and which version of it that was.
struct Version {
    bytes: Vec<u8>,
    update: UpdateVersion,
}

impl Bucket {
    /// The object behind a name.
    fn location(&self, name: &str) -> Result<Path, StoreError> {
        if !is_name(name) {
            return Err(no_name(name));
        }
        let key = if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) };
        Path::parse(key).map_err(|e| StoreError::io(name, io::Error::other(e)))
    }

    fn get(&self, name: &str, options: GetOptions, cap: u64) -> Result<Version, StoreError> {
        let location = self.location(name)?;
        self.runtime.block_on(async {
            let found = self.objects.get_opts(&location, options).await.map_err(|e| read_error(name, e))?;
            let update =
                UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            let bytes = self.collect(name, found, cap).await?;
            Ok(Version { bytes, update })
        })
    }

    /// The body, never more than `cap` bytes of it, never slower than it may be.
    async fn collect(&self, name: &str, found: GetResult, cap: u64) -> Result<Vec<u8>, StoreError> {
        let too_large = |size| StoreError::TooLarge { path: name.to_owned(), size, cap };
        let size = found.range.end.saturating_sub(found.range.start);
        if size > cap {
            return Err(too_large(size));
        }
        let mut meter = self.limits.pace.meter(Instant::now());
        let mut bytes = Vec::new();
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|e| read_error(name, e))?;
            let size = bytes.len() as u64 + piece.len() as u64;
            if size > cap {
                return Err(too_large(size));
            }
            bytes.extend_from_slice(&piece);
            if !meter.count(piece.len(), Instant::now()) {
                let slow = io::Error::new(io::ErrorKind::TimedOut, "the body came too slowly");
                return Err(StoreError::io(name, slow));
            }
        }
        if bytes.len() as u64 == size {
            return Ok(bytes);
        }
        let short = format!("{} of {size} bytes came", bytes.len());
        Err(StoreError::io(name, io::Error::new(io::ErrorKind::UnexpectedEof, short)))
    }

    fn put(&self, name: &str, bytes: Vec<u8>, mode: PutMode) -> Result<(), StoreError> {
        let location = self.location(name)?;
        let options = PutOptions { attributes: attributes(name), ..mode.into() };
        let put = self.objects.put_opts(&location, PutPayload::from(bytes), options);
        self.runtime.block_on(put).map_err(|e| write_error(name, e))?;
        Ok(())
    }

    /// Sends a large file in parts; none of it shows before the last has come.
    fn put_parts(&self, name: &str, file: &mut File) -> Result<(), StoreError> {
        let location = self.location(name)?;
        self.runtime.block_on(async {
            let options = PutMultipartOptions { attributes: attributes(name), ..Default::default() };
            let begun = self.objects.put_multipart_opts(&location, options).await;
            let mut upload = begun.map_err(|e| write_error(name, e))?;
            let sent = async {
                loop {
                    let part = read_part(file).map_err(|e| StoreError::io(name, e))?;
                    if part.is_empty() {
                        return upload.complete().await.map_err(|e| write_error(name, e));
                    }
                    upload.put_part(part.into()).await.map_err(|e| write_error(name, e))?;
                }
            }
            .await;
            if sent.is_err() {
                // What cannot be taken back costs its owner storage, and is no part of the registry.
                let _ = upload.abort().await;
            }
            sent.map(drop)
        })
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let prefix = Path::parse(&self.prefix).map_err(|e| StoreError::io(".", io::Error::other(e)))?;
        self.runtime.block_on(async {
            let mut objects = self.objects.list(Some(&prefix));
            let mut listed = Vec::new();
            while let Some(object) = objects.next().await {
                let object = object.map_err(|e| read_error(".", e))?;
                if let Some(path) = self.name_of(&object.location) {
                    listed.push(Listed { path, size: object.size });
                }
                if listed.len() > MOST_LISTED {
                    let many = format!("has more than the {MOST_LISTED} files that are accepted");
                    return Err(StoreError::io(".", io::Error::other(many)));
                }
            }
            listed.sort();
            Ok(listed)
        })
    }

    /// The name of an object; `None` for one that no registry has, such as a hidden one.
    fn name_of(&self, location: &Path) -> Option<String> {
        let key: &str = location.as_ref();
        let name = match self.prefix.as_str() {
            "" => key,
            prefix => key.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        is_name(name).then(|| name.to_owned())
    }
}

impl Store for CloudStore {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        Ok(self.bucket.get(path, GetOptions::new(), cap)?.bytes)
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        ranged::open(&self.bucket, path)
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.bucket.list()
    }
}

impl StoreMut for CloudStore {
    fn write(&self, fill: &mut Fill<'_>) -> Result<String, StoreError> {
        let error = |source| StoreError::io("a temporary file", source);
        let mut file = tempfile::tempfile().map_err(error)?;
        let mut out = BufWriter::with_capacity(1 << 16, &mut file);
        let name = fill(&mut out).map_err(error)?;
        out.flush().map_err(error)?;
        drop(out);
        let size = file.stream_position().map_err(error)?;
        file.rewind().map_err(error)?;
        if size <= PART {
            self.bucket.put(&name, read_part(&mut file).map_err(error)?, PutMode::Overwrite)?;
        } else {
            self.bucket.put_parts(&name, &mut file)?;
        }
        Ok(name)
    }

    fn swap(&self, path: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        let conflict = || StoreError::Conflict { path: path.to_owned() };
        let cap = expected.map_or(0, |bytes| bytes.len() as u64);
        let found = match self.bucket.get(path, GetOptions::new(), cap) {
            Ok(version) => Some(version),
            Err(e) if e.is_not_found() => None,
            Err(StoreError::TooLarge { .. }) => return Err(conflict()),
            Err(e) => return Err(e),
        };
        if found.as_ref().map(|version| version.bytes.as_slice()) != expected {
            return Err(conflict());
        }
        let mode = found.map_or(PutMode::Create, |version| PutMode::Update(version.update));
        self.bucket.put(path, new.to_owned(), mode).or_else(|e| match self.read(path, new.len() as u64) {
            // Only the answer was lost, or a second try found what the first one did.
            Ok(found) if found == new => Ok(()),
            _ => Err(e),
        })
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        let location = self.bucket.location(path)?;
        match self.bucket.runtime.block_on(self.bucket.objects.delete(&location)) {
            Err(e) => match read_error(path, e) {
                StoreError::NotFound { .. } => Ok(()),
                e => Err(e),
            },
            Ok(()) => Ok(()),
        }
    }
}

/// What the store tells whoever reads the object over HTTP: only what is replaced under its name is asked for each time.
fn attributes(name: &str) -> Attributes {
    let kept = match name {
        latest::PATH | CHECKPOINT => "no-cache",
        _ => "public, max-age=31536000, immutable",
    };
    Attributes::from_iter([
        (Attribute::CacheControl, kept),
        (Attribute::ContentType, "application/octet-stream"),
    ])
}

fn read_part(file: &mut File) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    file.take(PART).read_to_end(&mut part)?;
    Ok(part)
}

fn read_error(name: &str, error: object_store::Error) -> StoreError {
    use object_store::Error::{AlreadyExists, NotFound, Precondition};
    let path = name.to_owned();
    match error {
        NotFound { .. } => StoreError::NotFound { path },
        AlreadyExists { .. } | Precondition { .. } => StoreError::Conflict { path },
        e => StoreError::Io { path, source: io::Error::other(said(&e)) },
    }
}

/// Where something is to be written, it is not the file that is missing but the bucket.
fn write_error(name: &str, error: object_store::Error) -> StoreError {
    match error {
        object_store::Error::NotFound { source, .. } => {
            let missing = format!("there is no such bucket: {}", said(source.as_ref()));
            StoreError::Io { path: name.to_owned(), source: io::Error::other(missing) }
        }
        e => read_error(name, e),
    }
}

/// On one line, and no longer than somebody reads: servers send whole documents.
fn said(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    // The client leaves out what a request failed of.
    let deepest = std::iter::successors(error.source(), |e| e.source()).last().map(ToString::to_string);
    if let Some(cause) = deepest.filter(|cause| !text.contains(cause.as_str())) {
        text = format!("{cause}: {text}");
    }
    let mut line: String = text.chars().take(SAID).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SAID).is_some() {
        line.push('…');
    }
    line
}
