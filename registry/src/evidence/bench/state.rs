//! `bench.json`: what is known of a bundle that is being made, so that it can be gone on with, and how it was made once it
//! is done.
//!
//! It is replaced as a whole after each round. Paths are inside the bundle.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::check::Check;
use super::contention::{Limits, Window};
use super::label;
use super::machine::Machine;
use crate::evidence::manifest::{Arm, guest_table, host_table};

/// The name of the file inside its bundle.
pub const FILE_NAME: &str = "bench.json";
/// A file that is there as long as the bundle is not complete.
pub const INCOMPLETE: &str = "INCOMPLETE";
/// Most bytes of the file.
pub const MOST_BYTES: usize = 8 * 1024 * 1024;
/// The form that this version writes and reads.
const SCHEMA: &str = "1.0.0";

/// Why a file is no state of a bundle.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It is too large.
    #[error("has {0} bytes, more than {MOST_BYTES}")]
    TooLarge(usize),
    /// It is no JSON, or not this one.
    #[error("is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It says what cannot be.
    #[error("is malformed: {0}")]
    Wrong(String),
}

/// Everything about one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The form of the file.
    pub schema: String,
    /// The version of capgate that began it.
    pub capgate: String,
    /// When it began.
    pub began: Timestamp,
    /// What is measured, and how.
    pub settings: Settings,
    /// Host and guest, as [`Machine`] reads them.
    pub machine: String,
    /// llama-bench's build, once it said it.
    pub build: Option<Build>,
    /// What counted as contention.
    pub limits: Limits,
    /// The arms, in the order of even rounds.
    pub arms: Vec<String>,
    /// One start of each arm before the first round, which is no sample.
    pub warm_ups: Vec<Ran>,
    /// The rounds that count.
    pub rounds: Vec<Round>,
    /// The rounds that do not, each with its reasons.
    pub discarded: Vec<Discarded>,
    /// Arms that came to no good, and are started no more.
    pub failed: Vec<Failed>,
    /// Other programs, one start in each arm.
    pub also: Vec<Also>,
    /// Tests of correctness, one start in each arm.
    pub checks: Vec<Check>,
}

/// What is measured, and how. Whoever goes on with a bundle has to have the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// File name of the program.
    pub program: String,
    /// SHA-256 of its file, 64 digits.
    pub program_sha256: String,
    /// Code directory hash, 40 digits, where it has one.
    pub program_cdhash: Option<String>,
    /// The words it is started with in every arm but `cpu`.
    pub words: Vec<String>,
    /// File name of the model.
    pub model: String,
    /// SHA-256 of its file.
    pub model_sha256: String,
    /// SHA-256 of the library that is inserted, where there is an override arm.
    pub shim_sha256: Option<String>,
    /// How many rounds.
    pub rounds: usize,
    /// Seconds that one process may take.
    pub timeout: u64,
    /// The published profile that it follows.
    pub from: Option<String>,
    /// Where the bundle will be read.
    pub source: Option<String>,
    /// Whether the least override is sought.
    pub ladder: bool,
    /// Another place than the system's that the readings were taken from: for tests, never for evidence.
    pub readings: Option<String>,
}

/// Which build of llama.cpp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// `10167` in `b10167`.
    pub number: u64,
    /// The commit.
    pub commit: String,
}

/// One process that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ran {
    /// The arm.
    pub arm: String,
    /// What it wrote on standard output.
    pub output: String,
    /// What it wrote on standard error.
    pub log: String,
    /// The record of the run, where one was made.
    pub record: Option<String>,
    /// When it was started.
    pub began: Timestamp,
    /// How long it ran.
    pub seconds: f64,
    /// Its exit status, where it ended by itself.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it took too long.
    pub timed_out: bool,
}

/// One round: each arm once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// Its number, from 1.
    pub number: usize,
    /// The processes, in the order in which they ran.
    pub runs: Vec<Ran>,
    /// What the machine did before it.
    pub before: Option<Window>,
    /// What the machine did meanwhile.
    pub during: Option<Window>,
}

/// A round that was contended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discarded {
    /// The round, with no process where it never began.
    pub round: Round,
    /// Why, in words.
    pub reasons: Vec<String>,
}

