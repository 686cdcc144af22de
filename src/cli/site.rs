//! Arguments of the commands for operators, auditors and everyone who asks.

use std::path::PathBuf;

use capgate_registry::combination::{Chip, Workload};
use capgate_registry::os::Build;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::Timestamp;

use super::maintain::RegistryArgs;

/// What a decision is about.
#[derive(Debug, Args)]
pub struct SceneArgs {
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
    /// Take the facts from this file instead of this machine
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Site policy
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Host statement; a facts file has none beside it, since it names the host's macOS itself
    #[arg(long, value_name = "FILE", conflicts_with = "facts")]
    pub host_note: Option<PathBuf>,
}

/// `capgate lookup`
#[derive(Debug, Args)]
#[command(after_help = "Exit code 0: granted. 3: the program stays stock, and the reason is printed.\n\
    Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate lookup --facts guest.toml")]
pub struct LookupArgs {
    /// Registry, facts, policy
    #[command(flatten)]
    pub scene: SceneArgs,
    /// The program: its executable file, `sha256:…` or `cdhash:…`
    #[arg(long, value_name = "PROGRAM")]
    pub workload: Option<String>,
    /// Append the decision to this log; what cannot be logged is not granted
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

/// One fact that is to be supposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Which fact.
    pub fact: String,
    /// Its value.
    pub value: String,
}

/// Facts that can be supposed.
pub const CONDITIONS: [&str; 4] = ["host_chip", "host_os_build", "guest_os_build", "workload"];

fn parse_condition(text: &str) -> Result<Condition, String> {
    let form = || format!("write it as FACT=VALUE, with one of {}", CONDITIONS.join(", "));
    let (fact, value) = text.split_once('=').ok_or_else(form)?;
    if !CONDITIONS.contains(&fact) {
        return Err(form());
    }
    let wrong = match fact {
        "host_chip" => value.parse::<Chip>().err().map(|e| e.to_string()),
        "workload" => value.parse::<Workload>().err().map(|e| e.to_string()),
        _ => value.parse::<Build>().err().map(|e| e.to_string()),
    };
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    Ok(Condition { fact: fact.to_owned(), value: value.to_owned() })
}

/// `capgate explain`
#[derive(Debug, Args)]
#[command(
    after_help = "Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate explain ./llama-bench --facts guest.toml --if host_os_build=25G90"
)]
pub struct ExplainArgs {
    /// The program (its file, `sha256:…` or `cdhash:…`), or the id of a logged decision
    #[arg(value_name = "PROGRAM|DECISION")]
    pub subject: Option<String>,
    /// Suppose that this fact were so; give it once for each
    #[arg(long = "if", value_name = "FACT=VALUE", value_parser = parse_condition)]
    pub suppose: Vec<Condition>,
    /// Log that holds the decision
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Registry, facts, policy
    #[command(flatten)]
    pub scene: SceneArgs,
}

/// `capgate probe`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate probe --format json")]
pub struct ProbeArgs {}

/// `capgate policy`
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Find every problem of a site policy before it turns a fleet stock
    Check(PolicyCheckArgs),
}

/// `capgate policy check`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate policy check site.toml")]
pub struct PolicyCheckArgs {
    /// The policy
    pub file: PathBuf,
    /// Take this as the time
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<Timestamp>,
}

/// `capgate audit`
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List decisions
    List(AuditListArgs),
}

/// How a decision ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutcomeWord {
    /// Values were granted
    Grant,
    /// The program stayed stock
    Stock,
}

/// `capgate audit list`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  capgate audit list decisions.jsonl --outcome stock --since 2026-12-01T00:00:00Z"
)]
pub struct AuditListArgs {
    /// Decision logs
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Only with this outcome
    #[arg(long, value_enum)]
    pub outcome: Option<OutcomeWord>,
    /// Only with this reason
    #[arg(long)]
    pub reason: Option<String>,
    /// Only from this time on
    #[arg(long, value_name = "RFC3339")]
    pub since: Option<Timestamp>,
    /// Only before this time
    #[arg(long, value_name = "RFC3339")]
    pub until: Option<Timestamp>,
}

/// `capgate demo`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate demo --keep capgate-demo")]
pub struct DemoArgs {
    /// Folder for everything it makes; it stays
    #[arg(long, value_name = "DIR", default_value = "capgate-demo")]
    pub keep: PathBuf,
}

/// `capgate completions`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  capgate completions bash > ~/.local/share/bash-completion/completions/capgate"
)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// `capgate man`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate man man/man1")]
pub struct ManArgs {
    /// Folder for the pages; made if it does not exist
    pub dir: PathBuf,
}
