//! `capgate launch-agent write`: the file is written whole, or it is there already.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde::Serialize;

use super::place::Place;
use super::task;
use crate::agents::{Agent, differences};
use crate::cli::AgentWriteArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::place::Place as Folder;

/// launchd refuses what others can write.
const MODE: u32 = 0o644;

#[derive(Serialize)]
struct Written {
    label: String,
    file: String,
    /// `written`, `replaced` or `unchanged`.
    state: &'static str,
    dry_run: bool,
    property_list: String,
    bootstrap: String,
}

pub fn run(ui: &Ui, args: &AgentWriteArgs) -> Outcome {
    let Some((agent, place)) = task::wanted(&args.name, &args.task)? else {
        return Err(Failure::usage("what the agent starts is not said")
            .help("capgate launch-agent write -- /path/of/program ARGS…, or `--sync`, or `--host-attest`"));
    };
    let xml = agent
        .to_xml()
        .map_err(|e| Failure::usage(format!("what the agent of `{}` starts {e}", place.label)))?;
    place.refuse_double()?;
    let state = match place.ours()? {
        None => "written",
        Some((_, found)) if differences(&found, &agent.value()).is_empty() && place.mode() == Some(MODE) => {
            "unchanged"
        }
        Some(_) => "replaced",
    };
    task::warn(ui, &agent);
    if !args.dry_run {
        make_folders(&agent, &place)?;
        if state != "unchanged" {
            write(&place, &xml)?;
        }
    }
    report(ui, args, &place, state, &xml);
    Ok(Exit::Done)
}

fn report(ui: &Ui, args: &AgentWriteArgs, place: &Place, state: &'static str, xml: &[u8]) {
    let xml = String::from_utf8_lossy(xml);
    if ui.is_json() {
        return ui.json(&Written {
            label: place.label.clone(),
            file: place.file.display().to_string(),
            state,
            dry_run: args.dry_run,
            property_list: xml.into_owned(),
            bootstrap: place.bootstrap(),
        });
    }
    if args.dry_run {
        ui.stdout(&xml);
        return ui.hint(format!("nothing was written; this would be `{}` ({state})", place.file.display()));
    }
    ui.line(format!("{state}: {}", place.file.display()));
    match state {
        "replaced" => ui.hint(format!(
            "launchd keeps the old one until:\n  {}\n  {}",
            place.bootout(),
            place.bootstrap()
        )),
        _ => ui.hint(format!("it starts with the next login, or with:\n  {}", place.bootstrap())),
    }
}

fn write(place: &Place, xml: &[u8]) -> Result<(), Failure> {
    let failed =
        |path: &Path, e: io::Error| Failure::failed(format!("`{}` cannot be written: {e}", path.display()));
    let folder = Folder::open(place.folder()).map_err(|e| failed(place.folder(), e))?;
    let name = place.file.file_name().unwrap_or_default();
    folder.replace(name, xml, MODE).map_err(|e| failed(&place.file, e))
}

/// launchd makes log files, but no folder for them.
fn make_folders(agent: &Agent, place: &Place) -> Result<(), Failure> {
    let logs = Path::new(&agent.out).parent().unwrap_or(Path::new("/"));
    for (folder, mode) in [(place.folder(), 0o755), (logs, 0o700)] {
        let made = fs::DirBuilder::new().recursive(true).mode(mode).create(folder);
        made.map_err(|e| Failure::failed(format!("the folder `{}` cannot be made: {e}", folder.display())))?;
    }
    Ok(())
}
