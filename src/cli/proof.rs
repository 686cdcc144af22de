//! Arguments of `capgate proof`.

use std::path::PathBuf;

use clap::Args;

use super::RegistryArgs;

/// `capgate proof`
#[derive(Debug, Args)]
#[command(
    after_help = "The file answers for this profile's combination alone, for as long as the registry that it is from would.\n\
    `lookup --registry FILE` asks it; the library asks `etc/capgate/proof` where a prefix holds no registry.\n\
    Set CAPGATE_REGISTRY and CAPGATE_ROOT, as `capgate init` prints them, or give --registry and --root.\n\n\
    Example:\n  capgate proof m1-ultra-25g76-25f84-llama-bench-b10167 --workload /opt/llama/llama-bench --out proof"
)]
pub struct ProofArgs {
    /// Id of the profile
    pub id: String,
    /// File to be written; it must not exist
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The program's executable file: it is known to the system by a digest that the profile may not hold, under which
    /// nothing may stand either
    #[arg(long, value_name = "PROGRAM")]
    pub workload: Vec<String>,
    /// The registry
    #[command(flatten)]
    pub registry: RegistryArgs,
}
