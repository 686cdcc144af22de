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
