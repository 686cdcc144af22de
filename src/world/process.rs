//! Processes of this machine.

use jiff::Timestamp;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

/// Tells whether the process that made a log line is still the one with that number: started before it, from the same
/// file where that is known.
pub fn is_running(pid: u32, program: Option<&str>, logged: Timestamp) -> bool {
    let Ok(mut system) = System::new() else { return false };
    let pid = Pid::from_u32(pid);
    let wanted = ProcessRefreshKind::nothing().with_exe(UpdateKind::Always);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, wanted);
    let Some(process) = system.process(pid) else { return false };
    let started = i64::try_from(process.start_time()).unwrap_or(i64::MAX);
    let same = match (program, process.exe()) {
        (Some(program), Some(exe)) => {
            exe.to_string_lossy() == program
                || exe.canonicalize().ok() == std::path::Path::new(program).canonicalize().ok()
        }
        _ => true,
    };
    // Start times are whole seconds.
    same && started <= logged.as_second() + 1
}
