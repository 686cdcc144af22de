//! `capgate uninstall`: takes away what `install` put there. What others added or changed stays, and is named.

mod agents;
mod judge;

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::install::{clear, lock, read_manifest, sweep};
use super::prefix;
use crate::cli::UninstallArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::installed::{LOGS, MANIFEST, STATE};
use crate::ui::{Ui, count};
use judge::Plan;

#[derive(Serialize)]
struct Report<'a> {
    prefix: String,
    dry_run: bool,
    removed: &'a [String],
    kept: Vec<Kept>,
}

#[derive(Serialize)]
struct Kept {
    path: String,
    why: String,
}

pub fn run(ui: &Ui, args: &UninstallArgs) -> Outcome {
    let prefix = prefix::open(&args.prefix)?;
    let root = prefix.root();
    let _lock = if root.join(MANIFEST).exists() { Some(lock(root)?) } else { None };
    let Some(manifest) = read_manifest(root)? else {
        let message = format!("`{}` holds nothing that `capgate install` put there", root.display());
        return Err(Failure::failed(message).help("name the prefix, the folder with `etc/capgate/installed`"));
    };
    agents::refuse_if_named(root, args)?;
    if !args.dry_run {
        gone(clear(root), &root.join(STATE))?;
        sweep(root, manifest.files.keys().chain(&manifest.state).map(String::as_str));
    }
    let mut plan = judge::judge(root, &manifest, args.logs)?;
    if !args.dry_run {
        for path in &plan.remove {
            gone(fs::remove_file(root.join(path)), &root.join(path))?;
        }
        // Last: as long as anything could fail, the list says what is left to do.
        gone(fs::remove_file(root.join(MANIFEST)), &root.join(MANIFEST))?;
        remove_folders(root, &mut plan)?;
    }
    report(ui, args, root, plan);
    Ok(Exit::Done)
}

fn gone(result: io::Result<()>, path: &Path) -> Result<(), Failure> {
    match result {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            let failure = Failure::failed(format!("`{}` cannot be removed: {e}", path.display()));
            Err(failure.help("run the same command again when the cause is gone"))
        }
        _ => Ok(()),
    }
}

/// The innermost first; one that still holds something stays.
fn remove_folders(root: &Path, plan: &mut Plan) -> Result<(), Failure> {
    for folder in std::mem::take(&mut plan.folders) {
        let path = root.join(&folder);
        match fs::remove_dir(&path) {
            Ok(()) => plan.remove.push(format!("{folder}/")),
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            result => gone(result, &path)?,
        }
    }
    // The prefix itself, where nothing is left of it. Whatever is wrong with that is not worth a failure.
    let _ = fs::remove_dir(root);
    Ok(())
}

fn report(ui: &Ui, args: &UninstallArgs, root: &Path, plan: Plan) {
    let shown = root.display();
    let Plan { remove, kept, .. } = plan;
    let files = remove.iter().filter(|path| !path.ends_with('/')).count();
    if ui.is_json() {
        let kept = kept.into_iter().map(|(path, why)| Kept { path, why }).collect();
        return ui.json(&Report { prefix: shown.to_string(), dry_run: args.dry_run, removed: &remove, kept });
    }
    let verb = if args.dry_run { "would be removed" } else { "removed" };
    ui.line(format!("{verb}: {} from {shown}", count(files, "file")));
    for (path, why) in &kept {
        ui.line(format!("kept: {path}: {why}"));
    }
    if kept.iter().any(|(path, _)| path.starts_with(LOGS)) {
        ui.hint("`--logs` removes the decision logs too");
    }
}
