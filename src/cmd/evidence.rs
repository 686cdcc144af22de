//! `capgate evidence`: judges bundles, names single files, drafts profiles.

use std::io;
use std::path::Path;

use capgate_registry::evidence::bundle::MOST_FILE_BYTES;
use capgate_registry::evidence::draft::{Draft, draft as write_drafts};
use capgate_registry::evidence::finding::Finding;
use capgate_registry::evidence::identify::{Inspection, inspect as inspect_file};
use capgate_registry::evidence::judge::{self, CheckError, Judgement, Verdict};
use capgate_registry::evidence::manifest::{self, Manifest};
use serde::Serialize;

use crate::cli::{BundleArgs, DraftArgs, InspectArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::problem::{Weight, render};
use crate::ui::table::{Rows, facts};
use crate::ui::{BAD, GOOD, Ui, count, progress, styled, visible};
use crate::world::bundle::BundleFolder;
use crate::world::file;

pub fn check(ui: &Ui, args: &BundleArgs) -> Outcome {
    let (_, judgement) = judge(ui, &args.bundle, args.manifest.as_deref())?;
    if ui.is_json() {
        ui.json(&judgement);
    } else {
        print(ui, &judgement);
    }
    Ok(if judgement.verdict == Verdict::Refused { Exit::Invalid } else { Exit::Done })
}

/// Judges a bundle; a manifest that cannot be read is shown with its problems.
pub fn judge(ui: &Ui, bundle: &Path, manifest: Option<&Path>) -> Result<(Manifest, Judgement), Failure> {
    if !bundle.is_dir() {
        return Err(Failure::failed(format!("there is no bundle folder `{}`", bundle.display())));
    }
    if super::bench::is_incomplete(bundle) {
        let shown = bundle.display();
        return Err(Failure::invalid(format!("the bundle `{shown}` is not complete"))
            .help(format!("capgate bench --resume {shown} -- and the command that it measures")));
    }
    let own = bundle.join(manifest::FILE_NAME);
    let given = manifest.map(|path| read(path, manifest::MOST_BYTES as u64)).transpose()?;
    let bar = progress::counter("files hashed:");
    let judged = judge::check(&BundleFolder::new(bundle, bar.clone()), given.as_deref());
    bar.finish_and_clear();
    judged.map_err(|e| match e {
        CheckError::NoManifest(_) => {
            Failure::failed(format!("`{}` holds no `bundle.toml`", bundle.display()))
                .help("give one with `--manifest FILE`")
        }
        CheckError::Manifest(problems) => {
            let path = manifest.unwrap_or(&own);
            let bytes =
                given.or_else(|| file::read(&own, manifest::MOST_BYTES as u64).ok()).unwrap_or_default();
            ui.details(&render(&path.display().to_string(), &bytes, &problems, Weight::Error));
            Failure::invalid(format!("`{}` has {}", path.display(), count(problems.len(), "problem")))
        }
    })
}

fn read(path: &Path, cap: u64) -> Result<Vec<u8>, Failure> {
    file::read(path, cap).map_err(|e| Failure::failed(format!("`{}` cannot be read: {e}", path.display())))
}

/// The table, the findings and the verdicts.
pub fn print(ui: &Ui, judgement: &Judgement) {
    let header = ["workload", "test", "arm", "n", "median", "spread", "to stock", "to host"];
    let mut rows = Rows::new(&header);
    for row in &judgement.rows {
        let values = row.values.map_or_else(String::new, |values| format!(" {values}"));
        let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        rows.row([
            row.workload.clone(),
            row.test.clone(),
            format!("{}{values}", row.arm),
            row.n.to_string(),
            format!("{:.4}", row.median),
            row.cv.map_or_else(|| "-".to_owned(), |cv| format!("{:.2} %", cv * 100.0)),
            ratio(row.ratio_to_stock),
            ratio(row.ratio_to_host),
        ]);
    }
    if !rows.is_empty() {
        ui.stdout(&rows.right(&[3, 4, 5, 6, 7]).render());
    }
    findings(ui, &judgement.warnings, "warning");
    findings(ui, &judgement.refusals, "refused");
    for tested in &judgement.correctness {
        let values = tested.values.map_or_else(String::new, |values| format!(" {values}"));
        let (name, arm, outcome) = (&tested.workload, tested.arm, tested.words());
        ui.line(visible(&format!("{name}: answers of {arm}{values}: {outcome}; {}", tested.method())));
    }
    for judged in &judgement.workloads {
        if let Some(least) = judged.ladder.as_ref().and_then(|ladder| ladder.sufficient) {
            ui.line(format!("{}: least sufficient set: {least}", visible(&judged.workload)));
        }
        let style = if judged.verdict == Verdict::Refused { BAD } else { GOOD };
        ui.line(format!("{}: {}", visible(&judged.workload), styled(style, judged.verdict.words())));
    }
}

fn findings(ui: &Ui, findings: &[Finding], word: &str) {
    for finding in findings {
        let file = finding.file.as_ref().map_or_else(String::new, |file| format!("`{file}`: "));
        let workload = finding.workload.as_ref().map_or_else(String::new, |name| format!("{name}: "));
        let text = visible(&format!("{workload}{file}{}", finding.message));
        ui.line(format!("{} {text}", styled(BAD, format!("{word}[{}]:", finding.code))));
    }
}

pub fn inspect(ui: &Ui, args: &InspectArgs) -> Outcome {
    let (mut inspections, mut unread) = (Vec::new(), None);
    for path in &args.files {
        match read(path, MOST_FILE_BYTES) {
            Ok(bytes) => inspections.push(inspect_file(&path.display().to_string(), &bytes)),
            // The others are still worth looking at; the last failure ends the command.
            Err(failure) => {
                if let Some(earlier) = unread.replace(failure) {
                    ui.failure(&earlier);
                }
            }
        }
    }
    // An error leaves JSON empty, so that nobody takes a part for the whole.
    match (ui.is_json(), &unread) {
        (true, None) => ui.json(&inspections),
        (true, Some(_)) => {}
        (false, _) => inspections.iter().for_each(|inspection| print_inspection(ui, inspection)),
    }
    let serve = inspections.iter().all(|inspection| inspection.serves);
    match unread {
        Some(failure) => Err(failure),
        None => Ok(if serve { Exit::Done } else { Exit::Invalid }),
    }
}

fn print_inspection(ui: &Ui, inspection: &Inspection) {
    let generation = inspection.generation.as_ref().map_or_else(String::new, |text| format!(" ({text})"));
    ui.line(visible(&format!("{}: {}{generation}", inspection.file, inspection.kind.words())));
    ui.stdout(&facts(inspection.facts.iter().map(|fact| (fact.name.as_str(), fact.value.clone()))));
    let mut rows = Rows::new(&["test", "n", "median", "spread"]);
    for row in &inspection.rows {
        let samples = &row.samples;
        let spread = samples.cv.map_or_else(|| "-".to_owned(), |cv| format!("{:.2} %", cv * 100.0));
        let median = samples.median.map_or_else(|| "-".to_owned(), |median| format!("{median:.4}"));
        rows.row([row.test.clone(), samples.n.to_string(), median, spread]);
    }
    if !rows.is_empty() {
        ui.stdout(&rows.right(&[1, 2, 3]).render());
    }
    findings(ui, &inspection.warnings, "warning");
    findings(ui, &inspection.refusals, "refused");
    let verdict = if inspection.serves {
        styled(GOOD, "can serve as evidence")
    } else {
        styled(BAD, "cannot serve as evidence")
    };
    ui.line(verdict);
}

#[derive(Serialize)]
struct Drafted<'a> {
    id: &'a str,
    blanks: usize,
    workloads: &'a [String],
    toml: &'a str,
}

