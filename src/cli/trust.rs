//! Arguments of the commands by which the owners of the root change who is trusted.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{AskedArgs, KeyArg, RegistryArgs, ToArgs};

const FIRST: &str = "Each edit makes the file where there is none, and drops the signatures that it had.\n\
    Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n";

/// `capgate trust …`
#[derive(Debug, Subcommand)]
pub enum TrustCommand {
    /// Show who is trusted, and what a draft would change
    Show(TrustShowArgs),
    /// Begin the next version: the same keys, a later end, other thresholds
    Draft(TrustDraftArgs),
    /// Put a key into the next version
    AddKey(TrustAddArgs),
    /// Take a key out of the next version
    RemoveKey(TrustRemoveArgs),
    /// Say that a key is in foreign hands, from an entry of the log on
    Compromised(TrustCompromisedArgs),
    /// Sign the next version with a root key
    Sign(TrustSignArgs),
    /// Put the next version in force, once enough have signed
    Rotate(TrustRotateArgs),
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleWord {
    /// Change who is trusted
    Root,
    /// Publish and revoke profiles
    Publisher,
    /// Say what is in force
    Registry,
}

/// `capgate trust show`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate trust show trust-next.note")]
pub struct TrustShowArgs {
    /// A draft of the next version
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// The draft of the next version, and what every edit may say about it.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// File of the draft
    #[arg(long, value_name = "FILE", default_value = "trust-next.note")]
    pub file: PathBuf,
    /// Days until the root keys must sign again; 365 where the draft is new
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..))]
    pub days: Option<u16>,
    /// How many root keys must sign
    #[arg(long, value_name = "N")]
    pub threshold_root: Option<usize>,
    /// How many publishers must sign a profile
    #[arg(long, value_name = "N")]
    pub threshold_publisher: Option<usize>,
    /// How many registry keys must sign
    #[arg(long, value_name = "N")]
    pub threshold_registry: Option<usize>,
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `capgate trust draft`
#[derive(Debug, Args)]
#[command(after_help = format!("{FIRST}Example:\n  capgate trust draft --days 365"))]
pub struct TrustDraftArgs {
    /// The draft
    #[command(flatten)]
    pub edit: EditArgs,
}

/// `capgate trust add-key`
#[derive(Debug, Args)]
#[command(after_help = format!("{FIRST}Example:\n  capgate trust add-key publisher bob.key --threshold-publisher 2"))]
pub struct TrustAddArgs {
    /// What the key may do
    #[arg(value_enum)]
    pub role: RoleWord,
    /// The public key, or a file with the private one
    pub key: String,
    /// The draft
    #[command(flatten)]
    pub edit: EditArgs,
}

/// `capgate trust remove-key`
#[derive(Debug, Args)]
#[command(after_help = format!("{FIRST}Example:\n  capgate trust remove-key bob.example"))]
pub struct TrustRemoveArgs {
    /// Name of the key, or the whole public key
    pub key: String,
    /// The draft
    #[command(flatten)]
    pub edit: EditArgs,
}

/// `capgate trust compromised`
#[derive(Debug, Args)]
#[command(after_help = format!(
    "What the key signed at that index of the log and behind it counts no longer, and the key is taken out of its role.\n\
    {FIRST}Example:\n  capgate trust compromised bob.example --from 17"
))]
pub struct TrustCompromisedArgs {
    /// Name of the key, or the whole public key
    pub key: String,
    /// Index of the first log entry that the owner did not sign
    #[arg(long, value_name = "INDEX")]
    pub from: u64,
    /// The draft
    #[command(flatten)]
    pub edit: EditArgs,
}

/// `capgate trust sign`
#[derive(Debug, Args)]
#[command(
    after_help = "Of the registry only the folder `trust` is read: a copy of it is enough where the key is kept.\n\
    Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate trust sign trust-next.note --key root.key"
)]
pub struct TrustSignArgs {
    /// The draft
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Private root key, of this version or the next, a file or `agent:NAME`; give it once for each
    #[arg(long, value_name = "KEY", required = true)]
    pub key: Vec<KeyArg>,
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `capgate trust rotate`
#[derive(Debug, Args)]
#[command(
    after_help = "Where several signed copies of one draft, give each of them: their signatures are put together.\n\
    Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate trust rotate trust-next.note --registry-key registry.key"
)]
pub struct TrustRotateArgs {
    /// The signed draft, or its signed copies
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Private registry key, of the next version, a file or `agent:NAME`; give it once for each
    #[arg(long, value_name = "KEY", required = true)]
    pub registry_key: Vec<KeyArg>,
    /// Days until what is in force must be renewed
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    pub days: u16,
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
    /// Where it goes
    #[command(flatten)]
    pub to: ToArgs,
    /// The witnesses
    #[command(flatten)]
    pub asked: AskedArgs,
}
