//! What this machine is, as far as it says so itself. What cannot be known stays unknown.

mod cgroup;
mod linux;
mod macos;

use std::path::Path;

use capgate_registry::combination::Hex;
use serde::Serialize;
use sha2::{Digest, Sha256};

pub use cgroup::Limits;
pub use linux::Linux;

/// What this machine is.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Machine {
    /// The processor's name, as the system gives it.
    pub chip: Option<String>,
    /// The machine's model.
    pub model: Option<String>,
    /// Whether it is a virtual machine; `None` where the system does not say.
    pub virtual_machine: Option<bool>,
    /// The operating system's name.
    pub os: Option<String>,
    /// Its version, for people.
    pub os_version: Option<String>,
    /// Its build, which is what decides.
    pub os_build: Option<String>,
    /// The kernel.
    pub kernel: Option<String>,
    /// The architecture that this program was built for.
    pub arch: &'static str,
    /// Processors that the system runs on.
    pub processors: Option<usize>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Network addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mac_addresses: Vec<String>,
    /// What only Linux has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux: Option<Linux>,
    /// What a program can believe of this machine although it is not so, and what cannot be known here.
    pub notes: Vec<String>,
}

/// Reads what this machine says of itself.
pub fn read() -> Machine {
    let mut machine = Machine {
        os: sysinfo::System::name().ok(),
        os_version: sysinfo::System::os_version().ok(),
        kernel: sysinfo::System::kernel_version().ok(),
        arch: std::env::consts::ARCH,
        ..Machine::default()
    };
    if let Ok(mut system) = sysinfo::System::new() {
        system.refresh_memory();
        system.refresh_cpu_list(sysinfo::CpuRefreshKind::nothing());
        let brand = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned());
        machine.chip = brand.filter(|brand| !brand.is_empty());
        machine.processors = Some(system.cpus().len()).filter(|&count| count > 0);
        machine.memory = Some(system.total_memory()).filter(|&bytes| bytes > 0);
    }
    if cfg!(target_os = "macos") {
        macos::fill(&mut machine);
    } else if cfg!(target_os = "linux") {
        linux::fill(&mut machine, Path::new("/"));
    }
    machine
}

/// A digest of the machine's own id, so that a log can tell machines apart without giving the id away.
pub fn id() -> Option<String> {
    let own = if cfg!(target_os = "macos") {
        macos::platform_id()
    } else {
        std::fs::read_to_string("/etc/machine-id").ok()
    };
    let own = own.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())?;
    let digest: [u8; 32] = Sha256::digest(format!("capgate machine v1\n{own}\n")).into();
    Some(Hex(digest).to_string())
}
