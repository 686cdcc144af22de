//! The command of each arm: the same program, words and environment, but for what makes the arm.

use std::path::PathBuf;
use std::process::Command;

use capgate_registry::evidence::bench::arguments::without_gpu;
use capgate_registry::evidence::manifest::Arm;

use super::Bench;
use super::trial::Trial;
use crate::cmd::run::environment::{Insertion, remove_stray};

/// Switches of the library's own, which must not reach an arm by chance.
const SWITCHES: [&str; 2] = ["CAPGATE_DISABLE", "CAPGATE_QUIET"];

impl Bench<'_> {
    /// The command of an arm; an override arm has its trial.
    pub(super) fn command(&self, arm: Arm, trial: Option<&Trial>) -> Command {
        let words = if arm == Arm::Cpu { without_gpu(&self.words) } else { self.words.clone() };
        command(&self.program, &words, trial)
    }
}

/// A command with the library of a trial inserted, where there is one.
pub(super) fn command(program: &PathBuf, words: &[String], trial: Option<&Trial>) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    remove_stray(&mut command);
    for name in SWITCHES {
        command.env_remove(name);
    }
    if let Some(trial) = trial {
        Insertion::own(trial.library()).apply(&mut command);
    }
    command
}
