//! `--also`: programs that load the same images, started once in each arm. They have no samples; what counts is that the
//! library was active in them and that they answer the same.

use std::path::PathBuf;

use capgate_guest::identity;
use capgate_registry::evidence::bench::label;
use capgate_registry::evidence::bench::state::Also;
use capgate_registry::evidence::manifest::Arm;
use capgate_registry::evidence::run_record::mask;

use super::Bench;
use super::arms::{Identity, Subject};
use super::commands::command;
use super::measure::{Eyes, Halt};
use crate::cmd::run::program;
use crate::exit::{Exit, Failure};
use crate::world::file;

/// Most bytes of a log that are searched for a version.
const MAX_LOG: u64 = 8 << 20;

/// Another program, found before anything is measured.
#[derive(Debug)]
pub struct Other {
    path: PathBuf,
    words: Vec<String>,
    also: Also,
}

/// The programs that were named, each with its words.
pub fn find(texts: &[String], model: &str) -> Result<Vec<Other>, Failure> {
    texts.iter().map(|text| Other::find(text, model)).collect()
}

impl Other {
    fn find(text: &str, model: &str) -> Result<Self, Failure> {
        let mut words = split(text).into_iter();
        let name = words.next().ok_or_else(|| Failure::usage("`--also` names no program"))?;
        let words: Vec<String> = words.collect();
        if !words.iter().any(|word| word == model) {
            return Err(Failure::usage(format!("`--also {text}` does not load `{model}`"))
                .help("give it the same model: its profile names the one that was measured"));
        }
        let failed = |failure: Failure| Failure { exit: Exit::Failed, ..failure };
        let found = program::find(name.as_ref()).map_err(failed)?;
        let identity = identity::of_file(&found.identified)
            .map_err(|e| Failure::failed(format!("`{}` {e}", found.identified.display())))?;
        let file = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let also = Also {
            program: file,
            version: None,
            sha256: identity.sha256.to_string(),
            cdhash: identity.own_cdhash().map(|hash| hash.to_string()),
            words: mask::arguments(&words).0,
            runs: Vec::new(),
        };
        Ok(Self { path: found.path, words, also })
    }
}

impl Bench<'_> {
    /// Starts each other program once in each arm with a GPU that is not given up yet.
    pub(super) fn run_others(&mut self, others: Vec<Other>, eyes: &mut Eyes<'_>) -> Result<(), Halt> {
        for (index, other) in others.into_iter().enumerate() {
            // A bundle that is gone on with has the first of them already.
            if index >= self.state.also.len() {
                self.run_other(other, index, eyes)?;
            }
        }
        Ok(())
    }

    fn run_other(&mut self, other: Other, index: usize, eyes: &mut Eyes<'_>) -> Result<(), Halt> {
        let Other { path, words, mut also } = other;
        let subject = Subject { program: &path, words: &words, sha256: &also.sha256 };
        let identity: Identity = self.ask(&subject, eyes)?;
        self.bundle.begin_round()?;
        let folder = format!("also/{:02}", index + 1);
        for arm in self.state.running_arms() {
            let values = match arm {
                Arm::Stock => None,
                Arm::Override(values) => Some(values),
                Arm::Cpu | Arm::Host => continue,
            };
            let name = label::label(arm);
            let trial = values.map(|values| self.trial(Some(values), Some(&identity))).transpose()?;
            let mut command = command(&path, &words, trial.as_ref());
            let mut run = eyes.run_recorded(&self.bundle, &name, "txt", &mut command, &self.recorded())?;
            if let Some(trial) = &trial {
                self.keep_decisions(&name, trial)?;
            }
            let log = file::read(&self.bundle.current(&run.log), MAX_LOG).unwrap_or_default();
            also.version = also.version.or_else(|| version(&String::from_utf8_lossy(&log)));
            if !run.is_good() {
                self.ui.warn(format!("`{}` {} in the {arm} arm", also.program, run.ending()));
            }
            run.output = format!("{folder}/{}", run.output);
            run.log = format!("{folder}/{}", run.log);
            run.record = run.record.map(|record| format!("{folder}/{record}"));
            also.runs.push(run);
        }
        self.bundle.keep_round(&folder)?;
        self.state.also.push(also);
        self.bundle.save(&self.state)?;
        Ok(())
    }
}

/// The build that programs of llama.cpp print: `build: 10167 (ee3d1b5)`, behind whatever a logger puts before it.
fn version(log: &str) -> Option<String> {
    log.lines().find_map(|line| {
        let (_, rest) = line.split_once("build: ")?;
        let (number, commit) = rest.split_once(' ')?;
        commit
            .starts_with('(')
            .then(|| number.parse::<u32>().ok())
            .flatten()
            .map(|number| format!("b{number}"))
    })
}

/// Words apart by spaces; single quotes keep some together.
fn split(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_versions_are_found() {
        assert_eq!(
            split("llama-cli -m 'my model.gguf'  -n 8"),
            ["llama-cli", "-m", "my model.gguf", "-n", "8"]
        );
        assert_eq!(version("x\n0.00.1.2 I build: 10167 (ee3d1b5) with cc\n").as_deref(), Some("b10167"));
        assert_eq!(version("build: none\nbuild: 1\n"), None);
    }
}
