//! Arguments of the commands by which a log's growth is witnessed.

use std::net::SocketAddr;
use std::path::PathBuf;

use capgate_registry::keys::VerifierKey;
use capgate_registry::merkle::Hash;
use capgate_registry::witness::WitnessKey;
use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::maintain::parse_root;
use super::{KeyArg, RegistryArgs, ToArgs};

/// `capgate witness …`
#[derive(Debug, Subcommand)]
pub enum WitnessCommand {
    /// Make the folder in which a witness remembers what it cosigned
    Init(WitnessInitArgs),
    /// Answer logs that ask for cosignatures
    Serve(WitnessServeArgs),
    /// Cosign what a registry says now, and print the cosignature
    Cosign(WitnessCosignArgs),
    /// Say what a witness cosigned last
    Status(WitnessStatusArgs),
    /// Ask witnesses to cosign a registry of one's own
    Ask(WitnessAskArgs),
}

/// A witness: its key and its memory.
#[derive(Debug, Args)]
pub struct WitnessArgs {
    /// Folder in which it remembers what it cosigned
    #[arg(long, value_name = "DIR")]
    pub state: PathBuf,
    /// Its private key
    #[arg(long, value_name = "FILE|agent:NAME")]
    pub key: KeyArg,
}

/// `capgate witness init`
#[derive(Debug, Args)]
#[command(
    after_help = "Once, when the key is new: a key whose memory is lost must be replaced, never used with an empty one.\n\n\
    Example:\n  capgate witness init --state witness --key witness.key"
)]
pub struct WitnessInitArgs {
    /// The witness
    #[command(flatten)]
    pub witness: WitnessArgs,
}

/// `capgate witness serve`
#[derive(Debug, Args)]
#[command(
    after_help = "It speaks C2SP tlog-witness (`POST /add-checkpoint`), without encryption: put a web server before it.\n\
    It ends on SIGTERM or SIGINT, and loses nothing when it is killed.\n\n\
    Example:\n  capgate witness serve --state witness --key witness.key --registry mirror --root sha256:1111111111111111111111111111111111111111111111111111111111111111"
)]
pub struct WitnessServeArgs {
    /// The witness
    #[command(flatten)]
    pub witness: WitnessArgs,
    /// Where it listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8473")]
    pub listen: SocketAddr,
    /// A log that it watches, by a public key of it, whose name is the log's; give it once for each
    #[arg(long, value_name = "KEY", required_unless_present = "registry")]
    pub log: Vec<VerifierKey>,
    /// A copy of a registry whose log it watches, by the registry keys of the trust there; a rotation counts once the copy
    /// has it
    #[arg(long, value_name = "DIR", requires = "root")]
    pub registry: Option<PathBuf>,
    /// Digest of that registry's first root
    #[arg(long, value_name = "sha256:HEX", value_parser = parse_root, requires = "registry")]
    pub root: Option<Hash>,
}

/// `capgate witness cosign`
#[derive(Debug, Args)]
#[command(
    after_help = "The line that it prints is for the registry's maintainers: `capgate witness ask --lines FILE`.\n\n\
    Example:\n  capgate witness cosign mirror --root sha256:1111111111111111111111111111111111111111111111111111111111111111 --state witness --key witness.key"
)]
pub struct WitnessCosignArgs {
    /// The registry: a folder, or a URL
    #[arg(value_name = "SOURCE")]
    pub source: String,
    /// Digest of its first root
    #[arg(long, env = "CAPGATE_ROOT", value_name = "sha256:HEX", value_parser = parse_root)]
    pub root: Hash,
    /// The witness
    #[command(flatten)]
    pub witness: WitnessArgs,
    /// Take this as the time
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<Timestamp>,
}

/// `capgate witness status`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  capgate witness status --state witness")]
pub struct WitnessStatusArgs {
    /// Folder in which the witness remembers what it cosigned
    #[arg(long, value_name = "DIR")]
    pub state: PathBuf,
}

/// Witnesses that are asked.
#[derive(Debug, Args)]
pub struct AskedArgs {
    /// Ask the witness at this address, behind which `/add-checkpoint` is; give it once for each
    #[arg(long, value_name = "URL", requires = "witness_key")]
    pub witness: Vec<String>,
    /// Public key of a witness, whose cosignature is taken; give it once for each
    #[arg(long, value_name = "KEY")]
    pub witness_key: Vec<WitnessKey>,
}

/// `capgate witness ask`
#[derive(Debug, Args)]
#[command(
    after_help = "Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate witness ask --witness https://witness.example.org \\\n      \
    --witness-key witness.example.org+9c67126f+BCDQuKym0znEYeUc4pd9nyYdFFnJxr3ZOb7S5diRPFw+"
)]
pub struct WitnessAskArgs {
    /// Who is asked
    #[command(flatten)]
    pub asked: AskedArgs,
    /// Take the cosignatures in this file, as `capgate witness cosign` printed them; give it once for each
    #[arg(long, value_name = "FILE", requires = "witness_key")]
    pub lines: Vec<PathBuf>,
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
    /// Where it goes
    #[command(flatten)]
    pub to: ToArgs,
}
