//! An agent whose command or library is gone fails at every start, or its program does: launch agents go first.

use std::path::Path;

use crate::agents::{Folders, naming};
use crate::cli::UninstallArgs;
use crate::cmd::prefix::quoted;
use crate::exit::Failure;

/// Refuses while a launch agent names anything in the prefix.
pub fn refuse_if_named(root: &Path, args: &UninstallArgs) -> Result<(), Failure> {
    if let Some(named) = args.agents.as_deref().filter(|named| !named.is_dir()) {
        return Err(Failure::failed(format!("there is no folder `{}`", named.display()))
            .help("name the folder with the launch agents, or leave `--agents` away"));
    }
    let Some(folders) = Folders::of_everyone(args.agents.as_deref()) else {
        return Err(Failure::failed("the home folder of this user is not known").help("give `--agents DIR`"));
    };
    let lists = folders.lists().map_err(|(folder, e)| {
        Failure::failed(format!("the folder `{}` cannot be read: {e}", folder.display()))
    })?;
    for list in lists {
        let shown = list.display();
        match naming(&list, root) {
            Ok(false) => {}
            Ok(true) => {
                let message = format!("the launch agent `{shown}` names a file of `{}`", root.display());
                let label = list.file_stem().unwrap_or_default().to_string_lossy();
                return Err(Failure::failed(message).help(format!(
                    "capgate launch-agent remove --label {label} --agents {}",
                    quoted(list.parent().unwrap_or(root))
                )));
            }
            Err(e) => {
                let message =
                    format!("whether the launch agent `{shown}` names the library cannot be told: {e}");
                return Err(Failure::failed(message).help("see what it is; then run this again"));
            }
        }
    }
    Ok(())
}
