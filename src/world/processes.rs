//! Processes of this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

/// A process that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// When it started, in seconds since 1970.
    pub started: u64,
    /// Its executable file, links followed, where the system says.
    pub executable: Option<PathBuf>,
}

/// Those of the given numbers that run now.
pub fn running(pids: &[u32]) -> BTreeMap<u32, Running> {
    let wanted: Vec<Pid> = pids.iter().map(|&pid| Pid::from_u32(pid)).collect();
    let Ok(mut system) = System::new() else { return BTreeMap::new() };
    let kind = ProcessRefreshKind::nothing().with_exe(UpdateKind::Always).without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&wanted), true, kind);
    let found = wanted.into_iter().filter_map(|pid| {
        let process = system.process(pid)?;
        let executable = process.exe().map(|path| path.to_owned());
        Some((pid.as_u32(), Running { started: process.start_time(), executable }))
    });
    found.collect()
}
