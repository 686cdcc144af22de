//! The `capgate` command: everything around the pure crates that touches the world or talks to people.
//!
//! Only [`run`] is for other programs; [`world`] and [`founding`] are public for the tests that let the disk fail.

mod agents;
mod cli;
mod cmd;
mod decision_log;
mod exit;
pub mod founding;
mod installed;
mod profiles;
mod recheck;
mod ui;
pub mod world;

use std::ffi::OsString;

use clap::Parser;

pub use exit::Exit;

/// Runs one command line and returns how it ended.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    log_to_stderr();
    let cli = match cli::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => return not_parsed(&e),
    };
    let ui = ui::Ui::new(cli.format, cli.color);
    let exit = match cmd::dispatch(&ui, cli.command) {
        Ok(exit) => exit,
        Err(failure) => {
            ui.failure(&failure);
            failure.exit
        }
    };
    ui.finish(exit)
}

/// Help and version are results; everything else is wrong usage.
fn not_parsed(error: &clap::Error) -> Exit {
    // Nobody is there to be told that this could not be printed.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Done }
}

/// `CAPGATE_LOG` turns on diagnostics of what is done to the disk, for example `CAPGATE_LOG=debug`.
fn log_to_stderr() {
    let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("CAPGATE_LOG") else { return };
    let started = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    // A second call in one process keeps the first subscriber.
    drop(started);
}
