//! Arguments of `sign` and `key`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{KeyArg, RegistryArgs};

/// `capgate sign`
#[derive(Debug, Args)]
#[command(
    after_help = "It shows what it signs. Each publisher signs where their key is kept; of the registry it needs only the \
    folder `trust`.\n\
    Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate sign profiles.d/m1-ultra.toml --key alice.key --out m1-ultra.note\n  \
    capgate sign m1-ultra.note --key agent:bob.example"
)]
pub struct SignArgs {
    /// The profile, or its note with the signatures that it has so far
    #[arg(value_name = "PROFILE.toml|FILE.note")]
    pub file: PathBuf,
    /// Private key of a publisher, a file or `agent:NAME`; give it once for each
    #[arg(long, value_name = "KEY", required = true)]
    pub key: Vec<KeyArg>,
    /// Where the note goes: ID.note for a profile, and a note in its own place, unless it is said here. Signatures of the
    /// same profile that are there already stay
    #[arg(long, value_name = "FILE.note")]
    pub out: Option<PathBuf>,
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// `capgate key`
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Print the public line of a key that exists
    Show(KeyShowArgs),
}

/// `capgate key show`
#[derive(Debug, Args)]
#[command(
    after_help = "The line is for everyone: `init`, `trust add-key` and readers take it. Nothing secret is shown.\n\n\
    Example:\n  capgate key show alice.key\n  \
    capgate key show ~/.ssh/id_ed25519 --name alice.example\n  \
    capgate key show agent:alice@example.org --name alice.example"
)]
pub struct KeyShowArgs {
    /// A key file; or `agent:` and the comment, the fingerprint or the public line of a key in the ssh-agent
    #[arg(value_name = "FILE|agent:KEY")]
    pub key: String,
    /// Name that signatures will carry, for a key that has none of its own: of ssh-keygen, of openssl, in the agent
    #[arg(long)]
    pub name: Option<String>,
}
