//! Other systems, macOS among them: what sysinfo says of processors, memory, swap and processes. Nobody ran this on a
//! Mac yet. Heat, frequency and use of the GPU are not to be had without rights of their own: they stay unknown.

use capgate_registry::evidence::bench::contention::Reading;
use sysinfo::{MemoryRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// What a virtual machine of Virtualization.framework runs as on its host.
const VIRTUAL_MACHINE: &str = "com.apple.Virtualization.VirtualMachine";

/// What sysinfo keeps from one reading to the next.
#[derive(Debug, Default)]
pub(super) struct Watch {
    system: Option<System>,
}

impl Watch {
    pub(super) fn read(&mut self, at: f64, group: Option<u32>) -> Reading {
        if self.system.is_none() {
            self.system = System::new().ok();
        }
        let Some(system) = &mut self.system else {
            return Reading { at, processors: 1.0, ..Reading::default() };
        };
        system.refresh_memory_specifics(MemoryRefreshKind::everything());
        let kind = ProcessRefreshKind::nothing().with_cpu();
        system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
        let seconds = |millis: u64| u32::try_from(millis).map_or(0.0, f64::from) / 1000.0;
        let (mut busy, mut own, mut machines) = (0.0, 0.0, 0);
        for (pid, process) in system.processes() {
            let spent = seconds(process.accumulated_cpu_time());
            busy += spent;
            if is_own(system, *pid, group) {
                own += spent;
            }
            machines += u64::from(process.name().to_string_lossy().contains(VIRTUAL_MACHINE));
        }
        #[allow(clippy::cast_precision_loss, reason = "no machine has 2^52 bytes of memory")]
        let (left, all) = (system.available_memory() as f64, system.total_memory() as f64);
        Reading {
            at,
            processors: u32::try_from(super::super::threads().get()).map_or(1.0, f64::from),
            busy: Some(busy),
            own,
            load: System::load_average().ok().map(|load| load.one),
            memory: (all > 0.0).then(|| left / all),
            virtual_machines: Some(machines),
            ..Reading::default()
        }
    }
}

/// This process, what is measured, and their descendants.
fn is_own(system: &System, pid: Pid, group: Option<u32>) -> bool {
    let mut at = Some(pid);
    // A chain of parents is short; a number used again could make a ring of it.
    for _ in 0..64 {
        let Some(pid) = at else { return false };
        if pid.as_u32() == std::process::id() || Some(pid.as_u32()) == group {
            return true;
        }
        at = system.process(pid).and_then(|process| process.parent());
    }
    false
}
