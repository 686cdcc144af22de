//! `capgate explain`: what fails, what is nearest, who can fix it, and what an update would change.

use std::path::Path;

use capgate_policy::facts::{Fact, Facts, Program, Source};
use capgate_policy::host::HostState;
use capgate_policy::nearest::{Difference, Part};
use capgate_policy::reason::Reason;
use capgate_registry::combination::Workload;
use serde::Serialize;
use serde_json::Value;

use super::scene::{Answer, Scene, part_words, unknown_program};
use crate::cli::{Condition, ExplainArgs};
use crate::decision_log::{self, Line};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::ui::table::facts;
use crate::world::file;

/// Largest log that is searched, in bytes.
const MAX_LOG: u64 = 1 << 30;

/// Something that can be done about stock answers.
#[derive(Debug, Serialize)]
struct Choice {
    code: &'static str,
    text: String,
}

pub fn run(ui: &Ui, args: &ExplainArgs) -> Outcome {
    let logged =
        args.subject.as_deref().filter(|text| is_decision(text)).map(|id| find(id, args)).transpose()?;
    let program = if logged.is_some() { None } else { args.subject.as_deref() };
    let mut scene = Scene::gather(ui, &args.scene, program)?;
    if let Some(line) = &logged {
        scene.facts = facts_of(line);
        scene.program.clone_from(&line.program);
    }
    let before = (!args.suppose.is_empty()).then(|| scene.answer());
    suppose(&mut scene, &args.suppose);
    let answer = scene.answer();
    let choices = choices(&answer, before.as_ref(), &args.suppose);
    if ui.is_json() {
        let mut map = answer.to_json();
        map.insert(
            "before".into(),
            before.as_ref().map_or(Value::Null, |before| Value::Object(before.to_json())),
        );
        map.insert("logged".into(), serde_json::to_value(&logged).unwrap_or(Value::Null));
        map.insert("choices".into(), serde_json::to_value(&choices).unwrap_or(Value::Null));
        ui.json(&map);
    } else {
        print(ui, &answer, before.as_ref(), logged.as_ref(), &choices);
    }
    Ok(if answer.decision.grant().is_some() { Exit::Done } else { Exit::Refused })
}

fn is_decision(text: &str) -> bool {
    let hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
    hex && !Path::new(text).exists()
}

fn find(id: &str, args: &ExplainArgs) -> Result<Line, Failure> {
    let Some(path) = &args.log else {
        return Err(Failure::usage(format!("`{id}` is the id of a decision, and no log is given"))
            .help("name the log that holds it with `--log FILE`"));
    };
    let shown = path.display();
    let bytes =
        file::read(path, MAX_LOG).map_err(|e| Failure::failed(format!("`{shown}` cannot be read: {e}")))?;
    let (entries, _) = decision_log::read(&bytes);
    let found = entries.into_iter().find(|line| line.decision == id);
    found.ok_or_else(|| {
        Failure::failed(format!("the decision `{id}` is not in `{shown}`"))
            .help(format!("capgate audit list {shown}"))
    })
}

/// The facts that a line names. They describe a combination, like a facts file.
fn facts_of(line: &Line) -> Facts {
    fn fact<T: std::str::FromStr<Err: std::fmt::Display>>(text: &Option<String>) -> Fact<T> {
        Fact::read(text.as_deref(), str::parse)
    }
    let program = Program {
        sha256: fact(&line.workload_sha256),
        cdhash: fact(&line.workload_cdhash),
        ..unknown_program()
    };
    Facts {
        host_chip: fact(&line.host_chip),
        guest_os_build: fact(&line.guest_os_build),
        program,
        source: Source::File { host_os_build: fact(&line.host_os_build) },
    }
}

