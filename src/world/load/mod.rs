//! What else a machine is doing while something is measured on it.

mod linux;
mod other;

use std::path::{Path, PathBuf};
use std::time::Instant;

use capgate_registry::evidence::bench::contention::Reading;

/// Reads the machine, again and again.
#[derive(Debug)]
pub struct Watch {
    root: PathBuf,
    given: bool,
    start: Instant,
    other: other::Watch,
}

impl Watch {
    /// On this machine; `root` stands for `/` in tests of the real command, which take what Linux says from there.
    pub fn new(root: Option<&Path>) -> Self {
        Self {
            root: root.unwrap_or(Path::new("/")).to_owned(),
            given: root.is_some(),
            start: Instant::now(),
            other: other::Watch::default(),
        }
    }

    /// One reading; `group` is the process group of what is measured.
    pub fn read(&mut self, group: Option<u32>) -> Reading {
        let at = self.start.elapsed().as_secs_f64();
        if self.given || cfg!(target_os = "linux") {
            linux::read(&self.root, at, group)
        } else {
            self.other.read(at, group)
        }
    }
}
