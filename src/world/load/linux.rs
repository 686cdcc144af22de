//! Linux: `/proc` and `/sys`. What is not there, in an older kernel or a container, is unknown.

use std::fs;
use std::path::Path;

use capgate_registry::evidence::bench::contention::Reading;

/// Ticks a second of the times in `/proc`, the same on every architecture that Linux runs on today.
const TICKS: f64 = 100.0;
/// Bytes that the kernel swaps at a time.
const PAGE: f64 = 4096.0;

pub(super) fn read(root: &Path, at: f64, group: Option<u32>) -> Reading {
    let text = |path: &str| fs::read_to_string(root.join(path)).ok();
    let stat = text("proc/stat").unwrap_or_default();
    let meminfo = text("proc/meminfo").unwrap_or_default();
    let vmstat = text("proc/vmstat").unwrap_or_default();
    let kilobytes = |name: &str| field(&meminfo, name);
    let swapped = field(&vmstat, "pswpin").zip(field(&vmstat, "pswpout"));
    Reading {
        at,
        processors: processors(&stat),
        busy: busy(&stat),
        own: own(root, group),
        load: text("proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        memory: kilobytes("MemAvailable:").zip(kilobytes("MemTotal:")).map(|(left, all)| left / all.max(1.0)),
        stalled: text("proc/pressure/memory").and_then(|text| waited(&text)),
        swapped: swapped.map(|(into, out)| (into + out) * PAGE),
        throttled: throttled(root),
        frequency: text("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
            .and_then(|text| text.trim().parse::<f64>().ok())
            .map(|kilohertz| kilohertz / 1000.0),
        gpu: gpu(root),
        virtual_machines: None,
    }
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<f64> {
    let mut words = text.lines().map(str::split_whitespace);
    words.find_map(|mut words| (words.next()? == name).then(|| words.next()?.parse().ok())?)
}

fn processors(stat: &str) -> f64 {
    let count = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    u32::try_from(count.max(1)).map_or(1.0, f64::from)
}

/// User, nice, system, interrupts and what the host of a virtual machine took; guests of this one are in user already.
fn busy(stat: &str) -> Option<f64> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|&column| ticks.get(column)).sum::<f64>();
    (ticks.len() >= 4).then_some(busy / TICKS)
}

/// This process with every child it waited for, and whoever is in the group of what is measured.
fn own(root: &Path, group: Option<u32>) -> f64 {
    let times = |path: &Path| fs::read_to_string(path).ok().and_then(|stat| Times::of(&stat));
    let mut own = times(&root.join("proc/self/stat")).map_or(0.0, |times| times.all);
    let Some(group) = group else { return own / TICKS };
    for entry in fs::read_dir(root.join("proc")).into_iter().flatten().flatten() {
        let is_process = entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
        let found = is_process.then(|| times(&entry.path().join("stat"))).flatten();
        own += found.filter(|times| times.group == group).map_or(0.0, |times| times.all);
    }
    own / TICKS
}

/// The times of one process, in ticks, with those of its children that ended.
struct Times {
    group: u32,
    all: f64,
}

impl Times {
    /// The name stands in brackets and may hold anything, brackets too.
    fn of(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let times = fields.get(11..15)?.iter().filter_map(|ticks| ticks.parse::<f64>().ok());
        Some(Self { group: fields.get(2)?.parse().ok()?, all: times.sum() })
    }
}

/// Seconds in which somebody waited for memory.
fn waited(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let micros = some.split(' ').find_map(|word| word.strip_prefix("total="))?;
    Some(micros.parse::<f64>().ok()? / 1e6)
}

/// How often the processors were throttled, all together; unknown where none counts it.
fn throttled(root: &Path) -> Option<u64> {
    let folder = root.join("sys/devices/system/cpu");
    let counts = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| {
        let path = entry.path().join("thermal_throttle/core_throttle_count");
        fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    });
    counts.reduce(u64::saturating_add)
}

/// The busiest GPU whose driver says how busy it is.
fn gpu(root: &Path) -> Option<f64> {
    let cards = fs::read_dir(root.join("sys/class/drm")).ok()?.flatten().filter_map(|entry| {
        let path = entry.path().join("device/gpu_busy_percent");
        fs::read_to_string(path).ok()?.trim().parse::<f64>().ok()
    });
    cards.reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 10 50 1000 7 3 2 35 40 0\ncpu0 50 5 25 500 3 1 1 17 20 0\n\
                        cpu1 50 5 25 500 4 2 1 18 20 0\nintr 1 2\n";
    const OWN: &str = "42 (a) b (c) S 1 77 42 0 -1 0 0 0 0 0 30 20 4 1 20 0 1 0 5 0 0\n";

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn everything_that_linux_says_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, "proc/stat", STAT);
        put(root, "proc/self/stat", OWN);
        put(root, "proc/43/stat", &OWN.replace("42 (a) b (c)", "43 (x)"));
        put(root, "proc/44/stat", &OWN.replace(" 77 ", " 78 "));
        put(root, "proc/loadavg", "1.50 1.00 0.50 2/90 10744\n");
        put(root, "proc/meminfo", "MemTotal:  1000 kB\nMemFree: 100 kB\nMemAvailable: 250 kB\n");
        put(root, "proc/vmstat", "nr_free 1\npswpin 10\npswpout 20\n");
        put(
            root,
            "proc/pressure/memory",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull total=1\n",
        );
        put(root, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
        put(root, "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n");
        put(root, "sys/class/drm/card0/device/gpu_busy_percent", "12\n");
        let reading = read(root, 1.0, Some(77));
        assert_eq!((reading.processors, reading.busy), (2.0, Some(2.0)));
        assert!((reading.own - 1.1).abs() < 1e-9, "{reading:?}");
        assert_eq!((reading.load, reading.memory), (Some(1.5), Some(0.25)));
        assert_eq!((reading.stalled, reading.swapped), (Some(2.5), Some(122_880.0)));
        assert_eq!((reading.throttled, reading.gpu), (Some(7), Some(12.0)));
        assert!((read(root, 1.0, None).own - 0.55).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_there_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let reading = read(folder.path(), 2.0, Some(1));
        assert_eq!(reading, Reading { at: 2.0, processors: 1.0, ..Reading::default() });
    }

    #[test]
    fn this_machine_says_how_busy_it_is() {
        let reading = read(Path::new("/"), 0.0, None);
        assert!(reading.busy.is_some_and(|busy| busy > 0.0), "{reading:?}");
        assert!(reading.own > 0.0 || reading.busy.is_some());
    }
}
