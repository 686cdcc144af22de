//! Whether there is a profile for this program on this machine, by the evaluator itself.

use std::path::Path;

use capgate_guest::identity;
use capgate_policy::decide::Decision;
use capgate_policy::facts::Fact;
use capgate_registry::combination::CdHash;

use super::images;
use super::place::Place;
use super::report::{Fix, Report};
use crate::cmd::scene::{part_words, unknown_program};

const NAME: &str = "profile";

/// Decides about the program, and says what would become of it.
pub fn check(path: &Path, cdhash: Option<CdHash>, place: &mut Place, report: &mut Report) {
    let Some(scene) = &mut place.scene else { return };
    scene.facts.program = match identity::of_program(path) {
        Ok(program) => program,
        Err(e) => {
            let fix = Fix::Nothing("the library knows such a file by its cdhash as well".to_owned());
            report.warn(NAME, format!("`{}` {e}: known by its cdhash alone", path.display()), fix);
            unknown_program()
        }
    };
    if let Some(cdhash) = cdhash {
        scene.facts.program.cdhash = Fact::Known(cdhash);
    }
    scene.program = Some(path.display().to_string());
    let answer = scene.answer();
    match &answer.decision {
        Decision::Grant(grant) => {
            report.ok(NAME, format!("`{}` grants {}", grant.profile, grant.values));
            let listed = report.program.as_ref().map(|found| found.images.clone()).unwrap_or_default();
            images::compare(grant, &listed, report);
        }
        Decision::Stock(refusal) => {
            let mut message = format!("stock: {}: {}", refusal.reason, refusal.detail);
            if let Some(nearest) = answer.nearest.as_ref().filter(|nearest| !nearest.differences.is_empty()) {
                let differs: Vec<&str> =
                    nearest.differences.iter().map(|difference| part_words(difference.part)).collect();
                message +=
                    &format!("; nearest is `{}`, which differs in {}", nearest.profile, differs.join(", "));
            }
            let fix = format!("{} ({} can)", refusal.reason.advice(), refusal.reason.fixer().phrase());
            report.fail(NAME, message, Fix::Do(fix));
        }
    }
    report.decision = Some(answer.to_json());
}
