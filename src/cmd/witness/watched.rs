//! The logs that a witness watches, and whose signatures make their checkpoints.

use std::path::PathBuf;

use capgate_registry::keys::VerifierKey;
use capgate_registry::merkle::Hash;
use capgate_registry::note::Origin;
use capgate_registry::reader::read_chain;
use capgate_registry::trust::Role;

use crate::cli::WitnessServeArgs;
use crate::cmd::opened;
use crate::exit::Failure;
use crate::world::folder::Folder;

/// The logs that are watched.
pub struct Watched {
    keys: Vec<VerifierKey>,
    registry: Option<(PathBuf, Hash)>,
}

impl Watched {
    /// Those that the command names. A registry must be readable at the start.
    pub fn new(args: &WitnessServeArgs) -> Result<Self, Failure> {
        let registry = args.registry.clone().zip(args.root);
        if let Some((path, root)) = &registry {
            let folder = opened::folder(path)?;
            read_chain(&folder, root, None).map_err(|doubt| opened::doubted(&doubt, path))?;
        }
        Ok(Self { keys: args.log.clone(), registry })
    }

    /// Who must sign for a log; `None` for one that is not watched. An error is the watched registry's.
    pub fn role(&self, origin: &Origin) -> Result<Option<Role>, String> {
        if let Some((path, root)) = &self.registry {
            // Read each time: the copy may have followed a rotation.
            let chain = read_chain(&Folder::new(path), root, None)
                .map_err(|doubt| format!("`{}`: {doubt}", path.display()))?;
            if chain.origin() == origin {
                return Ok(Some(chain.current().registry.clone()));
            }
        }
        let keys: Vec<VerifierKey> =
            self.keys.iter().filter(|key| key.name() == origin.as_str()).cloned().collect();
        // C2SP tlog-witness: any key that is trusted for the log.
        Ok((!keys.is_empty()).then_some(Role { threshold: 1, keys }))
    }
}
