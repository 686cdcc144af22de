//! The manifest of a bundle that was measured: which file belongs to which arm of which program.

use super::label;
use super::state::{Also, Ran, State, StateError};
use crate::combination::{CdHash, Sha256Digest};
use crate::evidence::manifest::{Arm, ClaimedSet, File, Manifest, Part, Program, Role, Workload};
use crate::profile::{Model, ShimName, Values, Verdict};

/// The version of a program that says none.
const UNKNOWN_VERSION: &str = "unknown";

impl State {
    /// The processes whose output counts for an arm: those of the rounds, and every one that came to no good, whatever
    /// else ran then.
    fn scored(&self, arm: &str) -> Vec<&Ran> {
        let rounds = self.rounds.iter().flat_map(|round| &round.runs);
        let others = self.discarded.iter().flat_map(|discarded| &discarded.round.runs).chain(&self.warm_ups);
        rounds.chain(others.filter(|run| !run.is_good())).filter(|run| run.arm == arm).collect()
    }

    /// The manifest of the bundle; `more` are files of other roles.
    ///
    /// Errors: [`StateError::Wrong`] where the host or the guest is not known, or nothing was measured.
    pub fn manifest(&self, more: &[File]) -> Result<Manifest, StateError> {
        let machine = self.known_machine()?;
        let unknown =
            |what: &str| StateError::Wrong(format!("nobody said which {what} this was measured on"));
        let arms: Vec<Arm> = self.arms.iter().filter_map(|name| label::arm(name)).collect();
        let mut files = Vec::new();
        for arm in &arms {
            let runs = self.scored(&label::label(*arm));
            files.extend(runs.iter().map(|run| file(&run.output, Part::Samples(*arm))));
            files.extend(runs.iter().map(|run| file(&run.log, Part::Item(Role::Log, Some(*arm)))));
        }
        for check in &self.checks {
            files.extend(check.files()?);
        }
        for run in &self.warm_ups {
            if let (Some(record), Some(arm)) = (&run.record, label::arm(&run.arm)) {
                files.push(file(record, Part::Item(Role::Record, Some(arm))));
            }
        }
        files.extend(more.iter().cloned());
        let overrides =
            arms.iter().filter_map(|arm| if let Arm::Override(values) = arm { Some(*values) } else { None });
        let sets: Vec<ClaimedSet> = overrides.map(|values| self.claimed(values)).collect::<Result<_, _>>()?;
        let settings = &self.settings;
        let build =
            self.build.as_ref().map_or_else(|| "unknown".to_owned(), |build| format!("b{}", build.number));
        let workload = Workload {
            name: settings.model.clone(),
            sought: if sets.is_empty() { Verdict::Stock } else { Verdict::Override },
            program: Program {
                name: settings.program.clone(),
                version: build,
                sha256: Some(digest("program_sha256", &settings.program_sha256)?),
                cdhash: settings.program_cdhash.as_deref().map(cdhash).transpose()?,
                images: Vec::new(),
            },
            model: Model {
                name: settings.model.clone(),
                sha256: Some(digest("model_sha256", &settings.model_sha256)?),
                revision: None,
            },
            host: machine.host.ok_or_else(|| unknown("host"))?,
            guest: machine.guest.ok_or_else(|| unknown("guest"))?,
            measured: None,
            not_covered: Vec::new(),
            sets,
            files,
        };
        let mut workloads = vec![workload];
        for (index, also) in self.also.iter().enumerate() {
            let other = self.output_of(also, index, workloads.first())?;
            workloads.extend(other);
        }
        Ok(Manifest { source: settings.source.clone(), workloads })
    }

    /// The workload of a program that was run for its output alone, on what the measured one ran on.
    fn output_of(
        &self,
        also: &Also,
        index: usize,
        main: Option<&Workload>,
    ) -> Result<Option<Workload>, StateError> {
        let Some(main) = main else { return Ok(None) };
        let (mut files, mut sets) = (Vec::new(), Vec::new());
        for run in &also.runs {
            let Some(arm) = label::arm(&run.arm) else { continue };
            if let Arm::Override(values) = arm {
                sets.push(self.claimed(values)?);
            }
            files.push(file(&run.output, Part::Item(Role::Correctness, Some(arm))));
            files.push(file(&run.log, Part::Item(Role::Log, Some(arm))));
            files.extend(run.record.iter().map(|path| file(path, Part::Item(Role::Record, Some(arm)))));
        }
        let day = also.runs.first().map(|run| jiff::tz::Offset::UTC.to_datetime(run.began).date());
        let version = also.version.clone().unwrap_or_else(|| UNKNOWN_VERSION.to_owned());
        Ok(Some(Workload {
            name: format!("{} {} {}", main.name, also.program, index + 1),
            sought: Verdict::Override,
            program: Program {
                name: also.program.clone(),
                version,
                sha256: Some(digest("sha256", &also.sha256)?),
                cdhash: also.cdhash.as_deref().map(cdhash).transpose()?,
                images: Vec::new(),
            },
            measured: day,
            sets,
            files,
            ..main.clone()
        }))
    }

    fn claimed(&self, values: Values) -> Result<ClaimedSet, StateError> {
        let shim = self.settings.shim_sha256.as_deref();
        let shim_sha256 = shim.map(|text| digest("shim_sha256", text)).transpose()?;
        Ok(ClaimedSet { values, shim: Some(ShimName::Capgate), shim_sha256 })
    }
}

fn file(path: &str, part: Part) -> File {
    File { path: path.to_owned(), part, program: None }
}

fn digest(name: &str, text: &str) -> Result<Sha256Digest, StateError> {
    text.parse().map_err(|e| StateError::Wrong(format!("`{name}`: {e}")))
}

fn cdhash(text: &str) -> Result<CdHash, StateError> {
    text.parse().map_err(|e| StateError::Wrong(format!("`program_cdhash`: {e}")))
}