/// An arm that is started no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// The arm.
    pub arm: String,
    /// The round, 0 for its warm-up.
    pub round: usize,
    /// Why, in words.
    pub why: String,
}

/// Another program that loads the same images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Also {
    /// File name of the program.
    pub program: String,
    /// Its version, where its log says it.
    pub version: Option<String>,
    /// SHA-256 of its file.
    pub sha256: String,
    /// Code directory hash, where it has one.
    pub cdhash: Option<String>,
    /// The words it was started with.
    pub words: Vec<String>,
    /// Its start in each arm.
    pub runs: Vec<Ran>,
}

impl Ran {
    /// Tells whether it ended as it should.
    pub fn is_good(&self) -> bool {
        self.status == Some(0) && self.signal.is_none() && !self.timed_out
    }

    /// How it ended, in words.
    pub fn ending(&self) -> String {
        match (self.timed_out, self.signal, self.status) {
            (true, ..) => format!("was stopped after {:.0} s", self.seconds),
            (_, Some(signal), _) => format!("was ended by signal {signal}"),
            (.., Some(status)) => format!("ended with exit status {status}"),
            _ => "ended in an unknown way".to_owned(),
        }
    }
}

impl State {
    /// A benchmark that has not begun.
    pub fn new(
        capgate: &str,
        began: Timestamp,
        settings: Settings,
        machine: &Machine,
        arms: &[Arm],
        limits: Limits,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            capgate: capgate.to_owned(),
            began,
            settings,
            machine: machine_text(machine),
            build: None,
            limits,
            arms: arms.iter().map(|arm| label::label(*arm)).collect(),
            warm_ups: Vec::new(),
            rounds: Vec::new(),
            discarded: Vec::new(),
            failed: Vec::new(),
            also: Vec::new(),
            checks: Vec::new(),
        }
    }

    /// Reads the file.
    ///
    /// Errors: [`StateError`]; what it names as an arm or a machine is one afterwards.
    pub fn parse(json: &[u8]) -> Result<Self, StateError> {
        if json.len() > MOST_BYTES {
            return Err(StateError::TooLarge(json.len()));
        }
        let state: Self = serde_json::from_slice(json)?;
        if state.schema != SCHEMA {
            return Err(StateError::Wrong(format!("its schema is `{}`, not `{SCHEMA}`", state.schema)));
        }
        for name in state.arms.iter().chain(state.every_run().map(|run| &run.arm)) {
            if label::arm(name).is_none() {
                return Err(StateError::Wrong(format!("`{name}` is no arm")));
            }
        }
        for path in state.every_run().flat_map(|run| [&run.output, &run.log]) {
            if let Err(why) = crate::evidence::sums::inside(path) {
                return Err(StateError::Wrong(format!("the path `{path}` {why}")));
            }
        }
        state.known_machine()?;
        Ok(state)
    }

    /// The file.
    pub fn to_json(&self) -> Result<String, StateError> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// Host and guest.
    pub fn known_machine(&self) -> Result<Machine, StateError> {
        Machine::parse(self.machine.as_bytes()).map_err(|problems| {
            let first = problems.into_iter().next().map_or_else(String::new, |problem| problem.message);
            StateError::Wrong(format!("`machine`: {first}"))
        })
    }

    /// The arms that may still be started.
    pub fn running_arms(&self) -> Vec<Arm> {
        let failed = |name: &&String| self.failed.iter().any(|failed| failed.arm == **name);
        self.arms.iter().filter(|name| !failed(name)).filter_map(|name| label::arm(name)).collect()
    }

    fn every_run(&self) -> impl Iterator<Item = &Ran> {
        let rounds = self.rounds.iter().chain(self.discarded.iter().map(|discarded| &discarded.round));
        let also = self.also.iter().flat_map(|also| &also.runs);
        let checks = self.checks.iter().flat_map(|check| &check.runs);
        self.warm_ups.iter().chain(rounds.flat_map(|round| &round.runs)).chain(also).chain(checks)
    }
}

