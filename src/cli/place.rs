//! Arguments of the commands that put capgate on a guest and take it away.

use std::path::PathBuf;

use capgate_registry::merkle::Hash;
use clap::Args;
use jiff::Timestamp;

use super::maintain::parse_root;

/// `capgate install`
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing that exists is overwritten; what is there already and equal is left as it is.\n\n\
    Example:\n  capgate install /opt/capgate --registry registry --host-key host.pub \\\n      \
    --root sha256:1111111111111111111111111111111111111111111111111111111111111111"
)]
pub struct InstallArgs {
    /// Folder to install in; made if it does not exist
    pub prefix: PathBuf,
    /// Digest of the registry's first root, as `init` printed it
    #[arg(long, env = "CAPGATE_ROOT", value_name = "sha256:HEX", value_parser = parse_root)]
    pub root: Hash,
    /// Folder of a registry to verify and copy; without it there is none until one is synced
    #[arg(long, value_name = "DIR")]
    pub registry: Option<PathBuf>,
    /// File with the public key of a host; give it once for each
    #[arg(long, value_name = "FILE")]
    pub host_key: Vec<PathBuf>,
    /// The library; without it, the one in `../lib` beside this program
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Take this as the time
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<Timestamp>,
}

/// `capgate uninstall`
#[derive(Debug, Args)]
#[command(
    after_help = "Removes what `install` put there and nobody changed since. The rest stays and is named.\n\n\
    Example:\n  capgate uninstall /opt/capgate --dry-run"
)]
pub struct UninstallArgs {
    /// Folder that it was installed in
    pub prefix: PathBuf,
    /// Remove the decision logs too
    #[arg(long)]
    pub logs: bool,
    /// Folder of launch agents to look into, instead of those that the system reads
    #[arg(long, value_name = "DIR")]
    pub agents: Option<PathBuf>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}
