//! Arguments of the command that looks before anything is started.

use std::ffi::OsString;
use std::path::PathBuf;

use capgate_registry::merkle::Hash;
use clap::Args;
use jiff::Timestamp;

use super::maintain::parse_root;

/// `capgate doctor`
#[derive(Debug, Args)]
#[command(after_help = "Nothing is started, changed or signed.\n\
    Exit codes: 0 nothing failed; 1 it cannot be read; 3 something failed, and the program would stay stock; 4 a binary is \
    malformed.\n\n\
    Example:\n  capgate doctor llama-bench --prefix /opt/capgate")]
pub struct DoctorArgs {
    /// The program: a path, or a name that is in PATH; without it, only this machine is looked at
    #[arg(value_name = "PROGRAM")]
    pub program: Option<OsString>,
    /// Where capgate is installed; without it and without a registry, the prefix that this program is in
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Folder of a registry to ask, where no prefix is named
    #[arg(long, value_name = "DIR", requires = "root", conflicts_with = "prefix")]
    pub registry: Option<PathBuf>,
    /// Digest of its first root, as `init` printed it
    #[arg(long, value_name = "sha256:HEX", value_parser = parse_root, requires = "registry")]
    pub root: Option<Hash>,
    /// Take the facts from this file instead of this machine
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Site policy, beside `--registry`
    #[arg(long, value_name = "FILE", requires = "registry", conflicts_with = "prefix")]
    pub policy: Option<PathBuf>,
    /// Host statement, beside `--registry`
    #[arg(long, value_name = "FILE", requires = "registry", conflicts_with = "prefix")]
    pub host_note: Option<PathBuf>,
    /// The library to insert; without it, the prefix's
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Decision log to look through for what runs; without it, the prefix's
    #[arg(long, value_name = "FILE")]
    pub log: Vec<PathBuf>,
    /// Take this as the time
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<Timestamp>,
}