/// Replaces facts by what is to be supposed. What is supposed describes a combination and no machine.
fn suppose(scene: &mut Scene, conditions: &[Condition]) {
    if conditions.is_empty() {
        return;
    }
    let mut host_os_build = match (&scene.facts.source, &scene.host) {
        (Source::File { host_os_build }, _) => host_os_build.clone(),
        (Source::Machine { .. }, HostState::Signed(statement)) => Fact::Known(statement.os.build.clone()),
        (Source::Machine { .. }, _) => Fact::Missing,
    };
    for Condition { fact, value } in conditions {
        let value = Some(value.as_str());
        match fact.as_str() {
            "host_chip" => scene.facts.host_chip = Fact::read(value, str::parse),
            "host_os_build" => host_os_build = Fact::read(value, str::parse),
            "guest_os_build" => scene.facts.guest_os_build = Fact::read(value, str::parse),
            _ => scene.facts.program = asked(value),
        }
    }
    scene.facts.source = Source::File { host_os_build };
}

fn asked(value: Option<&str>) -> Program {
    match Fact::read(value, str::parse::<Workload>) {
        Fact::Known(workload) => Program::asked(workload),
        Fact::Missing => unknown_program(),
        Fact::Malformed(why) => Program { sha256: Fact::Malformed(why), ..unknown_program() },
    }
}

/// What can be done: stay stock, hold the update, measure.
fn choices(answer: &Answer, before: Option<&Answer>, supposed: &[Condition]) -> Vec<Choice> {
    let Some(reason) = answer.decision.reason() else { return Vec::new() };
    let mut choices = vec![Choice {
        code: "stay-stock",
        text: "do nothing: the program keeps Apple's own answers and runs as an unchanged guest does"
            .to_owned(),
    }];
    let was_granted = before.is_some_and(|before| before.decision.grant().is_some());
    if was_granted {
        let changes: Vec<String> = supposed.iter().map(|c| format!("{} = {}", c.fact, c.value)).collect();
        let text = format!("hold the change to {} until a profile for it is published", changes.join(", "));
        choices.push(Choice { code: "hold-update", text });
    } else if let Some(text) = go_back(answer).filter(|_| reason == Reason::NoProfile) {
        choices.push(Choice { code: "hold-update", text });
    }
    if matches!(reason, Reason::NoProfile | Reason::Revoked | Reason::ProfileDiffers | Reason::EvidenceAge) {
        let text =
            "measure this combination, then `capgate evidence draft BUNDLE` and `capgate publish`".to_owned();
        choices.push(Choice { code: "measure", text });
    }
    // For a missing profile, that is all there is.
    if reason != Reason::NoProfile {
        let text = format!("{} ({} can)", reason.advice(), reason.fixer().phrase());
        choices.push(Choice { code: "fix", text });
    }
    choices
}

/// Where only versions of macOS differ, the tested ones would do.
fn go_back(answer: &Answer) -> Option<String> {
    let differences = &answer.nearest.as_ref()?.differences;
    let os = |d: &Difference| matches!(d.part, Part::GuestOsBuild | Part::HostOsBuild) && d.here.is_some();
    if differences.is_empty() || !differences.iter().all(os) {
        return None;
    }
    let tested: Vec<String> =
        differences.iter().map(|d| format!("{} {}", part_words(d.part), d.tested)).collect();
    Some(format!("stay on, or go back to, {}, which was tested", tested.join(" and ")))
}

fn print(ui: &Ui, answer: &Answer, before: Option<&Answer>, logged: Option<&Line>, choices: &[Choice]) {
    if let Some(line) = logged {
        let reason = line.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        let detail = line.detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}"));
        ui.line(format!("logged {}: {}{reason}{detail}", line.time, line.outcome));
        if let Some(reason) = line.reason.as_deref().and_then(Reason::from_code) {
            ui.line(format!("  {}", reason.explanation()));
            ui.line(format!("  {} ({} can)", reason.advice(), reason.fixer().phrase()));
        }
        ui.line("\nthe same combination today, without its machine:");
    }
    if let Some(before) = before {
        ui.line("as it is:");
        before.print(ui);
        ui.line("\nsupposed:");
    }
    answer.print(ui);
    if !choices.is_empty() {
        ui.line("\nwhat can be done:");
        ui.stdout(&facts(choices.iter().map(|choice| (choice.code, choice.text.clone()))));
    }
}
