//! Arguments of the commands by which maintainers keep a registry.

use std::num::NonZero;
use std::path::PathBuf;

use capgate_registry::keys::SigningKey;
use capgate_registry::merkle::Hash;
use capgate_registry::note::Origin;
use capgate_registry::publish::Terms;
use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};

use super::{AskedArgs, KeyArg};

/// Which registry, and by which root it is trusted.
#[derive(Debug, Args)]
pub struct RegistryArgs {
    /// Folder of the registry
    #[arg(long, env = "CAPGATE_REGISTRY", value_name = "DIR")]
    pub registry: PathBuf,
    /// Digest of its first root, as `init` printed it
    #[arg(long, env = "CAPGATE_ROOT", value_name = "sha256:HEX", value_parser = parse_root)]
    pub root: Hash,
    /// Take this as the time
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<Timestamp>,
}

/// Reads `sha256:HEX`.
pub fn parse_root(text: &str) -> Result<Hash, String> {
    let hex = text.strip_prefix("sha256:").ok_or("write it as `sha256:` and 64 hexadecimal digits")?;
    hex.parse().map_err(|e: capgate_registry::merkle::HashError| e.to_string())
}

/// `capgate keygen`
#[derive(Debug, Args)]
#[command(
    after_help = "The private key is written for its owner only; the public one, which others need, is printed.\n\
    A registry key must be named by the registry's origin.\n\n\
    Example:\n  capgate keygen alice.example --out alice.key\n  \
    capgate keygen alice.example --agent alice@example.org"
)]
pub struct KeygenArgs {
    /// Name that signatures will carry
    pub name: String,
    /// File for the private key; it must not exist
    #[arg(long, value_name = "FILE", required_unless_present = "agent")]
    pub out: Option<PathBuf>,
    /// Take the private key from this file of openssl (PKCS#8 PEM) or ssh-keygen, unencrypted, instead of making one
    #[arg(long, value_name = "FILE")]
    pub import: Option<PathBuf>,
    /// Name a key that stays in the ssh-agent, by its comment or its fingerprint; no file is written
    #[arg(long, value_name = "COMMENT|FINGERPRINT", conflicts_with_all = ["out", "import"])]
    pub agent: Option<String>,
    /// Print the public key of a witness, as `witness_keys` of a site policy takes it
    #[arg(long)]
    pub witness: bool,
}

/// `capgate init`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  capgate init registry --origin example.org/gpu --root-key root.key \\\n      \
    --publisher alice.key --registry-key registry.key"
)]
pub struct InitArgs {
    /// Folder for the registry; made if it does not exist
    pub dir: PathBuf,
    /// Name of the registry, which every signature in it carries
    #[arg(long)]
    pub origin: Origin,
    /// Private key that may change who is trusted, a file or `agent:` and the public key; give it once for each
    #[arg(long, value_name = "KEY", required = true)]
    pub root_key: Vec<KeyArg>,
    /// Public key of a publisher, or a file with its private key; give it once for each
    #[arg(long, value_name = "KEY", required = true)]
    pub publisher: Vec<String>,
    /// Private key that says what is in force, a file or `agent:` and the public key; give it once for each
    #[arg(long, value_name = "KEY", required = true)]
    pub registry_key: Vec<KeyArg>,
    /// How many root keys must sign
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threshold_root: usize,
    /// How many publishers must sign a profile
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threshold_publisher: usize,
    /// How many registry keys must sign
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threshold_registry: usize,
    /// Days until the root keys must sign again
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..))]
    pub expires_days: u16,
    /// Take this as the time
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<Timestamp>,
}

/// `capgate lint`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate lint profiles.d")]
pub struct LintArgs {
    /// Profiles, or folders of them
    #[arg(value_name = "PATH", env = "CAPGATE_PROFILES", default_value = "profiles.d")]
    pub paths: Vec<PathBuf>,
}

/// Where else a registry is published.
#[derive(Debug, Args)]
pub struct ToArgs {
    /// Publish it there, a folder or a URL; the folder of `--registry` is a working copy of it
    #[arg(long, env = "CAPGATE_TO", value_name = "PLACE")]
    pub to: Option<String>,
}

/// Keys that sign what is in force.
#[derive(Debug, Args)]
pub struct SigningArgs {
    /// Private key of the registry, a file or `agent:NAME`; give it once for each
    #[arg(long, value_name = "KEY", required = true)]
    pub registry_key: Vec<KeyArg>,
    /// Days until it must be renewed
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    pub days: u16,
}

impl SigningArgs {
    /// On which terms they sign.
    pub fn terms<'k>(&self, keys: &'k [SigningKey], now: Timestamp, threads: NonZero<usize>) -> Terms<'k> {
        let life = SignedDuration::from_hours(i64::from(self.days) * 24);
        Terms { keys, now, life, renew: false, threads }
    }
}

