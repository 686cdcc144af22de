//! What a Metal device answers, asked by a program that links Metal: this one does not.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use capgate_registry::evidence::probe::{self, Answer};

use crate::world::said;

/// How long a probe may take: a device is made in well under a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the probe as the command would run: same variables, same folder.
///
/// Errors: there is none, it cannot be run, or what it prints is no answer.
pub fn ask(command: &Command, probe: Option<&Path>) -> Result<Vec<Answer>, String> {
    let Some(path) = probe else {
        let why = if cfg!(target_os = "macos") {
            "no probe was given; name one with `--probe`"
        } else {
            "this system has no Metal, and no probe was given"
        };
        return Err(why.to_owned());
    };
    let path = std::path::absolute(path).map_err(|e| format!("`{}` {e}", path.display()))?;
    let mut asked = Command::new(&path);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => asked.env(name, value),
            None => asked.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        asked.current_dir(folder);
    }
    let shown = path.display();
    let (status, printed) = said::by(&mut asked, probe::MOST_BYTES as u64, PATIENCE)
        .map_err(|e| format!("the probe `{shown}` cannot be run: {e}"))?;
    match probe::read(&printed) {
        Some(probe) if status.success() => Ok(probe.answers),
        Some(_) => Err(format!("the probe `{shown}` ended with {status}")),
        None => Err(format!("the probe `{shown}` ended with {status} and printed no answer of a device")),
    }
}
