//! Before the first round: what the library itself says of program and machine, and one start of each arm apart.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use capgate_policy::line::{Line, Stage};
use capgate_registry::combination::{CdHash, Sha256Digest};
use capgate_registry::evidence::bench::label;
use capgate_registry::evidence::bench::state::{Build, Failed, Ran, machine_text};
use capgate_registry::evidence::bench::trial::Trial as TrialProfile;
use capgate_registry::evidence::llama_bench;
use capgate_registry::evidence::manifest::Arm;
use capgate_registry::profile::Values;

use super::commands::command;
use super::measure::{Eyes, Halt};
use super::trial::{Plan, Trial};
use super::{Bench, Tried};
use crate::cmd::record::Options;
use crate::exit::{Exit, Failure};
use crate::world::file;

/// How long a program may take until the library in it has decided.
const PATIENCE: Duration = Duration::from_secs(60);
/// The round of the processes that run before the first.
const WARM_UP: &str = "warm-up";

/// The program as the library in it knows it: what a profile must name to be for it.
#[derive(Debug, Clone)]
pub struct Identity {
    sha256: Option<Sha256Digest>,
    cdhash: Option<CdHash>,
}

/// What a trial is about: a program as it will be started.
#[derive(Debug)]
pub struct Subject<'a> {
    pub program: &'a PathBuf,
    pub words: &'a [String],
    /// SHA-256 of its file, as it was hashed here.
    pub sha256: &'a str,
}

impl Bench<'_> {
    /// Starts each arm once. It is no sample: caches fill, and what is wrong shows itself before an hour is spent.
    pub(super) fn warm_up(&mut self, eyes: &mut Eyes<'_>) -> Result<(), Halt> {
        self.identify(eyes)?;
        if !self.state.warm_ups.is_empty() {
            return Ok(());
        }
        self.bundle.begin_round()?;
        let mut runs = Vec::new();
        for arm in self.state.running_arms() {
            let mut run = self.warm_up_arm(arm, eyes)?;
            self.learn(&run);
            run.output = format!("{WARM_UP}/{}", run.output);
            run.log = format!("{WARM_UP}/{}", run.log);
            run.record = run.record.map(|record| format!("{WARM_UP}/{record}"));
            if !run.is_good() {
                let why = run.ending();
                self.ui.warn(format!("the {arm} arm {why} in its warm-up, and is not started again"));
                self.state.failed.push(Failed { arm: label::label(arm), round: 0, why });
            }
            runs.push(run);
        }
        self.bundle.keep_round(WARM_UP)?;
        self.state.warm_ups = runs;
        self.bundle.save(&self.state)?;
        Ok(())
    }

    fn warm_up_arm(&mut self, arm: Arm, eyes: &mut Eyes<'_>) -> Result<Ran, Halt> {
        let name = label::label(arm);
        let Arm::Override(values) = arm else {
            return eyes.run_recorded(
                &self.bundle,
                &name,
                "json",
                &mut self.command(arm, None),
                &self.recorded(),
            );
        };
        let trial = self.trial(Some(values), self.known_identity())?;
        let run = eyes.run_recorded(
            &self.bundle,
            &name,
            "json",
            &mut self.command(arm, Some(&trial)),
            &self.recorded(),
        )?;
        let lines = trial.decisions();
        if let Some(own) = own_answers(&lines)
            && self.set_stock(own)
        {
            // The profile of the trial named other answers than this guest's own: now they are known.
            self.bundle.remove_current(&name)?;
            drop(trial);
            let trial = self.trial(Some(values), self.known_identity())?;
            let run = eyes.run_recorded(
                &self.bundle,
                &name,
                "json",
                &mut self.command(arm, Some(&trial)),
                &self.recorded(),
            )?;
            self.keep_decisions(&name, &trial)?;
            return Ok(run);
        }
        self.keep_decisions(&name, &trial)?;
        Ok(run)
    }

    /// What is recorded of a run beside its command.
    pub(super) fn recorded(&self) -> Options {
        Options { prefix: self.args.prefix.clone(), ..Options::default() }
    }

    /// Remembers the guest's own answers; tells whether they are others than those that were taken for granted.
    fn set_stock(&mut self, own: (Option<u64>, u64)) -> bool {
        let Some(tried) = &mut self.tried else { return false };
        let differs = tried.stock != own;
        tried.stock = own;
        if let Ok(mut machine) = self.state.known_machine()
            && let Some(guest) = &mut machine.guest
        {
            guest.stock_family = own.0;
            guest.stock_memory = Some(own.1);
            self.state.machine = machine_text(&machine);
        }
        differs
    }

    /// The measured program, as the library knows it.
    pub(super) fn known_identity(&self) -> Option<&Identity> {
        self.tried.as_ref()?.identity.as_ref()
    }

    /// A trial of these values, or one in which nothing is granted.
    pub(super) fn trial(
        &self,
        values: Option<Values>,
        identity: Option<&Identity>,
    ) -> Result<Trial, Failure> {
        let tried = self.tried.as_ref().ok_or_else(|| Failure::failed("nothing is known for a trial"))?;
        let shim = self.state.settings.shim_sha256.as_deref().unwrap_or_default();
        let shim = shim.parse().map_err(|e| Failure::failed(format!("the library's digest: {e}")))?;
        let machine = self.state.known_machine().map_err(|e| Failure::invalid(format!("the bundle {e}")))?;
        let profile = values.zip(machine.guest).map(|(values, guest)| {
            let profile = TrialProfile {
                values,
                host: &tried.host,
                guest: &guest,
                stock: tried.stock,
                sha256: identity.and_then(|identity| identity.sha256),
                cdhash: identity.and_then(|identity| identity.cdhash),
                shim,
            };
            profile.to_toml()
        });
        let Tried { trials, library, host, .. } = tried;
        trials.make(&Plan { library, shim, profile, host, seconds: self.state.settings.timeout })
    }

    /// Has the library say what the measured program is.
    fn identify(&mut self, eyes: &mut Eyes<'_>) -> Result<(), Halt> {
        if self.tried.is_none() {
            return Ok(());
        }
        let settings = &self.state.settings;
        let subject =
            Subject { program: &self.program, words: &self.words, sha256: &settings.program_sha256 };
        let identity = self.ask(&subject, eyes)?;
        if let Some(tried) = &mut self.tried {
            tried.identity = Some(identity);
        }
        Ok(())
    }

    /// Asks the library what it is in: a program is started with it where nothing is granted, and ended once it has
    /// decided. The trial's profile then names exactly that, and nothing that was only believed.
    pub(super) fn ask(&self, subject: &Subject<'_>, eyes: &mut Eyes<'_>) -> Result<Identity, Halt> {
        let trial = self.trial(None, None)?;
        let mut command = command(subject.program, subject.words, Some(&trial));
        let line = ask(eyes, &self.bundle, &mut command, &trial)?;
        Ok(identity(&line, subject.sha256)?)
    }

    /// Remembers the build that a program says it is.
    pub(super) fn learn(&mut self, run: &Ran) {
        if self.state.build.is_some() {
            return;
        }
        let bytes =
            file::read(&self.bundle.current(&run.output), llama_bench::MOST_BYTES as u64).unwrap_or_default();
        let build =
            llama_bench::read(&bytes).and_then(|file| file.rows.into_iter().next()).map(|row| row.build);
        self.state.build = build.map(|build| Build { number: build.number, commit: build.commit });
    }

    /// Puts what was decided in a trial beside the output of its process. The program's path is nobody's business.
    pub(super) fn keep_decisions(&self, name: &str, trial: &Trial) -> Result<(), Failure> {
        let mut text = Vec::new();
        for mut line in trial.decisions() {
            line.program = line.program.map(|path| path.rsplit('/').next().unwrap_or_default().to_owned());
            line.machine = None;
            text.extend(serde_json::to_vec(&line).unwrap_or_default());
            text.push(b'\n');
        }
        let name = format!("{name}.decisions.jsonl");
        let written = std::io::Write::write_all(&mut self.bundle.new_file(&name)?, &text);
        written.map_err(|e| super::folder::not_written(&self.bundle.current(&name), &e))
    }
}

