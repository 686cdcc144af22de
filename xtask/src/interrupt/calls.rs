//! Which system calls a command makes, and how it is stopped at one of them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use super::registry::Registry;
use crate::command::{Run, scratch};

/// Calls that change a disk, and those that make it last.
const NAMES: [&str; 20] = [
    "write",
    "pwrite64",
    "writev",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "rename",
    "renameat",
    "renameat2",
    "openat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "ftruncate",
    "fallocate",
    "copy_file_range",
    "link",
    "linkat",
    "flock",
];

/// One call of the main thread: its name, and which of that name.
#[derive(Debug, Clone)]
pub struct Call {
    name: String,
    number: u64,
    shown: String,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} number {} ({})", self.name, self.number, self.shown)
    }
}

/// Runs a command to its end and lists its calls. Of `openat`, only those that make a file.
pub fn list(registry: &Registry, step: &str) -> Result<Vec<Call>, String> {
    let trace = scratch().join("interrupt/trace");
    let (good, said) = strace(registry, step, &["-o", &trace.display().to_string()], &NAMES.join(","))?;
    if !good {
        return Err(format!("`{step}` under strace: {said}"));
    }
    let text = fs::read(&trace).map_err(|e| format!("{}: {e}", trace.display()))?;
    Ok(parse(&String::from_utf8_lossy(&text)))
}

fn parse(trace: &str) -> Vec<Call> {
    let main = trace.split_whitespace().next().unwrap_or_default();
    let mut numbers: BTreeMap<&str, u64> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let Some((name, arguments)) = rest.trim_start().split_once('(') else { continue };
        if pid != main || !NAMES.contains(&name) {
            continue;
        }
        let number = numbers.entry(name).or_default();
        *number += 1;
        if name != "openat" || arguments.contains("O_CREAT") {
            let shown = arguments.split(')').next().unwrap_or_default().chars().take(60).collect();
            calls.push(Call { name: name.to_owned(), number: *number, shown });
        }
    }
    calls
}

/// Runs a command and stops it at one call; tells whether it said that it was done all the same.
pub fn stop(registry: &Registry, step: &str, call: &Call, how: &str) -> Result<bool, String> {
    let inject = format!("inject={}:{how}:when={}", call.name, call.number);
    Ok(strace(registry, step, &["-o", "/dev/null", "-e", &inject], &call.name)?.0)
}

/// A command that hangs is killed after a while.
fn strace(registry: &Registry, step: &str, options: &[&str], calls: &str) -> Result<(bool, String), String> {
    let run =
        Run::new("timeout").env("HOME", "").args("-s KILL 60 strace -f -qq -e").arg(format!("trace={calls}"));
    let run = options.iter().fold(run, Run::arg);
    registry.command(step).iter().fold(run.arg("--"), Run::arg).any_end("interrupt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_main_thread_are_numbered() {
        let trace = "7 openat(AT_FDCWD, \"lib\", O_RDONLY) = 3\n7 write(1, \"x\", 1) = 1\n8 write(1, \"y\", 1) = 1\n\
                     7 openat(AT_FDCWD, \"a\", O_WRONLY|O_CREAT, 0666 <unfinished ...>\n7 <... openat resumed>) = 4\n\
                     7 write(4, \"z\", 1) = 1\n";
        let found: Vec<_> = parse(trace).into_iter().map(|call| (call.name, call.number)).collect();
        let expected = [("write", 1), ("openat", 2), ("write", 2)];
        assert_eq!(found, expected.map(|(name, number)| (name.to_owned(), number)));
    }
}
