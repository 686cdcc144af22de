//! Arguments of the command that measures.

use std::path::PathBuf;

use capgate_registry::merkle::Hash;
use capgate_registry::profile::Values;
use clap::Args;
use jiff::Timestamp;

use super::maintain::parse_root;

/// `capgate bench`
#[derive(Debug, Args)]
#[command(
    after_help = "The program is started once for each arm in each round, in turn; docs/bench.md says how, and what counts as \
    contention.\n\
    Exit codes: 0 judged; 1 it could not run, or was interrupted; 2 usage; 3 the trial was refused; 4 the evidence is refused.\n\n\
    Example:\n  capgate bench --override 1007/32768 --cpu --out bundle -- llama-bench -m tiny.gguf -p 512 -n 128"
)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct BenchArgs {
    /// Take arguments and values from a published profile; needs a registry
    #[arg(long, value_name = "ID")]
    pub from: Option<String>,
    /// An arm with these values, which nobody needs to have tested; give it once for each
    #[arg(long = "override", value_name = "FAMILY/MEMORY", value_parser = parse_values)]
    pub overrides: Vec<Values>,
    /// An arm without the GPU
    #[arg(long)]
    pub cpu: bool,
    /// Another program that loads the same images, with its words: run once in each arm for its output; give it once for each
    #[arg(long, value_name = "COMMAND")]
    pub also: Vec<String>,
    /// Test in each arm whether the answers are right, too; docs/correctness.md says how
    #[arg(long)]
    pub correctness: bool,
    /// test-backend-ops; without it, the one beside the measured program
    #[arg(long, value_name = "PROGRAM", requires = "correctness")]
    pub ops: Option<PathBuf>,
    /// llama-completion, for greedy answers; without it, the one beside the measured program
    #[arg(long, value_name = "PROGRAM", requires = "correctness")]
    pub greedy: Option<PathBuf>,
    /// Prompts to answer, one a line; without it, a few of its own
    #[arg(long, value_name = "FILE", requires = "correctness")]
    pub prompts: Option<PathBuf>,
    /// A text over which llama-perplexity runs the model; it needs at least 1,024 tokens
    #[arg(long, value_name = "FILE", requires = "correctness")]
    pub text: Option<PathBuf>,
    /// llama-perplexity; without it, the one beside the measured program
    #[arg(long, value_name = "PROGRAM", requires = "text")]
    pub perplexity: Option<PathBuf>,
    /// Words for test-backend-ops, for example `-o MUL_MAT`; without them, every operation
    #[arg(long, value_name = "WORDS", requires = "correctness", allow_hyphen_values = true)]
    pub ops_words: Option<String>,
    /// Rounds that count
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=60))]
    pub rounds: u16,
    /// Folder for the bundle; made if it does not exist
    #[arg(long, value_name = "DIR", required_unless_present = "resume")]
    pub out: Option<PathBuf>,
    /// Go on with a bundle that is not complete
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "from", "overrides", "cpu", "ladder", "host"])]
    pub resume: Option<PathBuf>,
    /// Measure on the Mac itself; `capgate evidence merge` joins it with what a guest measured
    #[arg(long, conflicts_with_all = ["overrides", "ladder", "cpu"])]
    pub host: bool,
    /// Try every set from small to large, and name the least that is as good as the best
    #[arg(long)]
    pub ladder: bool,
    /// Seconds that one process may take
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub timeout: u32,
    /// How often a contended round is measured again
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=200))]
    pub retries: u16,
    /// What this machine cannot say: the tables `host` and `guest` of a manifest
    #[arg(long, value_name = "FILE")]
    pub machine: Option<PathBuf>,
    /// The library to insert; without it, the one beside this program
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Where capgate is installed, for its host statement; without it, the prefix that this program is in
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// The https:// address where the bundle will be read
    #[arg(long, value_name = "URL", value_parser = parse_source)]
    pub source: Option<String>,
    /// Folder of the registry that `--from` names a profile of
    #[arg(long, env = "CAPGATE_REGISTRY", value_name = "DIR")]
    pub registry: Option<PathBuf>,
    /// Digest of its first root
    #[arg(long, env = "CAPGATE_ROOT", value_name = "sha256:HEX", value_parser = parse_root)]
    pub root: Option<Hash>,
    /// Take this as the time when the registry is judged
    #[arg(long, value_name = "RFC3339")]
    pub now: Option<Timestamp>,
    /// Read how busy the machine is from this folder in place of `/`; the bundle says so
    #[arg(long, value_name = "DIR", hide = true)]
    pub readings: Option<PathBuf>,
    /// llama-bench and its arguments, the same for every arm
    #[arg(last = true, value_name = "PROGRAM", required = true)]
    pub program: Vec<String>,
}

/// Reads `1007/32768`; what no registry may ever grant is not tried either.
fn parse_values(text: &str) -> Result<Values, String> {
    let numbers =
        text.split_once('/').and_then(|(family, memory)| Some((family.parse().ok()?, memory.parse().ok()?)));
    let (apple_family_max, max_threadgroup_memory) =
        numbers.ok_or("write it as FAMILY/MEMORY, for example 1007/32768")?;
    let values = Values { apple_family_max, max_threadgroup_memory };
    if values.within_bounds() {
        Ok(values)
    } else {
        Err("families 1001 to 1010 and threadgroup memory 32768 or 65536 only: nothing else can ever be granted".to_owned())
    }
}

fn parse_source(text: &str) -> Result<String, String> {
    if text.starts_with("https://") && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("name the https:// address where the bundle will be read".to_owned())
    }
}