/// Starts a program, and ends it once the library in it has decided.
fn ask(
    eyes: &mut Eyes<'_>,
    bundle: &super::Bundle,
    command: &mut Command,
    trial: &Trial,
) -> Result<Line, Halt> {
    bundle.begin_round()?;
    let clock = Instant::now();
    let decided = || trial.decisions().into_iter().find(|line| line.stage == Stage::Start);
    eyes.run(bundle, "question", "json", command, &mut || decided().is_some() || clock.elapsed() > PATIENCE)?;
    let log = std::fs::read_to_string(bundle.current("question.log")).unwrap_or_default();
    bundle.begin_round()?;
    decided().ok_or_else(|| {
        let said = log.lines().find(|line| line.starts_with("[capgate]")).unwrap_or("nothing");
        let message = format!(
            "capgate's library was not loaded into the program, or could not decide; it said: {said}"
        );
        Halt::from(
            Failure { exit: Exit::Refused, ..Failure::failed(message) }
                .help("`capgate doctor` says what stands between a program and an inserted library"),
        )
    })
}

/// The program as the line says; anything that keeps a trial from being granted is a refusal before it is tried.
fn identity(line: &Line, sha256: &str) -> Result<Identity, Failure> {
    let refused = |message: String| Failure { exit: Exit::Refused, ..Failure::failed(message) };
    let reason = line.reason.as_deref().unwrap_or_default();
    if reason != "no-profile" {
        let detail = line.detail.as_deref().unwrap_or_default();
        return Err(refused(format!("no override can be tried here: {reason}: {detail}")));
    }
    let found = line.workload_sha256.as_deref();
    let cdhash = line.workload_cdhash.as_deref().and_then(|text| text.parse().ok());
    if found.is_some_and(|found| found != sha256) {
        return Err(refused("another program than the one that was named runs in the end".to_owned())
            .help("name the program itself, not what starts it"));
    }
    Ok(Identity { sha256: found.and_then(|text| text.parse().ok()), cdhash })
}

/// What the device said of itself, where a trial was stopped because its profile named something else, or went well.
fn own_answers(lines: &[Line]) -> Option<(Option<u64>, u64)> {
    let line = lines.iter().find(|line| line.stage == Stage::Device)?;
    let known = line.outcome == "grant" || line.reason.as_deref() == Some("device-differs");
    known.then_some((line.device_apple_family, line.device_max_threadgroup_memory?))
}
