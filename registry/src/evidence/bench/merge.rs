//! Joins what was measured in a guest with what was measured on its host.

use super::check::Check;
use super::label;
use super::machine::Machine;
use super::state::{Ran, State, StateError, machine_text};
use crate::evidence::manifest::Arm;

/// In what two benchmarks differ that must agree: nothing where they may be joined.
///
/// Host and guest are two machines, so that only what both name of the host must be equal.
pub fn differences(guest: &State, host: &State) -> Result<Vec<String>, StateError> {
    let (one, other) = (&guest.settings, &host.settings);
    let mut differ = Vec::new();
    let mut say = |name: &str, left: String, right: String| {
        if left != right {
            differ.push(format!("{name}: {left}, {right}"));
        }
    };
    let build = |state: &State| {
        state
            .build
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), |build| format!("b{} ({})", build.number, build.commit))
    };
    say("build", build(guest), build(host));
    say("program", one.program.clone(), other.program.clone());
    say("program's SHA-256", one.program_sha256.clone(), other.program_sha256.clone());
    say("model's SHA-256", one.model_sha256.clone(), other.model_sha256.clone());
    say("settings", settings(&one.words), settings(&other.words));
    let (known, named) = (guest.known_machine()?, host.known_machine()?);
    if let (Some(known), Some(named)) = (known.host, named.host) {
        say("host's chip", known.chip.to_string(), named.chip.to_string());
        say("host's build", known.os.build.to_string(), named.os.build.to_string());
    }
    Ok(differ)
}

/// The words without the model's path, which is another one on another machine.
fn settings(words: &[String]) -> String {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "-m" || word == "--model" {
            let _path = words.next();
        } else {
            kept.push(word.as_str());
        }
    }
    format!("`{}`", kept.join(" "))
}

/// Puts the host's arm into the guest's benchmark; `rename` gives each path of the host's a name of its own.
///
/// Errors: [`StateError::Wrong`] where the second has no host arm, or the first has one.
pub fn join(guest: &State, host: &State, rename: impl Fn(&str) -> String) -> Result<State, StateError> {
    let wanted = label::label(Arm::Host);
    if guest.arms.contains(&wanted) {
        return Err(StateError::Wrong("the first bundle has a host arm already".to_owned()));
    }
    if !host.arms.contains(&wanted) {
        return Err(StateError::Wrong(
            "the second bundle has no host arm: make it with `capgate bench --host`".to_owned(),
        ));
    }
    let mut joined = guest.clone();
    joined.arms.push(wanted);
    for round in &host.rounds {
        let mut round = round.clone();
        round.number += guest.rounds.len();
        for run in &mut round.runs {
            run.output = rename(&run.output);
            run.log = rename(&run.log);
            run.record = run.record.as_deref().map(&rename);
        }
        joined.rounds.push(round);
    }
    join_checks(&mut joined, host, &rename);
    for run in &host.warm_ups {
        let record = run.record.as_deref().map(&rename);
        joined.warm_ups.push(Ran {
            output: rename(&run.output),
            log: rename(&run.log),
            record,
            ..run.clone()
        });
    }
    joined.failed.extend(host.failed.iter().cloned());
    let (known, named) = (guest.known_machine()?, host.known_machine()?);
    // What the Mac says of its own GPU fills what its guest could not know.
    let merged = known.host.map(|mut known| {
        if let Some(named) = named.host {
            known.apple_family = known.apple_family.or(named.apple_family);
            known.max_threadgroup_memory = known.max_threadgroup_memory.or(named.max_threadgroup_memory);
        }
        known
    });
    joined.machine = machine_text(&Machine { host: merged, guest: known.guest });
    Ok(joined)
}

/// Puts the host's tests of correctness to those of the same program.
fn join_checks(joined: &mut State, host: &State, rename: &impl Fn(&str) -> String) {
    for check in &host.checks {
        let mut check = check.clone();
        for run in &mut check.runs {
            run.output = rename(&run.output);
            run.log = rename(&run.log);
        }
        let is_it = |known: &&mut Check| known.what == check.what && known.sha256 == check.sha256;
        match joined.checks.iter_mut().find(is_it) {
            Some(known) => known.runs.append(&mut check.runs),
            None => joined.checks.push(check),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::bench::state::tests::state;

    fn host() -> State {
        let mut host = state();
        host.arms = vec!["host".to_owned()];
        host.rounds[0].runs.truncate(1);
        host.rounds[0].runs[0].arm = "host".to_owned();
        host
    }

    #[test]
    fn what_differs_is_named() {
        assert_eq!(differences(&state(), &host()).unwrap(), Vec::<String>::new());
        let mut other = host();
        other.build.as_mut().unwrap().number = 10_168;
        other.settings.model_sha256 = "4f".repeat(32);
        other.settings.words = vec!["-m".into(), "/elsewhere/tiny.gguf".into(), "-p".into(), "16".into()];
        other.machine = other.machine.replace("25G76", "25G90");
        let differ = differences(&state(), &other).unwrap();
        let names: Vec<&str> = differ.iter().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(names, ["build", "model's SHA-256", "settings", "host's build"]);
        assert_eq!(differ[2], "settings: ``, `-p 16`");
    }

    #[test]
    fn the_hosts_arm_joins_with_paths_of_its_own() {
        let joined = join(&state(), &host(), |path| format!("host/{path}")).unwrap();
        assert_eq!(joined.arms, ["stock", "override-1009-65536", "host"]);
        let manifest = joined.manifest(&[]).unwrap();
        let files: Vec<&str> = manifest.workloads[0].samples(Arm::Host).collect();
        assert_eq!(files, ["host/rounds/1/stock.json"]);
        assert!(join(&joined, &host(), str::to_owned).is_err());
        assert!(join(&state(), &state(), str::to_owned).is_err());
    }
}
