//! The command line: types for clap, nothing else.

mod agent;
mod bench;
mod doctor;
mod evidence;
mod host;
mod key;
mod maintain;
mod place;
mod proof;
mod record;
mod run;
mod sign;
mod site;
mod sync;
mod trust;
mod witness;

use clap::{Parser, Subcommand, ValueEnum};

pub use agent::{
    AgentCheckArgs, AgentNameArgs, AgentRemoveArgs, AgentTaskArgs, AgentWriteArgs, LaunchAgentCommand,
};
pub use bench::BenchArgs;
pub use doctor::DoctorArgs;
pub use evidence::{BundleArgs, DraftArgs, EvidenceCommand, InspectArgs, MergeArgs};
pub use host::{AttestArgs, FeatureLevelWord, HostCommand, HostVerifyArgs};
pub use key::{AGENT, KeyArg};
pub use maintain::{
    InitArgs, KeygenArgs, LintArgs, ListArgs, PublishArgs, RegistryArgs, RenewArgs, RevokeArgs, SeverityWord,
    SigningArgs, ToArgs, VerdictWord, VerifyArgs,
};
pub use place::{InstallArgs, UninstallArgs};
pub use proof::ProofArgs;
pub use record::{RecordArgs, RecordCommand, RecordDiffArgs, RecordShowArgs};
pub use run::RunArgs;
pub use sign::{KeyCommand, KeyShowArgs, SignArgs};
pub use site::{
    AuditCommand, AuditListArgs, CompletionsArgs, Condition, DemoArgs, ExplainArgs, LookupArgs, ManArgs,
    OutcomeWord, PolicyCheckArgs, PolicyCommand, ProbeArgs, SceneArgs,
};
pub use sync::SyncArgs;
pub use trust::{
    EditArgs, RoleWord, TrustAddArgs, TrustCommand, TrustCompromisedArgs, TrustDraftArgs, TrustRemoveArgs,
    TrustRotateArgs, TrustShowArgs, TrustSignArgs,
};

pub use witness::{
    AskedArgs, WitnessArgs, WitnessAskArgs, WitnessCommand, WitnessCosignArgs, WitnessInitArgs,
    WitnessServeArgs, WitnessStatusArgs,
};

/// Signed registry, policy engine and audit log for GPU capability overrides in macOS guests
#[derive(Debug, Parser)]
#[command(name = "capgate", version, after_help = "Example:\n  capgate demo")]
pub struct Cli {
    /// How results are written
    #[arg(long, global = true, value_enum, default_value_t = Format::Human)]
    pub format: Format,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Human,
    /// For programs
    Json,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a signing key
    Keygen(KeygenArgs),
    /// Show a key that exists
    #[command(subcommand, after_help = "Example:\n  capgate key show alice.key")]
    Key(KeyCommand),
    /// Make a registry
    Init(InitArgs),
    /// Check profiles
    Lint(LintArgs),
    /// Judge evidence
    #[command(subcommand, after_help = "Example:\n  capgate evidence check bundle")]
    Evidence(EvidenceCommand),
    /// Sign a profile, so that several publishers can before it is published
    Sign(SignArgs),
    /// Sign profiles and put them in force
    Publish(PublishArgs),
    /// Take a published profile out of force
    Revoke(RevokeArgs),
    /// Sign again what is in force, so that it does not expire
    Renew(RenewArgs),
    /// Show and change who is trusted
    #[command(subcommand, after_help = "Example:\n  capgate trust show")]
    Trust(TrustCommand),
    /// Follow a registry that is published elsewhere
    Sync(SyncArgs),
    /// Check a whole registry, byte for byte
    Verify(VerifyArgs),
    /// Cosign how a log grows, so that nobody can be shown another history
    #[command(subcommand, after_help = "Example:\n  capgate witness status --state witness")]
    Witness(WitnessCommand),
    /// Write what answers for one profile into one file
    Proof(ProofArgs),
    /// List what is in force
    List(ListArgs),
    /// Ask what a program may see
    Lookup(LookupArgs),
    /// Explain a decision, or what an update would change
    Explain(ExplainArgs),
    /// Say what this machine is
    Probe(ProbeArgs),
    /// Say what stands between a program and tested answers
    Doctor(DoctorArgs),
    /// Start a program, with tested answers where they are granted
    Run(RunArgs),
    /// Measure a program with and without values that nobody has tested yet
    Bench(BenchArgs),
    /// Run a program unchanged, and record what the run was
    Record(RecordArgs),
    /// Put capgate on a guest
    Install(InstallArgs),
    /// Take it away again
    Uninstall(UninstallArgs),
    /// Start programs at login, each through `capgate run`
    #[command(subcommand, after_help = "Example:\n  capgate launch-agent check --name llama")]
    LaunchAgent(LaunchAgentCommand),
    /// Sign what a host is, and check what was signed
    #[command(subcommand, after_help = "Example:\n  capgate host verify host.note --prefix /opt/capgate")]
    Host(HostCommand),
    /// Check a site policy
    #[command(subcommand, after_help = "Example:\n  capgate policy check site.toml")]
    Policy(PolicyCommand),
    /// Read decision logs
    #[command(subcommand, after_help = "Example:\n  capgate audit list decisions.jsonl")]
    Audit(AuditCommand),
    /// Show all of it on a folder of its own
    Demo(DemoArgs),
    /// Write shell completions
    Completions(CompletionsArgs),
    /// Write manual pages
    Man(ManArgs),
}
