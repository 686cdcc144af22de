//! Arguments of the command that says what stands in the way.

use std::path::PathBuf;

use clap::Args;

/// `capgate doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 nothing stands in the way; 3 the program would stay stock; 4 its file is malformed.\n\n\
    Example:\n  capgate doctor llama-bench"
)]
pub struct DoctorArgs {
    /// The program: its file, or a name in PATH; without it, only machine and prefix are looked at
    pub program: Option<PathBuf>,
    /// Where capgate is installed; without it, the prefix that this program is in
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
}
