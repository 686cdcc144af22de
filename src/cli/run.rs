//! Arguments of the command that starts a program.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Shims that can be asked for by name.
const SHIMS: [&str; 4] = ["lume", "tart", "anka", "lunchpail"];

/// `capgate run`
#[derive(Debug, Args)]
#[command(
    after_help = "One line on standard error says what was decided; everything else is the program's own.\n\
    Exit codes: the program's own; 125 refused with `--require`; 126 it cannot be started; 127 there is none.\n\n\
    Example:\n  capgate run --require -- llama-bench --help"
)]
pub struct RunArgs {
    /// The library to insert: capgate's own, or another shim's by its path or name
    #[arg(long, value_name = "PATH|lume|tart|anka|lunchpail", value_parser = parse_shim)]
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

/// A word that is neither a name nor a file is a slip of the pen, and no program should run stock for one.
fn parse_shim(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if SHIMS.contains(&text) || text.contains('/') || path.exists() {
        return Ok(path);
    }
    let near = SHIMS.iter().find(|name| strsim::damerau_levenshtein(name, text) <= 2);
    Err(match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("neither a file nor one of {}", SHIMS.join(", ")),
    })
}
