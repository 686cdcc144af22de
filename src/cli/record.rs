//! Arguments of the command that records a run.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `capgate record`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "The program gets this terminal, and what it writes is its own; where the record is, one line on standard error \
    says.\n\
    Exit codes: the program's own, 128 and the signal's number where one ended it; 125 nothing could be recorded; 126 it \
    cannot be started; 127 there is none.\n\n\
    Example:\n  capgate record --out run.json -- llama-bench --help"
)]
pub struct RecordArgs {
    /// What to do with records that exist
    #[command(subcommand)]
    pub command: Option<RecordCommand>,
    /// Where the record goes; without it, into this folder under a name with the time
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// A program that asks the Metal device and prints its answers, run once before the start
    #[arg(long, value_name = "PROGRAM")]
    pub probe: Option<PathBuf>,
    /// Image of the virtual machine that this is, where it can be read
    #[arg(long, value_name = "FILE")]
    pub vm_image: Option<PathBuf>,
    /// A file that the program writes its raw samples to, such as llama-bench's JSON; may be given again
    #[arg(long, value_name = "FILE")]
    pub samples: Vec<PathBuf>,
    /// Where capgate is installed, for the host statement; without it, the prefix that this program is in
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// What can be done with records.
#[derive(Debug, Subcommand)]
pub enum RecordCommand {
    /// Show a record
    Show(RecordShowArgs),
    /// Say in what two runs differ, the most suspicious first
    Diff(RecordDiffArgs),
}

/// `capgate record show`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate record show run.json")]
pub struct RecordShowArgs {
    /// The record
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `capgate record diff`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 whether or not they differ; 4 one of them is no record.\n\n\
    Example:\n  capgate record diff fast.json slow.json")]
pub struct RecordDiffArgs {
    /// The record of one run
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The record of another
    #[arg(value_name = "B")]
    pub b: PathBuf,
}
