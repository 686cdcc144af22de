//! `capgate bench`: measures a program with and without values, fairly, and leaves a bundle that the judge of
//! `capgate evidence check` has judged.
//!
//! ```text
//! setup     what is measured, on what, in which arms; or the bundle that is gone on with
//! rounds    a warm-up of each arm, then rounds in balanced order; a contended one is discarded whole and measured again
//! finish    manifest, digests, verdict, drafts
//! ```
//!
//! Values that nobody tested are tried in [`trial`] alone.

mod also;
mod arms;
mod checks;
mod commands;
mod finish;
mod folder;
mod from;
mod machine;
mod measure;
mod merge;
mod rounds;
mod setup;
mod trial;

use std::path::PathBuf;

use capgate_registry::evidence::bench::state::State;
use capgate_registry::evidence::manifest::Host;

use crate::cli::BenchArgs;
use crate::exit::{Failure, Outcome};
use crate::ui::{Ui, count};
use crate::world::signals::Stop;
use folder::Bundle;
use measure::Halt;
use trial::Trials;

pub use folder::is_incomplete;
pub use merge::run as merge;

/// A benchmark that runs.
pub struct Bench<'a> {
    ui: &'a Ui,
    args: &'a BenchArgs,
    bundle: Bundle,
    state: State,
    /// The program's file.
    program: PathBuf,
    /// The words it is started with; those in the bundle are without secrets.
    words: Vec<String>,
    /// Other programs that are run once in each arm.
    others: Vec<also::Other>,
    /// Tests of correctness that are run once in each arm.
    checks: Vec<checks::Planned>,
    /// What override arms need.
    tried: Option<Tried>,
}

/// What is known for trials.
pub struct Tried {
    trials: Trials,
    library: PathBuf,
    host: Host,
    /// What the library says of the program, once it was asked.
    identity: Option<arms::Identity>,
    /// The guest's own answers: Apple family and threadgroup memory.
    stock: (Option<u64>, u64),
}

pub fn run(ui: &Ui, args: &BenchArgs) -> Outcome {
    let stop = Stop::listen().map_err(|e| Failure::failed(format!("signals cannot be waited for: {e}")))?;
    let left = Trials::sweep();
    if left > 0 {
        ui.warn(format!("{} of a bench that was killed: removed", count(left, "trial")));
    }
    let mut bench = setup::prepare(ui, args)?;
    match bench.measure(&stop) {
        Ok(()) => finish::finish(&bench),
        Err(Halt::Failure(failure)) => Err(failure),
        Err(Halt::Interrupted) => {
            let root = bench.bundle.root().display();
            let done = count(bench.state.rounds.len(), "round");
            Err(Failure::failed(format!("interrupted after {done}; the bundle is not complete"))
                .help(format!("capgate bench --resume {root} -- and the same command goes on")))
        }
    }
}
