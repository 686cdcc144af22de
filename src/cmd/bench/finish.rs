//! The end: manifest and digests, the verdict of the judge of `capgate evidence check`, and the profiles it supports.

use std::fs;
use std::path::Path;

use capgate_registry::evidence::bench::state::State;
use capgate_registry::evidence::draft::{Draft, draft};
use capgate_registry::evidence::judge::{Judgement, Verdict};
use capgate_registry::profile::lint;

use super::Bench;
use super::folder::{Bundle, DRAFTS, not_written};
use crate::cmd::evidence;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::{Ui, count};
use crate::world::file;

pub fn finish(bench: &Bench<'_>) -> Outcome {
    let Bench { ui, bundle, state, .. } = bench;
    if state.arms.iter().all(|arm| arm == "host") {
        return finish_host(bench);
    }
    conclude(ui, bundle, state)
}

/// Completes a bundle, judges it as `evidence check` does, and drafts what it supports.
pub fn conclude(ui: &Ui, bundle: &Bundle, state: &State) -> Outcome {
    bundle.save(state)?;
    let manifest = state.manifest(&[]).map_err(|e| Failure::failed(format!("the bundle {e}")))?;
    bundle.complete(&manifest.to_toml())?;
    let (manifest, judgement) = evidence::judge(ui, bundle.root(), None)?;
    let drafts = write_drafts(bundle.root(), &draft(&manifest, &judgement))?;
    report(ui, bundle, state, &judgement, &drafts);
    Ok(if judgement.verdict == Verdict::Refused { Exit::Invalid } else { Exit::Done })
}

/// One arm is nothing to judge: it waits for those of a guest.
fn finish_host(bench: &Bench<'_>) -> Outcome {
    bench.bundle.save(&bench.state)?;
    bench.bundle.complete_part()?;
    let root = bench.bundle.root().display().to_string();
    let rounds = count(bench.state.rounds.len(), "round");
    if bench.ui.is_json() {
        bench.ui.json(&serde_json::json!({ "folder": root, "rounds": bench.state.rounds.len(), "discarded": bench.state.discarded.len() }));
    } else {
        bench.ui.line(format!("{rounds} of the host arm in {root}"));
    }
    bench.ui.hint(format!("capgate evidence merge GUEST {root} --out BUNDLE"));
    Ok(if bench.state.failed.is_empty() { Exit::Done } else { Exit::Invalid })
}

/// A profile that was drafted, and what is still to do on it.
struct Written {
    path: String,
    blanks: usize,
    problems: usize,
}

fn write_drafts(root: &Path, drafts: &[Draft]) -> Result<Vec<Written>, Failure> {
    let folder = root.join(DRAFTS);
    // A bundle that was gone on with has none yet; one that is finished twice has the same.
    let _ = fs::remove_dir_all(&folder);
    if drafts.is_empty() {
        return Ok(Vec::new());
    }
    fs::create_dir_all(&folder).map_err(|e| not_written(&folder, &e))?;
    let mut written = Vec::new();
    for draft in drafts {
        let path = folder.join(format!("{}.toml", draft.id));
        file::create_new(&path, draft.toml.as_bytes(), 0o644).map_err(|e| not_written(&path, &e))?;
        let problems = lint(draft.toml.as_bytes()).1.len();
        written.push(Written { path: path.display().to_string(), blanks: draft.blanks, problems });
    }
    Ok(written)
}

fn report(ui: &Ui, bundle: &Bundle, state: &State, judgement: &Judgement, drafts: &[Written]) {
    let root = bundle.root().display().to_string();
    if ui.is_json() {
        let mut value = serde_json::to_value(judgement).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.insert("folder".into(), root.into());
            map.insert("rounds".into(), state.rounds.len().into());
            map.insert("discarded".into(), state.discarded.len().into());
            map.insert("drafts".into(), drafts.iter().map(|draft| draft.path.clone()).collect());
        }
        ui.json(&value);
    } else {
        evidence::print(ui, judgement);
        let rounds = count(state.rounds.len(), "round");
        ui.line(format!("bundle: {root} ({rounds}, {} discarded)", state.discarded.len()));
        for draft in drafts {
            ui.line(format!("draft: {}", draft.path));
        }
    }
    for draft in drafts {
        if draft.blanks > 0 {
            ui.warn(format!(
                "`{}`: {} to fill in, marked `FILL-IN`",
                draft.path,
                count(draft.blanks, "blank")
            ));
        } else if draft.problems > 0 {
            ui.warn(format!("`{}`: capgate lint finds {}", draft.path, count(draft.problems, "problem")));
        }
    }
}