/// The text of a machine, which [`Machine`] reads again.
pub fn machine_text(machine: &Machine) -> String {
    let mut text = String::new();
    for (name, table) in
        [("host", machine.host.as_ref().map(host_table)), ("guest", machine.guest.as_ref().map(guest_table))]
    {
        if let Some(table) = table {
            text += &format!("{name} = {table}\n");
        }
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::evidence::bench::contention::LIMITS;
    use crate::evidence::manifest::Manifest;
    use crate::profile::Values;

    /// A benchmark of two arms with one round.
    pub(in super::super) fn state() -> State {
        let machine = Machine::parse(
            b"host = { chip = \"Apple M1 Ultra\", os = { version = \"26.6.1\", build = \"25G76\" } }\n\
              guest = { os = { version = \"26.5.2\", build = \"25F84\" }, model = \"VirtualMac2,1\" }\n",
        );
        let values = Values { apple_family_max: 1009, max_threadgroup_memory: 65_536 };
        let settings = Settings {
            program: "llama-bench".to_owned(),
            program_sha256: "1f".repeat(32),
            program_cdhash: None,
            words: vec!["-m".to_owned(), "tiny.gguf".to_owned()],
            model: "tiny.gguf".to_owned(),
            model_sha256: "2f".repeat(32),
            shim_sha256: Some("3f".repeat(32)),
            rounds: 1,
            timeout: 60,
            from: None,
            source: Some("https://example.org/bundle".to_owned()),
            ladder: false,
            readings: None,
        };
        let arms = [Arm::Stock, Arm::Override(values)];
        let began: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        let mut state = State::new("0.1.0", began, settings, &machine.unwrap(), &arms, LIMITS);
        state.build = Some(Build { number: 10_167, commit: "ee3d1b5".to_owned() });
        let runs = state.arms.iter().map(|arm| ran(arm, 1)).collect();
        state.rounds.push(Round { number: 1, runs, before: None, during: None });
        state
    }

    fn ran(arm: &str, number: usize) -> Ran {
        Ran {
            arm: arm.to_owned(),
            output: format!("rounds/{number}/{arm}.json"),
            log: format!("rounds/{number}/{arm}.log"),
            record: None,
            began: Timestamp::UNIX_EPOCH,
            seconds: 1.0,
            status: Some(0),
            signal: None,
            timed_out: false,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let state = state();
        let again = State::parse(state.to_json().unwrap().as_bytes()).unwrap();
        assert_eq!(again, state);
    }

    #[test]
    fn what_is_no_state_is_refused() {
        let good = state().to_json().unwrap();
        for (from, to) in [
            ("\"1.0.0\"", "\"2.0.0\""),
            ("override-1009-65536", "override-2009-65536"),
            ("rounds/1/stock.log", "../stock.log"),
            ("25G76", "24G76"),
            ("\"seconds\": 1.0", "\"seconds\": 1.0, \"more\": 1"),
        ] {
            assert!(good.contains(from), "{from}");
            assert!(State::parse(good.replace(from, to).as_bytes()).is_err(), "{to}");
        }
        assert!(matches!(State::parse(&vec![b' '; MOST_BYTES + 1]), Err(StateError::TooLarge(_))));
    }

    #[test]
    fn its_manifest_names_every_file_with_its_arm() {
        let manifest = state().manifest(&[]).unwrap();
        let again = Manifest::parse(manifest.to_toml().as_bytes()).unwrap();
        assert_eq!(again, manifest);
        let [workload] = manifest.workloads.as_slice() else { panic!("{manifest:?}") };
        assert_eq!(workload.program.version, "b10167");
        assert_eq!(workload.arms().len(), 2);
        assert_eq!(workload.files.len(), 4);
        assert_eq!(workload.sets.len(), 1);
    }

    #[test]
    fn an_arm_that_failed_in_its_warm_up_is_judged_by_it() {
        let mut state = state();
        let failed = Ran { status: None, signal: Some(11), ..ran("cpu", 0) };
        state.arms.push("cpu".to_owned());
        state.failed.push(Failed { arm: "cpu".to_owned(), round: 0, why: failed.ending() });
        state.warm_ups.push(failed);
        assert_eq!(state.running_arms().len(), 2);
        let manifest = state.manifest(&[]).unwrap();
        let cpu: Vec<&str> = manifest.workloads[0].samples(Arm::Cpu).collect();
        assert_eq!(cpu, ["rounds/0/cpu.json"]);
    }
}
