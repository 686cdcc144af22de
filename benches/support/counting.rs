//! A store that counts what is read from it, as a web server's bill would.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;

use capgate_registry::store::{Listed, ReadAt, Store, StoreError};

#[derive(Default)]
struct Counts {
    bytes: Cell<u64>,
    files: RefCell<BTreeSet<String>>,
}

/// Hands everything through to another store.
pub struct Counting<'s> {
    inner: &'s dyn Store,
    counts: Rc<Counts>,
}

struct Counted {
    inner: Box<dyn ReadAt>,
    counts: Rc<Counts>,
}

impl<'s> Counting<'s> {
    pub fn new(inner: &'s dyn Store) -> Self {
        Self { inner, counts: Rc::default() }
    }

    /// Bytes that were read; what is read twice counts twice.
    pub fn bytes(&self) -> u64 {
        self.counts.bytes.get()
    }

    /// Files that were read, each once.
    pub fn files(&self) -> usize {
        self.counts.files.borrow().len()
    }
}

impl Counts {
    fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes as u64);
    }

    fn name(&self, path: &str) {
        self.files.borrow_mut().insert(path.to_owned());
    }
}

impl Store for Counting<'_> {
    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, StoreError> {
        let bytes = self.inner.read(path, cap)?;
        self.counts.name(path);
        self.counts.add(bytes.len());
        Ok(bytes)
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        let inner = self.inner.open(path)?;
        self.counts.name(path);
        Ok(Box::new(Counted { inner, counts: Rc::clone(&self.counts) }))
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        self.inner.list()
    }
}

impl ReadAt for Counted {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buffer, offset)?;
        self.counts.add(buffer.len());
        Ok(())
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }
}
