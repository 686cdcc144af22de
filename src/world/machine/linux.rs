//! Linux: processor flags, shared memory, huge pages, and the limits of the control group.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::{Limits, Machine, cgroup};

/// What only Linux has.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Linux {
    /// Flags of the first processor, sorted.
    pub cpu_flags: Vec<String>,
    /// Limits of the control group that this process is in.
    pub limits: Limits,
    /// Processors that this process may run on.
    pub affinity: Option<u64>,
    /// Size of `/dev/shm` in bytes.
    pub shared_memory: Option<u64>,
    /// Huge pages that are set aside.
    pub huge_pages: Option<u64>,
    /// Size of a huge page in bytes.
    pub huge_page_size: Option<u64>,
    /// Mode of transparent huge pages.
    pub transparent_huge_pages: Option<String>,
}

/// Adds what Linux says; `root` is `/`.
pub(super) fn fill(machine: &mut Machine, root: &Path) {
    let text = |path: &str| fs::read_to_string(root.join(path)).ok();
    let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
    let meminfo = text("proc/meminfo").unwrap_or_default();
    let cpu_flags = flags(&cpuinfo);
    let model = text("sys/class/dmi/id/product_name").or_else(|| text("proc/device-tree/model"));
    machine.model =
        model.map(|model| model.trim_matches(['\0', '\n', ' ']).to_owned()).filter(|m| !m.is_empty());
    // Only x86 has a flag for it; where there is none, nothing is known.
    machine.virtual_machine = (!cpu_flags.is_empty() && cpuinfo.contains("vendor_id"))
        .then(|| cpu_flags.iter().any(|flag| flag == "hypervisor"));
    let linux = Linux {
        limits: cgroup::read(root),
        affinity: text("proc/self/status").and_then(|status| affinity(&status)),
        shared_memory: shared_memory(root),
        huge_pages: field(&meminfo, "HugePages_Total:").map(|(count, _)| count),
        huge_page_size: field(&meminfo, "Hugepagesize:").map(|(size, unit)| size * unit),
        transparent_huge_pages: text("sys/kernel/mm/transparent_hugepage/enabled").and_then(|t| chosen(&t)),
        cpu_flags,
    };
    notes(machine, &linux);
    machine.linux = Some(linux);
}

/// What a program that asks the system in the usual way gets wrong.
fn notes(machine: &mut Machine, linux: &Linux) {
    let Limits { memory, processors, .. } = linux.limits;
    if let Some((limit, named)) = memory.zip(machine.memory).filter(|(limit, named)| limit < named) {
        let note = format!("the control group allows {limit} bytes of memory; the system names {named}");
        machine.notes.push(note);
    }
    #[allow(clippy::cast_precision_loss, reason = "no machine has 2^52 processors")]
    let few = processors.zip(machine.processors).filter(|&(limit, named)| limit < named as f64);
    if let Some((limit, named)) = few {
        let note =
            format!("the control group allows the time of {limit:.2} processors; the system names {named}");
        machine.notes.push(note);
    }
    if linux.shared_memory.is_some_and(|size| size <= 64 << 20) {
        machine
            .notes
            .push("`/dev/shm` has 64 MiB or less, too little for many programs that share memory".to_owned());
    }
}

fn flags(cpuinfo: &str) -> Vec<String> {
    let line = cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        matches!(name.trim(), "flags" | "Features").then_some(value)
    });
    let mut flags: Vec<String> =
        line.into_iter().flat_map(str::split_whitespace).map(str::to_owned).collect();
    flags.sort();
    flags
}

/// The number behind a name in `/proc/meminfo`, and the bytes of its unit.
fn field(meminfo: &str, name: &str) -> Option<(u64, u64)> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let mut words = rest.split_whitespace();
    let number = words.next()?.parse().ok()?;
    Some((number, if words.next() == Some("kB") { 1024 } else { 1 }))
}

/// The word in brackets.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

/// The bits of the mask in `/proc/self/status`.
fn affinity(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?;
    let digits = mask.trim().chars().filter(|c| *c != ',');
    digits.map(|digit| digit.to_digit(16).map(|bits| u64::from(bits.count_ones()))).sum()
}

fn shared_memory(root: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(root.join("dev/shm")).ok()?;
    stat.f_blocks.checked_mul(stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_container_on_a_large_machine_is_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: sse2 avx2 hypervisor\n");
        put("proc/meminfo", "MemTotal: 1 kB\nHugePages_Total:       3\nHugepagesize:       2048 kB\n");
        put("proc/self/cgroup", "0::/job\n");
        put("proc/self/status", "Name:\tx\nCpus_allowed:\tff,0000000f\nCpus_allowed_list:\t0-3,32-39\n");
        put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        put("sys/fs/cgroup/job/memory.max", "1073741824\n");
        put("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
        put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        let mut machine = Machine { memory: Some(8 << 30), processors: Some(8), ..Machine::default() };
        fill(&mut machine, root.path());
        let linux = machine.linux.unwrap();
        assert_eq!(machine.virtual_machine, Some(true));
        assert_eq!(linux.cpu_flags, ["avx2", "hypervisor", "sse2"]);
        assert_eq!((linux.limits.memory, linux.limits.processors), (Some(1 << 30), Some(1.5)));
        assert_eq!(linux.affinity, Some(12));
        assert_eq!((linux.huge_pages, linux.huge_page_size), (Some(3), Some(2 << 20)));
        assert_eq!(linux.transparent_huge_pages.as_deref(), Some("madvise"));
        assert_eq!(machine.notes.len(), 2, "{:?}", machine.notes);
    }

    #[test]
    fn nothing_is_claimed_where_nothing_is_said() {
        let root = tempfile::tempdir().unwrap();
        let mut machine = Machine::default();
        fill(&mut machine, root.path());
        assert_eq!((machine.virtual_machine, machine.model), (None, None));
        assert_eq!(machine.linux.unwrap(), Linux::default());
    }
}
