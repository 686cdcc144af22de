//! Arguments of `capgate sync`.

use std::path::PathBuf;

use capgate_registry::merkle::Hash;
use clap::Args;
use jiff::{SignedDuration, Timestamp};

use super::maintain::parse_root;

/// `capgate sync`
#[derive(Debug, Args)]
#[command(
    after_help = "What is there stays in force until everything that is new was verified. A host statement is copied from where\n\
    the site policy of the prefix names it.\n\n\
    Examples:\n  capgate sync https://registry.example.org/gpu --prefix /opt/capgate --watch\n  \
    capgate sync /mnt/registry --to mirror --root sha256:…"
)]
pub struct SyncArgs {
    /// Where the registry is published: a URL, or a folder
    #[arg(value_name = "SOURCE", env = "CAPGATE_SOURCE")]
    pub source: String,
    /// The installed prefix whose registry follows it
    #[arg(long, value_name = "PREFIX", required_unless_present = "to", conflicts_with = "to")]
    pub prefix: Option<PathBuf>,
    /// A folder that becomes a copy of it
    #[arg(long, value_name = "DIR", requires = "root")]
    pub to: Option<PathBuf>,
    /// Digest of its first root, as its maintainers publish it; a prefix knows it already
    #[arg(long, env = "CAPGATE_ROOT", value_name = "sha256:HEX", value_parser = parse_root)]
    pub root: Option<Hash>,
    /// Look again and again, until SIGTERM or SIGINT
    #[arg(long)]
    pub watch: bool,
    /// How long to wait in between
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_every, requires = "watch")]
    pub every: SignedDuration,
    /// Take this as the time
    #[arg(long, value_name = "RFC3339", conflicts_with = "watch")]
    pub now: Option<Timestamp>,
}

/// At least 5 seconds: a web server is not to be asked without a pause.
fn parse_every(text: &str) -> Result<SignedDuration, String> {
    let time: SignedDuration = text.parse().map_err(|e| format!("`{text}` is no time: {e}"))?;
    let allowed = SignedDuration::from_secs(5)..=SignedDuration::from_hours(24 * 7);
    if allowed.contains(&time) { Ok(time) } else { Err("from 5 seconds to 7 days".to_owned()) }
}
