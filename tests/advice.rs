//! Advice names only commands that exist.

use std::process::Command;

use capgate_policy::reason::Reason;

/// The first word behind each `capgate` in backticks.
fn commands(text: &str) -> Vec<&str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.filter_map(|span| span.strip_prefix("capgate ")?.split(' ').next()).collect()
}

#[test]
fn every_command_that_a_reason_names_exists() {
    let mut named = 0;
    let mut texts: Vec<&str> = Reason::ALL.iter().flat_map(|r| [r.explanation(), r.advice()]).collect();
    texts.extend([include_str!("../docs/policy.md"), include_str!("../README.md")]);
    for command in texts.into_iter().flat_map(commands) {
        // The README says in so many words that this one is planned.
        if command == "run" {
            continue;
        }
        named += 1;
        let help = Command::new(env!("CARGO_BIN_EXE_capgate")).args([command, "--help"]).output();
        assert!(help.is_ok_and(|help| help.status.success()), "`capgate {command}` does not exist");
    }
    assert!(named >= 5, "only {named} commands are named");
}
