//! `capgate lookup`: what a program may see, and why.

use std::path::Path;

use capgate_policy::decide::Decision;
use capgate_registry::combination::Hex;

use super::scene::Scene;
use crate::cli::LookupArgs;
use crate::decision_log::{self, Circumstances, Line, Stage};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::clock::Stopwatch;
use crate::world::{file, machine};

pub fn run(ui: &Ui, args: &LookupArgs) -> Outcome {
    let watch = Stopwatch::start();
    let scene = Scene::gather(ui, &args.scene, args.workload.as_deref())?;
    let id = file::random().map_err(|e| Failure::failed(format!("the system gives no random bytes: {e}")))?;
    let id = Hex::<16>(id).to_string();
    let mut decision = scene.decide();
    if let Some(path) = &args.log {
        decision = logged(path, &scene, decision, &id, watch.micros());
    }
    let answer = scene.answer_with(decision);
    if ui.is_json() {
        let mut map = answer.to_json();
        map.insert("decision".into(), id.into());
        ui.json(&map);
    } else {
        answer.print(ui);
    }
    Ok(if answer.decision.grant().is_some() { Exit::Done } else { Exit::Refused })
}

/// A grant follows its written line. Stock answers stay stock whether or not they could be logged.
fn logged(path: &Path, scene: &Scene, decision: Decision, id: &str, micros: u64) -> Decision {
    let about = Circumstances {
        time: scene.now,
        stage: Stage::Lookup,
        device: None,
        facts: &scene.facts,
        host: &scene.host,
        registry: scene.view(),
        policy: scene.site.as_ref().ok().and_then(Option::as_ref).map(|site| site.digest),
        program: scene.program.clone(),
        micros,
        machine: machine::id(),
        pid: std::process::id(),
        uid: rustix::process::getuid().as_raw(),
        by: concat!("capgate ", env!("CARGO_PKG_VERSION")),
        id: id.to_owned(),
    };
    let line = Line::new(&decision, &about);
    let written = decision_log::append(path, &line).map_err(|e| format!("`{}`: {e}", path.display()));
    decision.after_log(written)
}
