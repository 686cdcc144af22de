//! Folders of the user.

use std::env;
use std::path::PathBuf;

/// The folder of state, as the XDG Base Directory specification has it; none where no home is named.
pub fn state() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))
}
