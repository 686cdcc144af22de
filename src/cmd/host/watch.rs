//! `--watch`: a new statement in good time before the last one ends, until the process is asked to end.

use jiff::{SignedDuration, Timestamp};

use super::attest::Job;
use crate::exit::{Exit, Failure, Outcome};
use crate::ui::Ui;
use crate::world::signals::{Stop, Woken};

/// After a failed write the next try comes sooner than the next statement would.
const SOON: SignedDuration = SignedDuration::from_mins(1);

/// Renews until it is asked to end. A write that fails is said and tried again; the statement before it still counts.
pub fn renew(ui: &Ui, job: &Job<'_>, stop: &Stop) -> Outcome {
    let mut pause = job.args.every;
    loop {
        // From the end of a write on, so that a slow disk is never written to without a pause.
        let next = Timestamp::now().saturating_add(pause).unwrap_or(Timestamp::MAX);
        let woken = stop.wait(next);
        match woken.map_err(|e| Failure::failed(format!("the time cannot be waited for: {e}")))? {
            Woken::Stopped => return Ok(Exit::Done),
            Woken::Time => {}
        }
        pause = match job.write() {
            Ok(_) => job.args.every,
            Err(failure) => {
                ui.failure(&failure);
                job.args.every.min(SOON)
            }
        };
    }
}
