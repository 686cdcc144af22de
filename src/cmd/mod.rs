//! One file for each command.

mod audit;
mod bench;
mod carry;
mod completions;
mod demo;
mod doctor;
mod evidence;
mod explain;
mod handed;
mod held;
mod history;
mod host;
mod init;
mod install;
mod key;
mod keygen;
mod keys;
mod launch_agent;
mod lint;
mod list;
mod lookup;
mod man;
mod noted;
mod opened;
mod plan;
mod policy;
mod prefix;
mod probe;
mod proof;
mod publish;
mod published;
mod record;
mod renew;
mod revoke;
mod run;
mod scene;
mod sign;
mod spool;
mod sync;
mod trust;
mod uninstall;
mod verify;
mod witness;

use crate::cli::{
    AuditCommand, Command, EvidenceCommand, HostCommand, KeyCommand, LaunchAgentCommand, PolicyCommand,
    RecordCommand, TrustCommand, WitnessCommand,
};
use crate::exit::Outcome;
use crate::ui::Ui;

/// Runs a command.
pub fn dispatch(ui: &Ui, command: Command) -> Outcome {
    match command {
        Command::Keygen(args) => keygen::run(ui, &args),
        Command::Key(KeyCommand::Show(args)) => key::show(ui, &args),
        Command::Init(args) => init::run(ui, &args),
        Command::Lint(args) => lint::run(ui, &args),
        Command::Evidence(EvidenceCommand::Check(args)) => evidence::check(ui, &args),
        Command::Evidence(EvidenceCommand::Inspect(args)) => evidence::inspect(ui, &args),
        Command::Evidence(EvidenceCommand::Draft(args)) => evidence::draft(ui, &args),
        Command::Evidence(EvidenceCommand::Merge(args)) => bench::merge(ui, &args),
        Command::Sign(args) => sign::run(ui, &args),
        Command::Publish(args) => publish::run(ui, &args),
        Command::Revoke(args) => revoke::run(ui, &args),
        Command::Renew(args) => renew::run(ui, &args),
        Command::Trust(TrustCommand::Show(args)) => trust::show(ui, &args),
        Command::Trust(TrustCommand::Draft(args)) => trust::draft(ui, &args),
        Command::Trust(TrustCommand::AddKey(args)) => trust::add_key(ui, &args),
        Command::Trust(TrustCommand::RemoveKey(args)) => trust::remove_key(ui, &args),
        Command::Trust(TrustCommand::Compromised(args)) => trust::compromised(ui, &args),
        Command::Trust(TrustCommand::Sign(args)) => trust::sign(ui, &args),
        Command::Trust(TrustCommand::Rotate(args)) => trust::rotate(ui, &args),
        Command::Sync(args) => sync::run(ui, &args),
        Command::Verify(args) => verify::run(ui, &args),
        Command::Witness(WitnessCommand::Init(args)) => witness::init(ui, &args),
        Command::Witness(WitnessCommand::Serve(args)) => witness::serve(ui, &args),
        Command::Witness(WitnessCommand::Cosign(args)) => witness::cosign(ui, &args),
        Command::Witness(WitnessCommand::Status(args)) => witness::status(ui, &args),
        Command::Witness(WitnessCommand::Ask(args)) => witness::ask(ui, &args),
        Command::Proof(args) => proof::run(ui, &args),
        Command::List(args) => list::run(ui, &args),
        Command::Lookup(args) => lookup::run(ui, &args),
        Command::Explain(args) => explain::run(ui, &args),
        Command::Probe(_) => probe::run(ui),
        Command::Doctor(args) => doctor::run(ui, &args),
        Command::Run(args) => run::run(ui, &args),
        Command::Bench(args) => bench::run(ui, &args),
        Command::Record(args) => match args.command {
            Some(RecordCommand::Show(args)) => record::show(ui, &args),
            Some(RecordCommand::Diff(args)) => record::diff(ui, &args),
            None => record::run(ui, &args),
        },
        Command::Install(args) => install::run(ui, &args),
        Command::Uninstall(args) => uninstall::run(ui, &args),
        Command::LaunchAgent(LaunchAgentCommand::Write(args)) => launch_agent::write(ui, &args),
        Command::LaunchAgent(LaunchAgentCommand::Check(args)) => launch_agent::check(ui, &args),
        Command::LaunchAgent(LaunchAgentCommand::Remove(args)) => launch_agent::remove(ui, &args),
        Command::Host(HostCommand::Attest(args)) => host::attest(ui, &args),
        Command::Host(HostCommand::Verify(args)) => host::verify(ui, &args),
        Command::Policy(PolicyCommand::Check(args)) => policy::check(ui, &args),
        Command::Audit(AuditCommand::List(args)) => audit::list(ui, &args),
        Command::Demo(args) => demo::run(ui, &args),
        Command::Completions(args) => completions::run(ui, &args),
        Command::Man(args) => man::run(ui, &args),
    }
}
