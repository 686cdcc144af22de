//! Stops the real `capgate` at each of its system calls while it changes a registry: killed there, or told that the
//! call failed. Whatever stands then must be the old registry or the new one, byte for byte, and the same command run
//! again must end with exactly the new one.
//!
//! `strace` counts calls for each thread; what the main thread does is what is counted here.

mod calls;
pub mod registry;

use std::fs;

use crate::command::{Run, scratch, target};
use registry::{Registry, State};

/// How a call is stopped.
#[derive(Clone, Copy, PartialEq)]
enum Stop {
    /// The process is killed as it enters the call.
    Kill,
    /// The call does nothing and returns an error.
    Fail,
}

impl Stop {
    fn inject(self) -> &'static str {
        match self {
            Self::Kill => "signal=SIGKILL",
            Self::Fail => "error=EIO",
        }
    }
}

/// Runs it for a publication, a revocation and a renewal.
pub fn check() -> Result<String, String> {
    let before = found("interrupt")?;
    let mut told = Vec::new();
    for step in registry::STEPS {
        told.push(stop_everywhere(&before, step)?);
        before.run(step)?;
    }
    Ok(told.join("; "))
}

/// Builds the command and makes a registry with it, in a folder of its own under the logs.
pub fn found(name: &str) -> Result<Registry, String> {
    Run::new("cargo").args("build --locked --workspace --bins").output(name, false)?;
    let program =
        fs::canonicalize(target().join("debug/capgate")).map_err(|e| format!("the program: {e}"))?;
    let folder = scratch().join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    Registry::found(&program, &folder)
}

/// Stops one command at each call that changes something.
fn stop_everywhere(before: &Registry, step: &str) -> Result<String, String> {
    let old = before.state()?;
    let finished = before.copy("finished")?;
    let calls = calls::list(&finished, step)?;
    let new = finished.state()?;
    if old == new || calls.len() < 10 {
        return Err(format!("`{step}` changes nothing, or strace did not see it: {} calls", calls.len()));
    }
    let (mut stopped, mut reached_new) = (0, 0);
    for (call, stop) in calls.iter().flat_map(|call| [(call, Stop::Kill), (call, Stop::Fail)]) {
        let registry = before.copy("stopped")?;
        let done = calls::stop(&registry, step, call, stop.inject())?;
        stopped += usize::from(!done);
        let whole = judge(&registry, step, (&old, &new), done);
        reached_new += usize::from(whole.map_err(|e| format!("`{step}`, {} at {call}: {e}", stop.inject()))?);
    }
    // A call that is never reached again stops nothing; that may happen to a few, not to many.
    if stopped * 10 < calls.len() * 2 * 7 {
        return Err(format!("`{step}` was stopped only {stopped} times at {} calls", calls.len()));
    }
    let word = step.split(' ').next().unwrap_or_default();
    Ok(format!("{word}: {} calls, stopped {stopped} times, {reached_new} of all ended new", calls.len()))
}

/// Checks what a stopped command left, then runs it again. Returns whether the new registry was already in force.
fn judge(registry: &Registry, step: &str, (old, new): (&State, &State), done: bool) -> Result<bool, String> {
    let found = registry.state()?;
    if found.latest != old.latest && found.latest != new.latest {
        return Err("latest.note is neither the old nor the new one".to_owned());
    }
    let is_new = found.latest == new.latest;
    let wanted = if is_new { new } else { old };
    if found.answers != wanted.answers {
        return Err(format!("lookups say {:?}, not {:?}", found.answers, wanted.answers));
    }
    if done && !is_new {
        return Err("the command said that it was done, and nothing had changed".to_owned());
    }
    registry.verify(true)?;
    // What was committed already may be refused the second time; it completes the rest all the same.
    let again = registry.run(step);
    if !is_new {
        again?;
    }
    registry.verify(false)?;
    let settled = registry.state()?;
    if settled.latest != new.latest || settled.answers != new.answers {
        // A renewal that was committed and is run again is one version further.
        let renewed = is_new && step.starts_with("renew") && settled.answers == new.answers;
        if !renewed {
            return Err("the same command again did not end with the new registry".to_owned());
        }
        return Ok(is_new);
    }
    if settled.files != new.files {
        return Err("the same command again left other files than an uninterrupted one".to_owned());
    }
    Ok(is_new)
}
