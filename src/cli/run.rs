//! Arguments of the command that starts a program.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// `capgate run`
#[derive(Debug, Args)]
#[command(
    after_help = "One line on standard error says what was decided; everything else is the program's own.\n\
    Exit codes: the program's own; 125 refused with `--require`; 126 it cannot be started; 127 there is none.\n\n\
    Example:\n  capgate run --require -- llama-bench --help"
)]
pub struct RunArgs {
    /// The library to insert: capgate's own, or another shim's by its path or name
    #[arg(long, value_name = "PATH|lume|tart|anka|lunchpail")]
    pub shim: Option<PathBuf>,
    /// Do not start the program where it would see Apple's own answers
    #[arg(long)]
    pub require: bool,
    /// Wait so long for a registry and a host statement that can be believed
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=86_400))]
    pub wait: u32,
    /// Where capgate is installed; without it, the prefix that this program is in
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}
