//! `capgate evidence merge`: joins the bundles of a guest and of its host into a third.

use std::fs;
use std::path::Path;

use capgate_registry::evidence::bench::merge::{differences, join};
use capgate_registry::evidence::bench::state::{FILE_NAME, State};
use capgate_registry::evidence::bundle::{self, BundleFiles, MOST_FILE_BYTES, SUMS_NAME};
use capgate_registry::evidence::manifest;

use super::finish::conclude;
use super::folder::{Bundle, DRAFTS, is_incomplete, not_written, read_state};
use crate::cli::MergeArgs;
use crate::exit::{Failure, Outcome};
use crate::ui::Ui;
use crate::world::bundle::BundleFolder;
use crate::world::file;

/// Where the files of the host go.
const HOST: &str = "host";

pub fn run(ui: &Ui, args: &MergeArgs) -> Outcome {
    let (guest, host) = (sound(&args.guest)?, sound(&args.host)?);
    let invalid = |e: &dyn std::fmt::Display| Failure::invalid(format!("the bundles cannot be joined: {e}"));
    let differ = differences(&guest, &host).map_err(|e| invalid(&e))?;
    if !differ.is_empty() {
        return Err(Failure::invalid(format!(
            "the bundles cannot be joined: they differ in {}",
            differ.join("; ")
        ))
        .help("measure both with the same program, model and words, on one host"));
    }
    let joined = join(&guest, &host, |path| format!("{HOST}/{path}")).map_err(|e| invalid(&e))?;
    let bundle = Bundle::create(&args.out)?;
    copy(&args.guest, &args.out)?;
    copy(&args.host, &args.out.join(HOST))?;
    conclude(ui, &bundle, &joined)
}

/// What a bundle says of itself, once all its bytes are those that it lists.
fn sound(root: &Path) -> Result<State, Failure> {
    let shown = root.display();
    if !root.is_dir() {
        return Err(Failure::failed(format!("there is no bundle folder `{shown}`")));
    }
    if is_incomplete(root) {
        return Err(Failure::invalid(format!("the bundle `{shown}` is not complete"))
            .help(format!("capgate bench --resume {shown} -- and the command that it measures")));
    }
    let folder = BundleFolder::new(root, indicatif::ProgressBar::hidden());
    let contents = bundle::load(&folder, [FILE_NAME].into_iter());
    if let Some(finding) = contents.findings.iter().find(|finding| finding.refuses()) {
        let file = finding.file.as_deref().unwrap_or(SUMS_NAME);
        return Err(Failure::invalid(format!(
            "the bundle `{shown}` is damaged: `{file}`: {}",
            finding.message
        )));
    }
    read_state(root)
}

/// Copies what was measured. Manifest, state and digests are made anew.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let unreadable = |e: &dyn std::fmt::Display| {
        Failure::failed(format!("the bundle `{}` cannot be read: {e}", from.display()))
    };
    let folder = BundleFolder::new(from, indicatif::ProgressBar::hidden());
    for path in folder.list().map_err(|e| unreadable(&e))? {
        let made_anew = [manifest::FILE_NAME, FILE_NAME, SUMS_NAME].contains(&path.as_str());
        if made_anew || path.split('/').next() == Some(DRAFTS) {
            continue;
        }
        let bytes = file::read_shared(&from.join(&path), MOST_FILE_BYTES).map_err(|e| unreadable(&e))?;
        let target = to.join(&path);
        let above = target.parent().unwrap_or(to);
        fs::create_dir_all(above).map_err(|e| not_written(above, &e))?;
        file::create_new(&target, &bytes, 0o644).map_err(|e| not_written(&target, &e))?;
    }
    Ok(())
}
