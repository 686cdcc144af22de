//! What this user published, remembered beside no registry: a folder that was restored from a backup has forgotten it, and
//! whoever publishes from there would sign a second history.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use capgate_registry::merkle::Hash;
use capgate_registry::reader::{Seen, read_latest, version_floor};
use capgate_registry::trust::Chain;

use super::sync::memory;
use crate::exit::Failure;
use crate::ui::Ui;
use crate::world::folder::Folder;
use crate::world::home;

/// The file for the registry with that first root.
fn file(root: &Hash) -> Option<PathBuf> {
    Some(home::state()?.join("capgate/published").join(root.to_string()))
}

/// Refuses a folder that is behind what was published from here.
pub fn refuse_older(root: &Hash, folder: &Folder, chain: &Chain) -> Result<(), Failure> {
    let Some(path) = file(root).filter(|path| path.exists()) else { return Ok(()) };
    let seen = memory::of_file(&path)?;
    // What else is wrong with it is said by whoever changes it.
    let Ok(found) = read_latest(folder, chain) else { return Ok(()) };
    let shorter = found.version < version_floor(&seen, chain, &found) || found.log_size < seen.log_size;
    let other = found.log_size == seen.log_size && seen.log_root.is_some_and(|root| root != found.log_root);
    if !shorter && !other {
        return Ok(());
    }
    let message = format!(
        "`{}` is at version {} with {} entries, and version {} with {} was published from here before: publishing on top \
         would sign a second history",
        folder.root().display(),
        found.version,
        found.log_size,
        seen.version,
        seen.log_size
    );
    Err(Failure::invalid(message).help(format!(
        "fetch the newer one from where it is published (`capgate sync SOURCE --to DIR`), or remove `{}` if nobody ever saw it",
        path.display()
    )))
}

/// Remembers what a folder holds now. What cannot be remembered is published all the same.
pub fn remember(ui: &Ui, root: &Hash, folder: &Folder, chain: &Chain) {
    let (Some(path), Ok(latest)) = (file(root), read_latest(folder, chain)) else { return };
    let seen = Seen {
        version: latest.version,
        root: Some(latest.root),
        log_size: latest.log_size,
        log_root: Some(latest.log_root),
        trust: latest.trust,
        time: Some(latest.issued),
    };
    let written =
        match path.parent().map(|folder| DirBuilder::new().recursive(true).mode(0o700).create(folder)) {
            Some(Err(e)) => Err(Failure::failed(format!("`{}` cannot be written: {e}", path.display()))),
            _ => memory::write(&path, &seen),
        };
    if let Err(failure) = written {
        ui.warn(format!("what was published is not remembered: {}", failure.message));
    }
}
