//! `capgate witness cosign`: the same as `serve` does, for a registry that is at hand.

use std::path::Path;

use capgate_registry::reader::{Anchor, Seen, judge_age};
use capgate_registry::witness::{Refusal, Request};
use serde::Serialize;

use super::current::Current;
use super::memory::{Memory, NotCosigned};
use crate::cli::WitnessCosignArgs;
use crate::cmd::opened;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::clock;
use crate::world::source::Source;

#[derive(Serialize)]
struct Cosigned {
    origin: String,
    size: u64,
    line: String,
}

pub fn run(ui: &Ui, args: &WitnessCosignArgs) -> Outcome {
    let source = Source::open(&args.source)?;
    let doubted = |doubt| opened::doubted(&doubt, Path::new(&args.source));
    let current = Current::read(source.store(), &args.root).map_err(doubted)?;
    let now = clock::now(args.now);
    let anchor = Anchor { pin: args.root, seen: Seen::default(), now };
    judge_age(&current.latest, &current.chain, &anchor).map_err(doubted)?;
    let mut memory = Memory::open(&args.witness)?;
    refuse_retired(&current, &mut memory, &args.source)?;
    let held = memory.held(current.chain.origin().as_str()).map_err(|e| failed(&e, args))?;
    let old = held.map_or(0, |held| held.checkpoint.size);
    // A smaller log is refused below; there is no proof to be made for it.
    let proof = if old <= current.size { current.proof(old).map_err(doubted)? } else { Vec::new() };
    let request = Request::parse(&Request::encode(old, &proof, &current.checkpoint))
        .map_err(|e| Failure::invalid(format!("{}: {e}", args.source)))?;
    let line =
        memory.cosign(&request, &current.chain.current().registry, now).map_err(|e| failed(&e, args))?;
    let origin = current.chain.origin().to_string();
    if ui.is_json() {
        ui.json(&Cosigned { origin, size: current.size, line: line.trim_end().to_owned() });
    } else {
        ui.stdout(&line);
        ui.hint(format!(
            "{origin}: {} entries are cosigned; the line above is for its maintainers",
            current.size
        ));
    }
    Ok(Exit::Done)
}

/// Keys that were taken out sign no growth any more, wherever the version that took them out was met.
fn refuse_retired(current: &Current<'_>, memory: &mut Memory, source: &str) -> Result<(), Failure> {
    let met = memory
        .meet_trust(current.chain.origin().as_str(), current.newest)
        .map_err(|e| Failure::failed(e.to_string()))?;
    let version = current.latest.trust;
    if version >= met {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "{source}: trust version {version} signs it, and version {met} is there already"
    ))
    .help("cosign it when the newer version is in force: its maintainer must run `capgate renew`"))
}

fn failed(error: &NotCosigned, args: &WitnessCosignArgs) -> Failure {
    let message = format!("{}: {error}", args.source);
    match error {
        NotCosigned::Memory(_) => Failure::failed(message)
            .help("a witness whose memory is damaged must be replaced by one with a new key"),
        NotCosigned::Key(_) => Failure::failed(message),
        NotCosigned::Refused(Refusal::Backwards { .. }) => Failure::invalid(message)
            .help("the registry is older than what was cosigned: bring it up to date"),
        NotCosigned::Refused(Refusal::Split { .. } | Refusal::Inconsistent { .. }) => Failure::invalid(
            message,
        )
        .help("show this to other users of the registry: its log says different things to different people"),
        NotCosigned::Refused(_) => Failure::invalid(message),
    }
}
