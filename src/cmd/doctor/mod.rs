//! `capgate doctor`: whether a program could be granted anything here, and what stands in the way. It looks at files and
//! at this machine, and starts nothing.

mod beside;
mod findings;
mod images;
pub mod injection;
pub mod links;
pub mod macho;
mod place;
mod profile;
mod report;
mod running;
mod shims;
mod subject;

use crate::cli::DoctorArgs;
use crate::exit::Outcome;
use crate::ui::Ui;
use report::Report;
use subject::{Kind, Subject};

pub fn run(ui: &Ui, args: &DoctorArgs) -> Outcome {
    let mut report = Report::default();
    let subject = args.program.as_deref().map(|named| subject::find(named, &mut report)).transpose()?;
    let mut place = place::look(ui, args, &mut report)?;
    if let Some(subject) = subject {
        look_at(subject, &mut place, &mut report);
    }
    shims::check(&mut report);
    running::check(&place, &mut report);
    report.print(ui);
    Ok(report.exit())
}

fn look_at(subject: Subject, place: &mut place::Place, report: &mut Report) {
    injection::check(&subject, report);
    injection::check_slice(&subject, report);
    injection::check_library(&subject, place.library.as_deref(), report);
    let path = subject.path.clone();
    let is_library = matches!(subject.kind, Kind::Library(..));
    let cdhash = match subject.kind {
        Kind::Program(macho, cpu) => {
            let cdhash = macho.slice(cpu).and_then(macho::cdhash);
            images::check(&links::follow(macho, cpu, true), report);
            cdhash
        }
        Kind::Library(macho, cpu) => {
            images::check(&links::follow(macho, cpu, false), report);
            None
        }
        Kind::Elf => None,
    };
    // Which program a library is loaded into is not known, and nothing is granted to a library.
    if !is_library {
        images::check_children(&path, report);
        profile::check(&path, cdhash, place, report);
    }
}
