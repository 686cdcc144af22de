//! What is brought up to date: the registry of a prefix, or a folder of its own.

use std::fs;
use std::path::Path;

use capgate_guest::prefix::Prefix;
use capgate_guest::session;
use capgate_registry::merkle::Hash;
use capgate_registry::reader::Seen;
use capgate_registry::witness::Quorum;

use super::memory;
use crate::cli::SyncArgs;
use crate::cmd::{opened, prefix};
use crate::exit::Failure;
use crate::world::folder::Folder;

/// Where a copy is, and by which root it is trusted.
pub struct Target {
    folder: Folder,
    pin: Hash,
    prefix: Option<Prefix>,
}

impl Target {
    /// Finds it; a folder that does not exist is made.
    pub fn open(args: &SyncArgs) -> Result<Self, Failure> {
        if let Some(path) = &args.prefix {
            let prefix = prefix::installed(path)?;
            let pin = session::read_pin(&prefix).map_err(|doubt| opened::doubted(&doubt, path))?;
            if args.root.is_some_and(|root| root != pin) {
                let message =
                    format!("the prefix is pinned to sha256:{pin}, another root than `--root` names");
                return Err(Failure::invalid(message)
                    .help("a prefix follows one registry: install another prefix for another one"));
            }
            let folder = prefix.state("registry");
            // Its folders must be as safe as the library demands, before anything is put there.
            prefix::open(&folder)?;
            return Ok(Self { folder: Folder::new(folder), pin, prefix: Some(prefix) });
        }
        // clap demands one of the two, and the root with the second.
        let (Some(to), Some(pin)) = (&args.to, args.root) else {
            return Err(Failure::usage("give `--prefix`, or `--to` with `--root`"));
        };
        fs::create_dir_all(to)
            .map_err(|e| Failure::failed(format!("the folder `{}` cannot be made: {e}", to.display())))?;
        Ok(Self { folder: Folder::new(to), pin, prefix: None })
    }

    /// The copy.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        self.folder.root()
    }

    /// The digest of its first root.
    pub fn pin(&self) -> Hash {
        self.pin
    }

    /// The prefix that it is in.
    pub fn prefix(&self) -> Option<&Prefix> {
        self.prefix.as_ref()
    }

    /// The witnesses that the site policy of the prefix demands. Whether it demands any is not known of one that cannot be
    /// read, so nothing is replaced under that.
    pub fn demand(&self) -> Result<Option<Quorum>, Failure> {
        let Some(prefix) = &self.prefix else { return Ok(None) };
        Ok(prefix::site(prefix)?.and_then(|site| site.witnesses))
    }

    /// What was ever verified here.
    pub fn seen(&self) -> Result<Seen, Failure> {
        match &self.prefix {
            Some(prefix) => memory::of_prefix(prefix),
            None => memory::of_folder(self.root()),
        }
    }

    /// Remembers what was verified now. It is never less than before.
    pub fn remember(&self, seen: &Seen) -> Result<(), Failure> {
        if self.seen()? == *seen {
            return Ok(());
        }
        match &self.prefix {
            Some(prefix) => memory::write(&prefix.state(memory::NAME), seen),
            None => memory::write(&self.root().join(memory::HIDDEN), seen),
        }
    }
}
