//! The facts of this machine, from what its kernel answers.

use capgate_policy::facts::{Fact, Facts, MacAddress, Program, Source, guest_model};
use capgate_registry::combination::{Chip, Hex};
use sha2::{Digest, Sha256};

use crate::system;

/// Everything that a decision needs of this machine, with the program that it is about.
pub fn of_machine(program: Program) -> Facts {
    let chip = system::sysctl_text(c"machdep.cpu.brand_string");
    let build = system::sysctl_text(c"kern.osversion");
    Facts {
        host_chip: Fact::read(chip.as_deref(), Chip::from_guest),
        guest_os_build: Fact::read(build.as_deref(), str::parse),
        program,
        source: Source::Machine {
            virtual_machine: virtual_machine(),
            guest_model: guest_model(system::sysctl_text(c"hw.model").as_deref()),
            mac_addresses: mac_addresses(),
        },
    }
}

fn virtual_machine() -> Fact<bool> {
    match system::sysctl_number(c"kern.hv_vmm_present") {
        None => Fact::Missing,
        Some(0) => Fact::Known(false),
        Some(1) => Fact::Known(true),
        Some(other) => Fact::Malformed(format!("`kern.hv_vmm_present` is {other}, neither 0 nor 1")),
    }
}

fn mac_addresses() -> Fact<Vec<MacAddress>> {
    let Some(addresses) = system::link_addresses() else { return Fact::Missing };
    let addresses: Vec<MacAddress> = addresses.into_iter().filter_map(MacAddress::from_bytes).collect();
    if addresses.is_empty() { Fact::Missing } else { Fact::Known(addresses) }
}

/// A digest of the machine's own id, the same that the command line writes into a log.
pub fn machine() -> Option<String> {
    let id = system::machine_id()?;
    let hex = Hex(id).to_string().to_uppercase();
    let parts: Option<Vec<&str>> =
        [0..8, 8..12, 12..16, 16..20, 20..32].into_iter().map(|range| hex.get(range)).collect();
    let id = parts?.join("-");
    let digest: [u8; 32] = Sha256::digest(format!("capgate machine v1\n{id}\n")).into();
    Some(Hex(digest).to_string())
}
