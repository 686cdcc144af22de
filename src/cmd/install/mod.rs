//! `capgate install`: lays out a prefix. Everything is judged before anything is written, and nothing is overwritten.

mod apply;
mod judge;
mod parts;
mod registry;
mod site;

use std::fs;
use std::path::{Path, PathBuf};

use capgate_registry::keys::VerifierKey;
use serde::Serialize;

use super::host::read_host_key;
use super::prefix;
use crate::cli::InstallArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::installed::{REGISTRY, STATE};
use crate::ui::{Ui, count};
use judge::{Plan, State};

pub use apply::{lock, sweep};
pub use judge::{digest, make_folder, read_manifest};
pub use parts::library;
pub use registry::clear;

#[derive(Serialize)]
struct Report<'a> {
    prefix: String,
    root: String,
    dry_run: bool,
    /// Each with `new`, `same` or `kept`.
    parts: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    state: State,
    files: usize,
}

pub fn run(ui: &Ui, args: &InstallArgs) -> Outcome {
    let root = target(&args.prefix)?;
    let keys = args.host_key.iter().map(|path| read_host_key(path)).collect::<Result<Vec<_>, _>>()?;
    let source = args.registry.as_deref().map(|path| registry::verified(ui, path, args)).transpose()?;
    let parts = parts::wanted(args, &keys)?;
    let plan = judge::judge(root, parts, source)?;
    let kept = plan.parts.iter().find(|part| part.state == State::Kept);
    if kept.is_some() {
        site::judge_kept(ui, &plan.root.join(parts::SITE), &keys)?;
    }
    if !args.dry_run {
        apply::apply(&plan, args)?;
    }
    report(ui, args, &plan);
    hints(ui, args, &plan, &keys);
    Ok(Exit::Done)
}

/// The prefix's own path: absolute, plain, without links, in folders that nobody else can write.
fn target(given: &Path) -> Result<PathBuf, Failure> {
    let root = prefix::plain(given)?;
    let shown = root.display();
    let text = root.to_str().ok_or_else(|| Failure::usage(format!("the path `{shown}` is not UTF-8")))?;
    if root.parent().is_none() {
        return Err(Failure::usage("the root folder is no prefix").help("give a folder such as /opt/capgate"));
    }
    // It separates the libraries that the loader is told to insert.
    if text.contains(':') || text.contains(capgate_registry::text::is_forbidden) {
        let message = format!("the path `{shown}` holds a colon or a character that cannot be seen");
        return Err(
            Failure::usage(message).help("the loader separates libraries by colons; choose another path")
        );
    }
    let exists = |path: &&Path| fs::symlink_metadata(path).is_ok();
    let above = root.ancestors().find(exists).unwrap_or(Path::new("/"));
    prefix::open(above)?;
    Ok(root)
}

fn report(ui: &Ui, args: &InstallArgs, plan: &Plan) {
    let mut lines: Vec<Line<'_>> =
        plan.parts.iter().map(|part| Line { path: &part.path, state: part.state, files: 1 }).collect();
    if let Some(source) = &plan.registry {
        lines.push(Line { path: REGISTRY, state: source.state, files: source.files.len() });
    }
    let (prefix, root) = (plan.root.display().to_string(), format!("sha256:{}", args.root));
    if ui.is_json() {
        return ui.json(&Report { prefix, root, dry_run: args.dry_run, parts: lines });
    }
    for Line { path, state, files } in &lines {
        let more = if *path == REGISTRY { format!(" ({})", count(*files, "file")) } else { String::new() };
        ui.line(format!("{:<9} {path}{more}", state.words(args.dry_run)));
    }
    let what = match (args.dry_run, plan.is_there()) {
        (true, _) => "nothing was written to",
        (false, true) => "already installed in",
        (false, false) => "installed in",
    };
    ui.line(format!("{what} {prefix}"));
}

/// What is still missing before anything can be granted.
fn hints(ui: &Ui, args: &InstallArgs, plan: &Plan, keys: &[VerifierKey]) {
    let state = plan.root.join(STATE);
    let is_empty = |path: PathBuf| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if !args.dry_run && is_empty(plan.root.join(REGISTRY)) {
        ui.hint("it holds no registry yet, so every program stays stock; `capgate install --registry DIR` copies one");
    }
    let kept = plan.parts.iter().any(|part| part.state == State::Kept);
    if keys.is_empty() && !kept {
        ui.hint(format!(
            "no host key is known, so no host statement counts; add the host's public key to `{}`",
            state.join("site.toml").display()
        ));
    }
}
