//! `capgate lint`: every problem of every profile, at once.

use serde::Serialize;

use crate::cli::LintArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::profiles::{Linted, Profiles};
use crate::ui::problem::{self, ProblemData, Weight};
use crate::ui::{Ui, count};

#[derive(Serialize)]
struct Report<'a> {
    files: usize,
    problems: Vec<ProblemData<'a>>,
    hints: &'a [String],
}

pub fn run(ui: &Ui, args: &LintArgs) -> Outcome {
    let profiles = Profiles::read(&args.paths).map_err(|e| Failure::failed(e.to_string()))?;
    if profiles.files.is_empty() {
        return Err(Failure::failed("there is no profile to check")
            .help("name files that end in `.toml`, or folders that hold some"));
    }
    let problems = profiles.problems();
    if ui.is_json() {
        let each = profiles.files.iter().flat_map(Linted::data).collect();
        ui.json(&Report { files: profiles.files.len(), problems: each, hints: &profiles.hints });
    } else {
        for file in &profiles.files {
            ui.stdout(&file.rendered(Weight::Error));
        }
        profiles.hints.iter().for_each(|hint| ui.hint(hint));
        ui.line(summary(&profiles));
    }
    Ok(if problems == 0 { Exit::Done } else { Exit::Invalid })
}

fn summary(profiles: &Profiles) -> String {
    let bad = profiles.files.iter().filter(|file| !file.problems.is_empty()).count();
    let files = count(profiles.files.len(), "profile");
    match profiles.problems() {
        0 => format!("{files}, no problem"),
        problems => format!("{files}, {} in {}", count(problems, "problem"), count(bad, "file")),
    }
}

impl Linted {
    /// The problems as data.
    fn data(&self) -> Vec<ProblemData<'_>> {
        problem::data(&self.name, &self.bytes, &self.problems)
    }

    /// The problems for people.
    pub fn rendered(&self, weight: Weight) -> String {
        problem::render(&self.name, &self.bytes, &self.problems, weight)
    }
}
