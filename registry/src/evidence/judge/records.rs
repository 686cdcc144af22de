//! What run records say beside the manifest: whether the runs ended well, on the systems and with the files that it names.

use super::notes::Notes;
use crate::combination::Sha256Digest;
use crate::evidence::bundle::Contents;
use crate::evidence::codes::Code;
use crate::evidence::finding::Finding;
use crate::evidence::manifest::{Arm, Role, Workload};
use crate::evidence::run_record::{self, Exit, FileRole, RunRecord};

/// Holds every record of a workload against its manifest.
pub(super) fn check(workload: &Workload, contents: &Contents, notes: &mut Notes) {
    for (path, of) in workload.items(Role::Record) {
        let Some(bytes) = contents.get(path) else { continue };
        let findings = match run_record::read(bytes) {
            Ok(record) => findings(&record, of, workload),
            Err(wrong) => vec![Finding::new(Code::RecordMalformed, wrong.to_string())],
        };
        for finding in findings {
            match of {
                Some(arm) => notes.of_file(arm, path, finding),
                None => notes.add(finding.in_file(path)),
            }
        }
    }
}

fn findings(record: &RunRecord, of: Option<Arm>, workload: &Workload) -> Vec<Finding> {
    let mut found = alone(record);
    let differs = |why: String| Finding::new(Code::RecordDiffers, why);
    found.extend(systems(record, of, workload).into_iter().map(differs));
    let of_role = |roles: &[FileRole]| -> Vec<Sha256Digest> {
        record.files.iter().filter(|file| roles.contains(&file.role)).filter_map(|file| file.sha256).collect()
    };
    let programs = of_role(&[FileRole::Program, FileRole::Executable]);
    let arguments = of_role(&[FileRole::Argument]);
    for (what, digests, named) in
        [("program", programs, workload.program.sha256), ("model", arguments, workload.model.sha256)]
    {
        if let Some(named) = named.filter(|named| !digests.is_empty() && !digests.contains(named)) {
            found.push(differs(format!("no {what} in it has SHA-256 {named}, as the manifest says")));
        }
    }
    found
}

/// What is wrong with a record whatever it is held against.
pub fn alone(record: &RunRecord) -> Vec<Finding> {
    let mut found = Vec::new();
    match record.run.exit {
        Some(Exit::Code(0)) => {}
        Some(exit) => found.push(Finding::new(Code::Aborted, format!("the program ended with {exit}"))),
        None => {
            let message =
                "it was written before the program ended, by a recorder that did not come to its end";
            found.push(Finding::new(Code::RecordIncomplete, message));
        }
    }
    if let Some(mask) = record.secrets().first() {
        let message = format!("what looks like a secret stands in {} (rule `{}`)", mask.place, mask.rule);
        found.push(Finding::new(Code::RecordSecret, message));
    }
    found
}

/// Where a record names other systems than the manifest. One that says nothing contradicts nothing.
fn systems(record: &RunRecord, of: Option<Arm>, workload: &Workload) -> Vec<String> {
    let Some(arm) = of else { return Vec::new() };
    let mut wrong = Vec::new();
    let mut compare = |who: &str, found: Option<&str>, named: &str| {
        if let Some(found) = found.filter(|found| *found != named) {
            wrong.push(format!("names {who} `{found}`, the manifest `{named}`"));
        }
    };
    let here = record.os.here.build.as_deref();
    if arm.is_guest() {
        compare("build of the guest", here, workload.guest.os.build.as_str());
        let host = record.os.host.as_ref();
        compare("build of the host", host.map(|host| host.build.as_str()), workload.host.os.build.as_str());
        compare("chip of the host", host.map(|host| host.chip.as_str()), workload.host.chip.as_str());
    } else {
        compare("build of the host", here, workload.host.os.build.as_str());
        compare("chip of the host", record.machine.chip.as_deref(), workload.host.chip.as_str());
    }
    wrong
}
