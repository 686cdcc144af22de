//! `capgate man`: one page for each command.

use std::fs;

use clap::CommandFactory;
use serde::Serialize;

use crate::cli::{Cli, ManArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::{Ui, count};

#[derive(Serialize)]
struct Written {
    folder: String,
    pages: usize,
}

pub fn run(ui: &Ui, args: &ManArgs) -> Outcome {
    let failed =
        |e: std::io::Error| Failure::failed(format!("`{}` cannot be written: {e}", args.dir.display()));
    fs::create_dir_all(&args.dir).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.dir).map_err(failed)?;
    let pages = fs::read_dir(&args.dir).map_err(failed)?.count();
    if ui.is_json() {
        ui.json(&Written { folder: args.dir.display().to_string(), pages });
    } else {
        ui.line(format!("{} in {}", count(pages, "page"), args.dir.display()));
    }
    Ok(Exit::Done)
}
