//! Whether somebody else's shim is active here: libraries that are inserted already, and variables that such shims read.

use std::path::Path;

use capgate_guest::others;

use super::report::{Fix, Report};
use crate::cmd::run::environment::{INSERT, inserted, stray};

const NAME: &str = "other shims";

/// Looks at the environment of this command, which is what a program started beside it inherits.
pub fn check(report: &mut Report) {
    let variables = stray();
    let libraries = inserted();
    let mut active = variables.join(", ");
    for library in &libraries {
        let path = Path::new(library);
        let shown = path.display();
        if !path.is_file() {
            let text =
                format!("`{INSERT}` names `{shown}`, which is not there: the loader ends programs on it");
            report.fail(NAME, text, Fix::Do(format!("unset {INSERT}")));
        } else if others::is_library(library) {
            let apart = if active.is_empty() { "" } else { ", " };
            active += &format!("{apart}`{shown}` in {INSERT}");
        }
    }
    if active.is_empty() {
        return report.ok(NAME, "none is active");
    }
    let inserted = if libraries.is_empty() { "" } else { INSERT };
    let fix = format!("unset {} {inserted}", variables.join(" "));
    let text = format!("set here: {active}; what another shim answers was not decided by anybody");
    report.fail(NAME, text, Fix::Do(fix.split_whitespace().collect::<Vec<_>>().join(" ")));
}
