//! `capgate policy check`: a typo is found before it turns a fleet stock.

use capgate_policy::site::{self, MAX_POLICY};
use capgate_registry::document::Severity;
use serde::Serialize;

use crate::cli::PolicyCheckArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::problem::{ProblemData, Weight, data, render};
use crate::ui::{Ui, count};
use crate::world::{clock, file};

#[derive(Serialize)]
struct Report<'a> {
    usable: bool,
    problems: Vec<ProblemData<'a>>,
}

pub fn check(ui: &Ui, args: &PolicyCheckArgs) -> Outcome {
    let name = args.file.display().to_string();
    // More than a policy may have, so that the check can say how large it is.
    let bytes = file::read(&args.file, MAX_POLICY as u64 * 16)
        .map_err(|e| Failure::failed(format!("`{name}` cannot be read: {e}")))?;
    let problems = site::check(&bytes, clock::now(args.now));
    let (malformed, worth_knowing): (Vec<_>, Vec<_>) =
        problems.iter().cloned().partition(|problem| problem.severity == Severity::Malformed);
    if ui.is_json() {
        ui.json(&Report { usable: malformed.is_empty(), problems: data(&name, &bytes, &problems) });
    } else {
        ui.stdout(&render(&name, &bytes, &malformed, Weight::Error));
        ui.stdout(&render(&name, &bytes, &worth_knowing, Weight::Warning));
        ui.line(match malformed.len() {
            0 => "the policy can be used".to_owned(),
            problems => format!(
                "the policy cannot be used, and every program would stay stock: {}",
                count(problems, "problem")
            ),
        });
    }
    Ok(if malformed.is_empty() { Exit::Done } else { Exit::Invalid })
}
