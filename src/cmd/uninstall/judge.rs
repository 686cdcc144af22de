//! Tells what is still as it was installed from what somebody changed or added.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::cmd::install::digest;
use crate::exit::Failure;
use crate::installed::{FOLDERS, LOGS, MANIFEST, Manifest, REGISTRY};

const FOREIGN: &str = "capgate did not install it";

/// What goes and what stays, by paths below the prefix.
#[derive(Debug, Default)]
pub struct Plan {
    /// Files that go.
    pub remove: Vec<String>,
    /// Folders that go where nothing is left in them, the innermost first.
    pub folders: Vec<String>,
    /// What stays, and why.
    pub kept: Vec<(String, String)>,
}

/// Judges everything that is in the prefix's own folders.
pub fn judge(root: &Path, manifest: &Manifest, logs: bool) -> Result<Plan, Failure> {
    let mut plan = Plan { folders: manifest.folders.iter().rev().cloned().collect(), ..Plan::default() };
    let files = manifest.files.iter().map(|(path, digest)| (path, Some(digest)));
    for (path, digest_then) in files.chain(manifest.state.iter().map(|path| (path, None))) {
        let full = root.join(path);
        let metadata = match fs::symlink_metadata(&full) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            metadata => metadata.map_err(|e| unreadable(&full, &e))?,
        };
        // What lies behind a link is not what was put here.
        let in_place = metadata.is_file() && !behind_link(root, path);
        let same = match digest_then {
            // What `sync` put in its place is capgate's own, too.
            Some(then) if in_place && !is_synced(path) => {
                digest(&full).map_err(|e| unreadable(&full, &e))? == *then
            }
            _ => in_place,
        };
        if same {
            plan.remove.push(path.clone());
        } else {
            plan.kept.push((path.clone(), "it was changed since it was installed".to_owned()));
        }
    }
    let known = manifest.files.keys().chain(&manifest.state).map(String::as_str);
    let known: BTreeSet<&str> = known.chain([MANIFEST]).collect();
    for name in if made_whole(manifest) { names(root, "")? } else { Vec::new() } {
        if !manifest.folders.contains(&name) {
            plan.kept.push((name, FOREIGN.to_owned()));
        }
    }
    // Logs outlive an installation, and the folder that was there when the next one came is not in its list.
    let logs_then = Some(LOGS.to_owned()).filter(|_| !manifest.folders.contains(LOGS));
    for folder in manifest.folders.iter().chain(&logs_then) {
        if behind_link(root, folder) {
            plan.kept.push((folder.clone(), "it lies behind a link now".to_owned()));
            plan.folders.retain(|other| other != folder);
            continue;
        }
        for name in names(root, folder)? {
            let path = format!("{folder}/{name}");
            if known.contains(path.as_str()) || manifest.folders.contains(&path) || is_synced(&path) {
                continue;
            }
            if folder != LOGS || !is_log(&name) {
                plan.kept.push((path, FOREIGN.to_owned()));
            } else if logs && root.join(&path).symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
                plan.remove.push(path);
            } else {
                plan.kept.push((path, "it is a decision log".to_owned()));
            }
        }
    }
    if manifest.folders.contains(REGISTRY) && !behind_link(root, REGISTRY) {
        for name in names(root, REGISTRY)? {
            add_synced(root, &format!("{REGISTRY}/{name}"), &mut plan)?;
        }
    }
    Ok(plan)
}

/// What a registry has in its folder, and what `sync` keeps beside it. The evidence of a fork is not for capgate to remove.
fn is_synced(path: &str) -> bool {
    let inside = path.strip_prefix(REGISTRY).and_then(|rest| rest.strip_prefix('/'));
    let first = inside.map(|inside| inside.split('/').next().unwrap_or_default());
    first.is_some_and(|first| ["trust", "log", "snapshot", ".lock", ".tmp", ".fetched"].contains(&first))
}

/// Files and folders that the registry has by now, which may be more than were installed.
fn add_synced(root: &Path, path: &str, plan: &mut Plan) -> Result<(), Failure> {
    let full = root.join(path);
    let Ok(metadata) = fs::symlink_metadata(&full) else { return Ok(()) };
    if !is_synced(path) || plan.remove.iter().any(|other| other == path) {
        return Ok(());
    }
    if metadata.is_dir() {
        for name in names(root, path)? {
            add_synced(root, &format!("{path}/{name}"), plan)?;
        }
        if !plan.folders.iter().any(|other| other == path) {
            // Innermost first, and before those that were installed.
            let at = plan.folders.iter().position(|other| path.starts_with(&format!("{other}/")));
            plan.folders.insert(at.unwrap_or(plan.folders.len()), path.to_owned());
        }
    } else if metadata.is_file() {
        plan.remove.push(path.to_owned());
    } else if !plan.kept.iter().any(|(other, _)| other == path) {
        plan.kept.push((path.to_owned(), FOREIGN.to_owned()));
    }
    Ok(())
}

/// Whether nothing was in the prefix before. What else is in a folder such as `/usr/local` is nobody's news.
fn made_whole(manifest: &Manifest) -> bool {
    FOLDERS.iter().all(|folder| manifest.folders.contains(*folder))
}

/// `<uid>.jsonl`, and whatever a log is followed by when it is sealed.
fn is_log(name: &str) -> bool {
    let (user, rest) = name.split_once('.').unwrap_or((name, ""));
    !user.is_empty()
        && user.bytes().all(|b| b.is_ascii_digit())
        && (rest == "jsonl" || rest.starts_with("jsonl."))
}

fn behind_link(root: &Path, path: &str) -> bool {
    let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at)).chain([path]);
    folders.into_iter().any(|folder| root.join(folder).is_symlink())
}

fn names(root: &Path, folder: &str) -> Result<Vec<String>, Failure> {
    let full = root.join(folder);
    let entries = match fs::read_dir(&full) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(|e| unreadable(&full, &e))?,
    };
    let names: io::Result<Vec<String>> =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
    let mut names = names.map_err(|e| unreadable(&full, &e))?;
    names.sort();
    Ok(names)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("`{}` cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn logs_are_known_by_their_names() {
        for name in ["501.jsonl", "0.jsonl", "501.jsonl.3"] {
            assert!(super::is_log(name), "{name}");
        }
        for name in ["jsonl", ".jsonl", "a.jsonl", "501.json", "501.jsonlx", "501", "notes.txt"] {
            assert!(!super::is_log(name), "{name}");
        }
    }
}
