//! Limits of the control group, versions 1 and 2. A limit anywhere on the way to the root counts.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// What the control group allows; `None` where it sets no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Version of the control groups, where there are any.
    pub version: Option<u8>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Processor time, in processors.
    pub processors: Option<f64>,
}

/// Version 1 writes "no limit" as the largest number of whole pages.
const V1_UNLIMITED: u64 = 1 << 62;

/// Reads the limits of this process; `root` is `/`.
pub(super) fn read(root: &Path) -> Limits {
    let membership = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mount = root.join("sys/fs/cgroup");
    if mount.join("cgroup.controllers").exists() {
        let own = path_of(&membership, |controllers| controllers.is_empty()).unwrap_or("/");
        return version_2(&mount, own);
    }
    let memory = path_of(&membership, |controllers| controllers.split(',').any(|c| c == "memory"));
    let cpu = path_of(&membership, |controllers| controllers.split(',').any(|c| c == "cpu"));
    if memory.is_none() && cpu.is_none() {
        return Limits::default();
    }
    let memory = memory.map(|own| smallest(&mount.join("memory"), own, memory_1)).unwrap_or_default();
    let cpu_mount =
        ["cpu", "cpu,cpuacct"].map(|name| mount.join(name)).into_iter().find(|path| path.exists());
    let processors = cpu.zip(cpu_mount).and_then(|(own, mount)| smallest(&mount, own, processors_1));
    Limits { version: Some(1), memory, processors }
}

fn version_2(mount: &Path, own: &str) -> Limits {
    let memory = |folder: &Path| number(folder, "memory.max");
    let processors = |folder: &Path| {
        let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
        let mut words = text.split_whitespace();
        quotient(words.next()?.parse().ok()?, words.next()?.parse().ok()?)
    };
    Limits {
        version: Some(2),
        memory: smallest(mount, own, memory),
        processors: smallest(mount, own, processors),
    }
}

fn memory_1(folder: &Path) -> Option<u64> {
    number(folder, "memory.limit_in_bytes").filter(|&limit| limit < V1_UNLIMITED)
}

fn processors_1(folder: &Path) -> Option<f64> {
    quotient(number(folder, "cpu.cfs_quota_us")?, number(folder, "cpu.cfs_period_us")?)
}

#[allow(clippy::cast_precision_loss, reason = "microseconds are far below 2^52")]
fn quotient(quota: u64, period: u64) -> Option<f64> {
    (period > 0).then(|| quota as f64 / period as f64)
}

/// A number in a file; words such as `max` and numbers such as -1 are no limit.
fn number(folder: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
}

/// The path of the first membership whose controllers are wanted.
fn path_of(membership: &str, wanted: impl Fn(&str) -> bool) -> Option<&str> {
    membership.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        wanted(controllers).then_some(path)
    })
}

/// The smallest limit from the group itself up to the mount.
fn smallest<T: PartialOrd>(mount: &Path, own: &str, read: impl Fn(&Path) -> Option<T>) -> Option<T> {
    let mut folder: PathBuf = mount.join(own.trim_start_matches('/'));
    let mut least = None;
    loop {
        if let Some(found) = read(&folder) {
            least = match least {
                Some(known) if known <= found => Some(known),
                _ => Some(found),
            };
        }
        if folder == mount || !folder.pop() || !folder.starts_with(mount) {
            return least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_tightest_group_on_the_way_up_counts() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/self/cgroup", "0::/outer/inner\n");
        put(root.path(), "sys/fs/cgroup/cgroup.controllers", "");
        put(root.path(), "sys/fs/cgroup/outer/memory.max", "100\n");
        put(root.path(), "sys/fs/cgroup/outer/inner/memory.max", "max\n");
        put(root.path(), "sys/fs/cgroup/outer/cpu.max", "max 100000\n");
        assert_eq!(read(root.path()), Limits { version: Some(2), memory: Some(100), processors: None });
    }

    #[test]
    fn version_1_has_a_mount_for_each_controller() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/self/cgroup", "3:cpu,cpuacct:/job\n2:memory:/job\n1:name=systemd:/\n");
        put(root.path(), "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4096\n");
        put(root.path(), "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        put(root.path(), "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n");
        put(root.path(), "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
        put(root.path(), "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
        assert_eq!(read(root.path()), Limits { version: Some(1), memory: Some(4096), processors: Some(0.5) });
    }

    #[test]
    fn without_control_groups_nothing_is_limited() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read(root.path()), Limits::default());
    }
}
