//! Arguments of the commands about host statements.

use std::path::PathBuf;

use capgate_policy::facts::MacAddress;
use capgate_registry::note::Origin;
use clap::{Args, Subcommand, ValueEnum};
use jiff::{SignedDuration, Timestamp};

use super::KeyArg;

/// `capgate host`
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Sign what this host is, for the guests that cannot see it
    Attest(AttestArgs),
    /// Say who signed a statement, what it says, and whether it counts
    Verify(HostVerifyArgs),
}

/// The host's preference about what guests' GPUs may report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FeatureLevelWord {
    /// `ForceUnrestrictedDeviceFeatureLevel` was on when the guests started
    Unrestricted,
    /// It was off
    Default,
    /// Nobody looked
    Unrecorded,
}

/// Shortest and longest life of a statement.
const LIVES: (SignedDuration, SignedDuration) =
    (SignedDuration::from_mins(1), SignedDuration::from_hours(24));

fn parse_life(text: &str) -> Result<SignedDuration, String> {
    let life = parse_duration(text)?;
    if life < LIVES.0 || life > LIVES.1 {
        return Err(
            "give from 1 minute to 24 hours: an updated host must not be believed to be the old one".into()
        );
    }
    Ok(life)
}

fn parse_interval(text: &str) -> Result<SignedDuration, String> {
    let interval = parse_duration(text)?;
    if interval < SignedDuration::from_secs(1) { Err("give at least 1 second".into()) } else { Ok(interval) }
}

fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    text.parse().map_err(|_| "write it as `1h`, `90m` or `30s`".to_owned())
}

/// `capgate host attest`
#[derive(Debug, Args)]
#[command(
    after_help = "Run it on the Mac that runs the guests. Chip and macOS are read from the system, never given.\n\
    The file is put there whole, in place of the one before; give the guests the folder read-only.\n\n\
    Example:\n  capgate host attest --key host.key --origin example.org/gpu --out shared --watch"
)]
pub struct AttestArgs {
    /// Private key of this host: a file, or `agent:` and its public key
    #[arg(long, value_name = "KEY")]
    pub key: KeyArg,
    /// Registry whose guests it is for
    #[arg(long)]
    pub origin: Origin,
    /// Where the statement goes: a file, or a folder for `host.note`
    #[arg(long, value_name = "FILE|DIR")]
    pub out: PathBuf,
    /// How long it counts
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_life)]
    pub lifetime: SignedDuration,
    /// MAC address of a guest that it is for; give it once for each, or not at all for every guest that can read it
    #[arg(long, value_name = "ADDRESS")]
    pub mac: Vec<MacAddress>,
    /// Least version of the registry's snapshot that guests may use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub least_version: u64,
    /// The host's preference as it was when the guests started
    #[arg(long, value_enum, default_value_t = FeatureLevelWord::Unrecorded)]
    pub feature_level: FeatureLevelWord,
    /// Go on, and write a new one every ten minutes
    #[arg(long)]
    pub watch: bool,
    /// Write a new one after this time instead
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_interval, requires = "watch")]
    pub every: SignedDuration,
}

/// `capgate host verify`
#[derive(Debug, Args)]
#[command(after_help = "Exit code 0: it counts. 4: it does not, and the reason is printed.\n\n\
    Example:\n  capgate host verify host.note --prefix /opt/capgate --accept")]
pub struct HostVerifyArgs {
    /// The statement
    pub file: PathBuf,
    /// Installed prefix whose site policy names the host keys, and whose registry the origin
    #[arg(long, value_name = "DIR", required_unless_present = "host_key")]
    pub prefix: Option<PathBuf>,
    /// File with the public key of a host; give it once for each
    #[arg(long, value_name = "FILE", requires = "origin", conflicts_with = "prefix")]
    pub host_key: Vec<PathBuf>,
    /// Registry that it must be for
    #[arg(long)]
    pub origin: Option<Origin>,
    /// Put it into the prefix, where the programs of this guest find it
    #[arg(long, requires = "prefix")]
    pub accept: bool,
    /// Take this as the time
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<Timestamp>,
}
