//! Arguments of the commands that judge evidence.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `capgate evidence`
#[derive(Debug, Subcommand)]
pub enum EvidenceCommand {
    /// Judge a bundle
    Check(BundleArgs),
    /// Say what single files are
    Inspect(InspectArgs),
    /// Write the profiles that a bundle supports
    Draft(DraftArgs),
    /// Join what `capgate bench` measured in a guest and on its host
    Merge(MergeArgs),
}

/// `capgate evidence check`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate evidence check bundle --manifest bundle.toml")]
pub struct BundleArgs {
    /// Folder of the bundle
    #[arg(value_name = "BUNDLE")]
    pub bundle: PathBuf,
    /// Manifest, where the bundle holds no `bundle.toml`
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
}

/// `capgate evidence inspect`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate evidence inspect stock.json override.stderr.log")]
pub struct InspectArgs {
    /// Files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

/// `capgate evidence draft`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate evidence draft bundle --manifest bundle.toml --out profiles.d")]
pub struct DraftArgs {
    /// The bundle
    #[command(flatten)]
    pub bundle: BundleArgs,
    /// Folder for one file each; nothing that exists is replaced. Without it they are printed
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// `capgate evidence merge`
#[derive(Debug, Args)]
#[command(
    after_help = "Build, program, model, settings and the host's build must be the same; what differs is named.\n\n\
    Example:\n  capgate evidence merge guest-bundle host-bundle --out bundle"
)]
pub struct MergeArgs {
    /// Bundle of a guest
    #[arg(value_name = "GUEST")]
    pub guest: PathBuf,
    /// Bundle of its host, made with `capgate bench --host`
    #[arg(value_name = "HOST")]
    pub host: PathBuf,
    /// Folder for the joined bundle; made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}
