//! A registry on a web server, to be read: whole files, and parts of one where the server can send them.
//!
//! Nothing that comes from there is believed; it is checked against signatures by whoever reads it. What is done here is
//! that no server can fill the memory, hold a reader for good, or pass off half a file as one: every answer has a cap and a
//! slowest pace, names its length or ends visibly, and goes on where it was cut, a bounded number of times.

mod body;
mod client;
mod fault;
mod fetch;
mod ranged;

use std::io;
use std::path::Path;

use capgate_registry::store::{Listed, ReadAt, Store, StoreError};

use self::client::Client;
use self::fetch::{Known, Wanted, fetch};
use super::Limits;
use super::url::Base;

/// A registry on a web server.
#[derive(Debug)]
pub struct HttpStore {
    base: Base,
    client: Client,
}

impl HttpStore {
    /// The registry at that address. `ca_file` holds certificates (PEM) of authorities beside Mozilla's. Nothing is asked yet.
    pub fn new(base: Base, ca_file: Option<&Path>, limits: Limits) -> io::Result<Self> {
        let own = ca_file.map(client::read_authorities).transpose()?.unwrap_or_default();
        let client = Client::new(base.is_encrypted(), own, limits);
        Ok(Self { base, client })
    }

    fn url(&self, path: &str) -> Result<String, StoreError> {
        self.base.join(path).ok_or_else(|| super::no_name(path))
    }
}

impl Store for HttpStore {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let url = self.url(path)?;
        let wanted = Wanted { path, url: &url, part: None, cap, known: Known::default() };
        Ok(fetch(&self.client, &wanted)?.bytes)
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        ranged::open(&self.client, path, self.url(path)?)
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        Err(StoreError::Io { path: ".".to_owned(), source: io::Error::other("a web server has no listing") })
    }
}