pub fn draft(ui: &Ui, args: &DraftArgs) -> Outcome {
    let (manifest, judgement) = judge(ui, &args.bundle.bundle, args.bundle.manifest.as_deref())?;
    let drafts = write_drafts(&manifest, &judgement);
    if drafts.is_empty() {
        return Err(Failure::invalid("the bundle supports no profile")
            .help(format!("capgate evidence check {}", args.bundle.bundle.display())));
    }
    if let Some(folder) = &args.out {
        for draft in &drafts {
            write_new(ui, folder, draft)?;
        }
    }
    if ui.is_json() {
        let drafted = |d: &'_ Draft| {
            serde_json::to_value(Drafted {
                id: &d.id,
                blanks: d.blanks,
                workloads: &d.workloads,
                toml: &d.toml,
            })
        };
        ui.json(&drafts.iter().filter_map(|draft| drafted(draft).ok()).collect::<Vec<_>>());
    } else if args.out.is_none() {
        drafts.iter().for_each(|draft| ui.stdout(&draft.toml));
    }
    let blanks: usize = drafts.iter().map(|draft| draft.blanks).sum();
    if blanks > 0 {
        ui.warn(format!("{} to fill in, marked `FILL-IN`", count(blanks, "blank")));
    }
    Ok(Exit::Done)
}

fn write_new(ui: &Ui, folder: &Path, draft: &Draft) -> Result<(), Failure> {
    let path = folder.join(format!("{}.toml", draft.id));
    file::create_new(&path, draft.toml.as_bytes(), 0o644).map_err(|e| {
        let shown = path.display();
        if e.kind() == io::ErrorKind::AlreadyExists {
            Failure::failed(format!("`{shown}` exists, and a profile is never overwritten"))
        } else if e.kind() == io::ErrorKind::NotFound {
            Failure::failed(format!("there is no folder `{}`", folder.display()))
                .help(format!("mkdir -p {}", folder.display()))
        } else {
            Failure::failed(format!("`{shown}` cannot be written: {e}"))
        }
    })?;
    if !ui.is_json() {
        ui.line(path.display());
    }
    Ok(())
}
