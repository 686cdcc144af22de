//! An installed prefix that a command was pointed at: found, checked, and what is wrong with it in words.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use capgate_guest::prefix::{Prefix, Unsafe};
use capgate_guest::session;
use capgate_policy::site::SitePolicy;
use capgate_registry::keys::VerifierKey;
use capgate_registry::note::Origin;
use capgate_registry::reader::read_chain;

use super::opened;
use crate::exit::Failure;
use crate::installed::STATE;

/// The prefix at that path, whose every folder must be safe.
pub fn open(path: &Path) -> Result<Prefix, Failure> {
    Prefix::at(&plain(path)?).map_err(|e| unusable(&e))
}

/// The prefix at that path, whose folder of state must be safe too.
pub fn installed(path: &Path) -> Result<Prefix, Failure> {
    let prefix = open(path)?;
    open(&prefix.root().join(STATE)).map_err(|failure| match failure.help {
        Some(_) => failure,
        None => failure.help("name a prefix that `capgate install` made"),
    })?;
    Ok(prefix)
}

/// The path from the root on, without `.`, `..` and doubled slashes; links stay, to be refused by name.
pub fn plain(path: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(path)
        .map_err(|e| Failure::usage(format!("`{}` is no path: {e}", path.display())))?;
    if absolute.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(
            Failure::usage(format!("`{}` holds `..`", path.display())).help("give the path without it")
        );
    }
    Ok(absolute.components().collect())
}

/// What others could do to a file or folder, and the command that mends it.
pub fn unusable(error: &Unsafe) -> Failure {
    let failure = Failure::failed(error.to_string());
    match mended(&error.path) {
        Some(help) if !error.missing => failure.help(help),
        _ => failure,
    }
}

fn mended(path: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let shown = quoted(path);
    if metadata.is_symlink() {
        let target = fs::canonicalize(path).ok()?;
        return Some(format!("give the path that the link leads to, `{}`, in its place", target.display()));
    }
    let own = rustix::process::getuid().as_raw();
    let owner = metadata.uid();
    if owner != 0 && owner != own {
        let otherwise = if own == 0 { format!(", or run this as user {owner}") } else { String::new() };
        return Some(format!("sudo chown {own} {shown}{otherwise}"));
    }
    // Such as /tmp: it is meant to be written by everyone.
    if metadata.mode() & 0o1000 != 0 {
        return Some("choose another place: everyone can write that one, and it is meant so".to_owned());
    }
    if metadata.mode() & 0o022 != 0 {
        return Some(format!("chmod go-w {shown}, or choose another place"));
    }
    cfg!(target_os = "macos").then(|| format!("chmod -N {shown}"))
}

/// A path as one word of a shell.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Its site policy; `None` where it has none.
pub fn site(prefix: &Prefix) -> Result<Option<SitePolicy>, Failure> {
    session::read_site(prefix).map_err(|doubt| {
        let shown = prefix.state("site.toml");
        Failure::invalid(doubt.to_string()).help(format!("capgate policy check {}", quoted(&shown)))
    })
}

/// The host keys of its site policy.
pub fn host_keys(prefix: &Prefix) -> Result<Vec<VerifierKey>, Failure> {
    let shown = prefix.state("site.toml");
    let keys = site(prefix)?.map_or_else(Vec::new, |SitePolicy { host_keys, .. }| host_keys);
    if keys.is_empty() {
        let message = format!("`{}` names no host key, so no statement counts", shown.display());
        return Err(Failure::failed(message)
            .help("add `host_keys = [\"…\"]` with the line that `capgate keygen` printed on the host"));
    }
    Ok(keys)
}

/// The origin of its registry, by the pinned trust.
pub fn origin(prefix: &Prefix) -> Result<Origin, Failure> {
    let folder = prefix.state("registry");
    let chain = session::read_pin(prefix).and_then(|pin| read_chain(&prefix.registry(), &pin, None));
    let chain = chain.map_err(|doubt| {
        let failure = opened::doubted(&doubt, &folder);
        failure.help("the prefix's registry names the origin; without one, give it with `--origin`")
    })?;
    Ok(chain.origin().clone())
}
