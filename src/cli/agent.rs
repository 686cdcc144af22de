//! Arguments of the commands about launch agents.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `capgate launch-agent`
#[derive(Debug, Subcommand)]
pub enum LaunchAgentCommand {
    /// Write a launch agent
    Write(AgentWriteArgs),
    /// Say what differs in one that was written
    Check(AgentCheckArgs),
    /// Remove one
    Remove(AgentRemoveArgs),
}

/// Letters that a label may have: it is also the name of a file.
fn parse_label(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || text.len() > 200 || text.starts_with('.') || !text.chars().all(good) {
        return Err("give 1 to 200 of the characters `A-Z a-z 0-9 . _ -`, not beginning with a dot".into());
    }
    Ok(text.to_owned())
}

/// Which agent.
#[derive(Debug, Args)]
pub struct AgentNameArgs {
    /// Its name; the label is `org.capgate.NAME`
    #[arg(long, value_parser = parse_label)]
    pub name: Option<String>,
    /// Its whole label
    #[arg(long, value_parser = parse_label, conflicts_with = "name")]
    pub label: Option<String>,
    /// Folder of the agents; without it, `~/Library/LaunchAgents`
    #[arg(long, value_name = "DIR")]
    pub agents: Option<PathBuf>,
}

/// What an agent starts.
#[derive(Debug, Args)]
pub struct AgentTaskArgs {
    /// Installed prefix whose `bin/capgate` it starts; without it, the one that this program lies in
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Start `capgate sync --watch` instead of a program
    #[arg(long)]
    pub sync: bool,
    /// Start `capgate host attest --watch` instead of a program
    #[arg(long, conflicts_with = "sync")]
    pub host_attest: bool,
    /// Start the program again whenever it ends
    #[arg(long)]
    pub keep_alive: bool,
    /// Folder for what it says; without it, `~/Library/Logs/capgate`
    #[arg(long, value_name = "DIR")]
    pub logs: Option<PathBuf>,
    /// The program, by its absolute path, and its arguments; with `--sync` and `--host-attest`, arguments of that command
    #[arg(value_name = "PROGRAM|ARGS", last = true)]
    pub words: Vec<String>,
}

/// `capgate launch-agent write`
#[derive(Debug, Args)]
#[command(
    after_help = "The agent starts the program through `capgate run --wait 60`; it sets no variable.\n\n\
    Example:\n  capgate launch-agent write --name llama --prefix /opt/capgate -- /opt/llama/llama-server --port 8080"
)]
pub struct AgentWriteArgs {
    /// Which agent
    #[command(flatten)]
    pub name: AgentNameArgs,
    /// What it starts
    #[command(flatten)]
    pub task: AgentTaskArgs,
    /// Show the file and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `capgate launch-agent check`
#[derive(Debug, Args)]
#[command(
    after_help = "With a program it is held against what `write` would write; without, against itself.\n\
    Exit code 0: as it should be. 4: something differs.\n\n\
    Example:\n  capgate launch-agent check --name llama"
)]
pub struct AgentCheckArgs {
    /// Which agent
    #[command(flatten)]
    pub name: AgentNameArgs,
    /// What it should start
    #[command(flatten)]
    pub task: AgentTaskArgs,
}

/// `capgate launch-agent remove`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate launch-agent remove --name llama")]
pub struct AgentRemoveArgs {
    /// Which agent
    #[command(flatten)]
    pub name: AgentNameArgs,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}
