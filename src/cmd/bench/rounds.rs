//! The rounds: each arm once in each, in balanced order, and a contended round not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use capgate_registry::evidence::bench::contention::{Window, causes, window};
use capgate_registry::evidence::bench::state::{Discarded, Failed, Round};
use capgate_registry::evidence::bench::{label, order};
use capgate_registry::evidence::manifest::Arm;
use indicatif::ProgressBar;

use super::Bench;
use super::measure::{Eyes, Halt};
use super::trial::Trial;
use crate::exit::Failure;
use crate::ui::progress;
use crate::world::load::Watch;
use crate::world::signals::Stop;

/// How long the machine is looked at before a round: parts, and the length of each.
const BEFORE: (u32, Duration) = (2, Duration::from_millis(500));
/// How long to wait where it was busy then.
const CALM_DOWN: Duration = Duration::from_secs(2);

impl Bench<'_> {
    /// Warm-up and rounds, as far as they are not done yet.
    pub(super) fn measure(&mut self, stop: &Stop) -> Result<(), Halt> {
        let mut watch = Watch::new(self.args.readings.as_deref());
        let timeout = Duration::from_secs(self.state.settings.timeout);
        let mut eyes = Eyes { stop, watch: &mut watch, readings: Vec::new(), timeout };
        self.warm_up(&mut eyes)?;
        let bar = progress::rounds(self.state.settings.rounds);
        let mut contended = 0;
        while self.state.rounds.len() < self.state.settings.rounds && self.can_compare() {
            bar.set_position(self.state.rounds.len() as u64);
            if self.round(&mut eyes, &bar)? {
                continue;
            }
            contended += 1;
            if contended > self.args.retries {
                return Err(self.too_busy().into());
            }
        }
        bar.finish_and_clear();
        let checks = std::mem::take(&mut self.checks);
        self.run_checks(checks, &mut eyes)?;
        let others = std::mem::take(&mut self.others);
        self.run_others(others, &mut eyes)
    }

    /// Stock and something to compare with, or the one arm that a host has.
    fn can_compare(&self) -> bool {
        let arms = self.state.running_arms();
        arms == [Arm::Host] || (arms.contains(&Arm::Stock) && arms.len() > 1)
    }

    /// One round; false where it was contended.
    fn round(&mut self, eyes: &mut Eyes<'_>, bar: &ProgressBar) -> Result<bool, Halt> {
        let number = self.state.rounds.len() + 1;
        let arms = order::of_round(&self.state.running_arms(), number - 1);
        // Trials are made first: writing them must not disturb anyone.
        let trials = self.trials(&arms)?;
        eyes.readings.clear();
        eyes.rest(BEFORE.0, BEFORE.1)?;
        let before = window(&eyes.readings);
        let mut round = Round { number, runs: Vec::new(), before, during: None };
        let reasons = reasons(before.as_ref());
        if !reasons.is_empty() {
            bar.set_message("waiting");
            self.discard(round, reasons)?;
            eyes.pause(CALM_DOWN)?;
            return Ok(false);
        }
        self.bundle.begin_round()?;
        eyes.readings.clear();
        for arm in arms {
            bar.set_message(arm.to_string());
            let name = label::label(arm);
            let trial = trials.get(&arm);
            let run = eyes.run(&self.bundle, &name, "json", &mut self.command(arm, trial), &mut || false)?;
            if let Some(trial) = trial {
                self.keep_decisions(&name, trial)?;
            }
            self.learn(&run);
            round.runs.push(run);
        }
        round.during = window(&eyes.readings);
        drop(trials);
        for run in round.runs.iter().filter(|run| !run.is_good()) {
            let why = run.ending();
            self.ui.warn(format!("the arm `{}` {why} in round {number}, and is not started again", run.arm));
            self.state.failed.push(Failed { arm: run.arm.clone(), round: number, why });
        }
        let reasons = self::reasons(round.during.as_ref());
        if reasons.is_empty() {
            self.keep(round)?;
            return Ok(true);
        }
        self.discard(round, reasons)?;
        Ok(false)
    }

    fn trials(&self, arms: &[Arm]) -> Result<BTreeMap<Arm, Trial>, Failure> {
        let overrides = arms.iter().filter_map(|arm| match arm {
            Arm::Override(values) => Some((*arm, *values)),
            _ => None,
        });
        overrides.map(|(arm, values)| Ok((arm, self.trial(Some(values), self.known_identity())?))).collect()
    }

    fn keep(&mut self, mut round: Round) -> Result<(), Failure> {
        let name = format!("rounds/{:02}", round.number);
        self.place(&mut round, &name)?;
        self.state.rounds.push(round);
        self.bundle.save(&self.state)
    }

    /// The whole of it goes: whoever keeps a part of a contended round picks samples.
    fn discard(&mut self, mut round: Round, reasons: Vec<String>) -> Result<(), Failure> {
        let text = reasons.join(", ");
        self.ui.warn(format!("round {} is discarded: {text}", round.number));
        if !round.runs.is_empty() {
            let name = format!("discarded/{:03}", self.state.discarded.len() + 1);
            self.place(&mut round, &name)?;
        }
        self.state.discarded.push(Discarded { round, reasons });
        self.bundle.save(&self.state)
    }

    fn place(&self, round: &mut Round, name: &str) -> Result<(), Failure> {
        self.bundle.keep_round(name)?;
        for run in &mut round.runs {
            run.output = format!("{name}/{}", run.output);
            run.log = format!("{name}/{}", run.log);
        }
        Ok(())
    }

    fn too_busy(&self) -> Failure {
        let last = self.state.discarded.last().map_or_else(String::new, |last| last.reasons.join(", "));
        let message = format!(
            "this machine is too busy: {} rounds were discarded, the last since {last}",
            self.state.discarded.len()
        );
        let root = self.bundle.root().display();
        Failure::failed(message).help(format!(
            "end what else runs, then `capgate bench --resume {root} -- …` goes on with the bundle"
        ))
    }
}

fn reasons(window: Option<&Window>) -> Vec<String> {
    window.map(causes).unwrap_or_default().iter().map(ToString::to_string).collect()
}