/// `capgate publish`
#[derive(Debug, Args)]
#[command(
    after_help = "Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate publish --all --key alice.key --registry-key registry.key\n  \
    capgate publish --note m1-ultra.note --registry-key registry.key"
)]
pub struct PublishArgs {
    /// Ids of profiles to publish
    #[arg(value_name = "ID", required_unless_present_any = ["all", "from", "note"], conflicts_with = "all")]
    pub ids: Vec<String>,
    /// Publish every profile
    #[arg(long)]
    pub all: bool,
    /// Publish what this other registry says, revocations included: a URL, or a folder
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["ids", "all", "evidence"])]
    pub from: Option<String>,
    /// Publish this profile note, which enough publishers have signed with `capgate sign`; give it once for each, and
    /// for each signed copy
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ids", "all", "from"])]
    pub note: Vec<PathBuf>,
    /// Private key of a publisher, a file or `agent:NAME`; give it once for each
    #[arg(long, value_name = "KEY", required_unless_present = "note", conflicts_with = "note")]
    pub key: Vec<KeyArg>,
    /// Digest of the other registry's first root; to be given once
    #[arg(long, value_name = "sha256:HEX", value_parser = parse_root, requires = "from")]
    pub from_root: Option<Hash>,
    /// Folder of the profiles
    #[arg(long, env = "CAPGATE_PROFILES", value_name = "DIR", default_value = "profiles.d")]
    pub profiles: PathBuf,
    /// Bundle that the profiles' evidence is from; it is judged again. Give it once for each
    #[arg(long, value_name = "DIR")]
    pub evidence: Vec<PathBuf>,
    /// Manifest of the bundle before it, where it has none of its own
    #[arg(long, value_name = "FILE", requires = "evidence")]
    pub manifest: Vec<PathBuf>,
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
    /// Where it goes
    #[command(flatten)]
    pub to: ToArgs,
    /// The keys
    #[command(flatten)]
    pub signing: SigningArgs,
    /// The witnesses
    #[command(flatten)]
    pub asked: AskedArgs,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SeverityWord {
    /// Wrong or stale
    Withdrawn,
    /// Wrong output or crashes: past grants are flagged too
    Harmful,
}

/// `capgate revoke`
#[derive(Debug, Args)]
#[command(
    after_help = "Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate revoke m1-ultra-25g76-25f84-llama-bench-b10167 --severity harmful \\\n      \
    --reason \"wrong answers with long prompts\" --key alice.key --registry-key registry.key"
)]
pub struct RevokeArgs {
    /// Id of the profile
    pub id: String,
    /// Why, in one line
    #[arg(long)]
    pub reason: String,
    /// How bad it is
    #[arg(long, value_enum)]
    pub severity: SeverityWord,
    /// Private key of a publisher, a file or `agent:NAME`; give it once for each
    #[arg(long, value_name = "KEY", required = true)]
    pub key: Vec<KeyArg>,
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
    /// Where it goes
    #[command(flatten)]
    pub to: ToArgs,
    /// The keys
    #[command(flatten)]
    pub signing: SigningArgs,
    /// The witnesses
    #[command(flatten)]
    pub asked: AskedArgs,
}

/// `capgate renew`
#[derive(Debug, Args)]
#[command(
    after_help = "Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate renew --registry-key registry.key"
)]
pub struct RenewArgs {
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
    /// Where it goes
    #[command(flatten)]
    pub to: ToArgs,
    /// Private key of the registry, a file or `agent:NAME`; give it once for each
    #[arg(long, value_name = "KEY", required = true)]
    pub registry_key: Vec<KeyArg>,
    /// Days until it must be renewed again
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    pub days: u16,
    /// The witnesses
    #[command(flatten)]
    pub asked: AskedArgs,
}

/// `capgate verify`
#[derive(Debug, Args)]
#[command(
    after_help = "Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give DIR and --root.\n\n\
    Example:\n  capgate verify registry"
)]
pub struct VerifyArgs {
    /// The registry: a folder, or a URL
    #[arg(value_name = "SOURCE", env = "CAPGATE_REGISTRY")]
    pub registry: String,
    /// Digest of its first root, as `init` printed it
    #[arg(long, env = "CAPGATE_ROOT", value_name = "sha256:HEX", value_parser = parse_root)]
    pub root: Hash,
    /// Audit only what came since this checkpoint, a copy of `log/checkpoint` that was kept earlier
    #[arg(long, value_name = "FILE")]
    pub since: Option<PathBuf>,
    /// Take this as the time
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<Timestamp>,
}

/// A profile's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerdictWord {
    /// Values may be reported
    Override,
    /// Stock is what is wanted
    Stock,
}

/// `capgate list`
#[derive(Debug, Args)]
#[command(
    after_help = "Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate list --chip \"Apple M1 Ultra\""
)]
pub struct ListArgs {
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
    /// Only for this host chip
    #[arg(long)]
    pub chip: Option<String>,
    /// Only with this build of macOS, on host or guest
    #[arg(long, value_name = "BUILD")]
    pub os: Option<String>,
    /// Only for programs with this name or digest
    #[arg(long)]
    pub workload: Option<String>,
    /// Only with this verdict
    #[arg(long, value_enum)]
    pub verdict: Option<VerdictWord>,
    /// Revoked ones too
    #[arg(long)]
    pub revoked: bool,
}
