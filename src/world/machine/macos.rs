//! macOS: what `sysctl`, `sw_vers`, `ifconfig` and `ioreg` print. Each is run from its system path, without a shell.

use std::process::Command;

use super::Machine;

/// Adds what macOS says.
pub(super) fn fill(machine: &mut Machine) {
    machine.chip = sysctl("machdep.cpu.brand_string");
    machine.model = sysctl("hw.model");
    machine.virtual_machine = match sysctl("kern.hv_vmm_present").as_deref() {
        Some("1") => Some(true),
        Some("0") => Some(false),
        _ => None,
    };
    // The build does not lie under compatibility mode; the version may.
    machine.os_build = sysctl("kern.osversion");
    machine.os_version = run("/usr/bin/sw_vers", &["-productVersion"]);
    machine.mac_addresses = run("/sbin/ifconfig", &[]).map(|text| addresses(&text)).unwrap_or_default();
    if machine.virtual_machine == Some(true) {
        machine.notes.push("a guest cannot see its host's macOS: a host statement names it".to_owned());
    }
}

/// The machine's own id.
pub(super) fn platform_id() -> Option<String> {
    let text = run("/usr/sbin/ioreg", &["-rd1", "-c", "IOPlatformExpertDevice"])?;
    let line = text.lines().find(|line| line.contains("\"IOPlatformUUID\""))?;
    let (_, value) = line.split_once('=')?;
    Some(value.trim().trim_matches('"').to_owned())
}

fn sysctl(name: &str) -> Option<String> {
    run("/usr/sbin/sysctl", &["-n", name])
}

/// The addresses after `ether`.
fn addresses(text: &str) -> Vec<String> {
    let ether = text.lines().filter_map(|line| line.trim().strip_prefix("ether "));
    ether.map(|address| address.trim().to_owned()).collect()
}

fn run(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).env_clear().output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn addresses_stand_behind_ether() {
        let text =
            "en0: flags=8863<UP> mtu 1500\n\tether 5e:12:ab:00:34:f0\n\tinet 192.168.64.3\nlo0: flags\n";
        assert_eq!(super::addresses(text), ["5e:12:ab:00:34:f0"]);
    }
}
