//! `capgate demo`: the public commands, one after the other, on a folder that stays.
//!
//! Every line behind a `$` can be typed by hand, in that order. The demonstration fails when one of them does not end
//! as it should.

mod folder;
mod steps;

use std::path::PathBuf;
use std::process::{Command, Output};

use serde::Serialize;

use crate::cli::DemoArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::{GOOD, Ui, count, styled};
use steps::{STEPS, Step};

/// What one step showed.
#[derive(Debug, Serialize)]
struct Shown {
    command: String,
    exit: i32,
    /// Of a lookup: `grant`, or the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
}

#[derive(Serialize)]
struct Report {
    folder: String,
    root: String,
    steps: Vec<Shown>,
}

pub fn run(ui: &Ui, args: &DemoArgs) -> Outcome {
    folder::make(&args.keep)?;
    let mut demo =
        Demo { ui, program: own_path()?, folder: args.keep.clone(), root: String::new(), steps: Vec::new() };
    demo.prepare();
    for step in STEPS {
        demo.step(step)?;
    }
    demo.finish();
    Ok(Exit::Done)
}

fn own_path() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|e| Failure::failed(format!("this program cannot find itself: {e}")))
}

struct Demo<'a> {
    ui: &'a Ui,
    program: PathBuf,
    folder: PathBuf,
    root: String,
    steps: Vec<Shown>,
}

impl Demo<'_> {
    fn say(&self, text: &str) {
        if !self.ui.is_json() {
            self.ui.stdout(text);
        }
    }

    /// Lines that a shell needs so that those after it can be typed.
    fn prepare(&self) {
        if let Some(folder) = self.program.parent() {
            self.say(&format!("$ export PATH=\"{}:$PATH\"\n", folder.display()));
        }
        self.say(&format!(
            "$ cd {}\n$ export CAPGATE_REGISTRY=registry\n",
            steps::quoted(&self.folder.display().to_string())
        ));
    }

    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        let line = step.line();
        self.say(&format!("\n# {}\n$ {line}\n", step.about));
        let output = self.spawn(step.args)?;
        let exit = output.status.code().unwrap_or(-1);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        self.say(&stdout);
        if !self.ui.is_json() {
            self.ui.details(&String::from_utf8_lossy(&output.stderr));
        }
        if step.is_init() {
            stdout.trim().clone_into(&mut self.root);
        }
        let outcome = step.is_lookup().then(|| outcome(&stdout));
        self.steps.push(Shown { command: line.clone(), exit, outcome });
        if exit == i32::from(step.exit.code()) {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Failure::failed(format!("`{line}` ended with {exit}, not {}: {said}", step.exit.code())))
    }

    fn spawn(&self, args: &[&str]) -> Result<Output, Failure> {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(&self.folder);
        // What is set outside must not change what is shown.
        for name in ["CAPGATE_DISABLE", "CAPGATE_PROFILES", "CAPGATE_ROOT"] {
            command.env_remove(name);
        }
        command.env("CAPGATE_REGISTRY", "registry");
        if !self.root.is_empty() {
            command.env("CAPGATE_ROOT", &self.root);
        }
        command
            .output()
            .map_err(|e| Failure::failed(format!("`{}` cannot be run: {e}", self.program.display())))
    }

    fn finish(self) {
        if self.ui.is_json() {
            let folder = self.folder.display().to_string();
            return self.ui.json(&Report { folder, root: self.root, steps: self.steps });
        }
        let outcomes: Vec<&str> = self.steps.iter().filter_map(|step| step.outcome.as_deref()).collect();
        let (grants, refusals): (Vec<&str>, Vec<&str>) =
            outcomes.into_iter().partition(|text| *text == "grant");
        self.ui.line(styled(
            GOOD,
            format!(
                "\n{} and {}: {}",
                count(grants.len(), "grant"),
                count(refusals.len(), "refusal"),
                refusals.join(", ")
            ),
        ));
        self.ui
            .hint(format!("everything is in `{}`; run the lines behind `$` yourself", self.folder.display()));
    }
}

/// `grant`, or the reason for stock answers, from the first line of a lookup.
fn outcome(stdout: &str) -> String {
    let first = stdout.lines().next().unwrap_or_default();
    first.strip_prefix("stock: ").unwrap_or_else(|| first.split(':').next().unwrap_or_default()).to_owned()
}
