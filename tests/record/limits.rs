//! What Linux denies a process is recorded, and stands first where two runs are compared.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::abilities::{HalfGroup, may_mount, mounted};
use super::support::Run;
use super::{capgate, codes, diff, record, written};

/// A command that records `true`.
fn recording(folder: &Path, name: &str) -> Command {
    let mut command = capgate(folder);
    command.args(["record", "--out", name, "--", "true"]);
    command
}

/// A copy of `/proc/cpuinfo` without any AVX.
fn without_avx(folder: &Path) -> std::path::PathBuf {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap();
    let lines = text.lines().map(|line| {
        let words = line.split(' ').filter(|word| !word.starts_with("avx"));
        words.collect::<Vec<_>>().join(" ")
    });
    let path = folder.join("cpuinfo");
    fs::write(&path, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    path
}

fn has_avx() -> bool {
    let found = fs::read_to_string("/proc/cpuinfo").unwrap().split_whitespace().any(|word| word == "avx2");
    if !found {
        println!("left out: masking AVX: this processor has none");
    }
    found
}

const SMALL: &str = "mount -t tmpfs -o size=64m tmpfs /dev/shm";
const LARGE: &str = "mount -t tmpfs -o size=1g tmpfs /dev/shm";

#[test]
fn half_a_processor_is_recorded_and_stands_first() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), "free.json", &["true"]).ok();
    let Some(group) = HalfGroup::new(50_000) else { return };
    Run::of(&mut group.holds(&recording(folder.path(), "half.json"))).ok();
    let found = written(folder.path(), "half.json");
    assert_eq!(found["capabilities"]["linux"]["cpu_limit"], 0.5);
    assert_ne!(written(folder.path(), "free.json")["capabilities"]["linux"]["cpu_limit"], 0.5);
    for (a, b, side) in [("free.json", "half.json", "b"), ("half.json", "free.json", "a")] {
        let compared = diff(folder.path(), a, b);
        assert_eq!(codes(&compared)[0], "cpu-limit", "{compared}");
        assert_eq!(compared["differences"][0][side], "0.5");
    }
}

#[test]
fn a_small_shared_memory_is_recorded_and_stands_first() {
    if !may_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (lines, name) in [(SMALL, "small.json"), (LARGE, "large.json")] {
        Run::of(&mut mounted(lines, folder.path(), &recording(folder.path(), name))).ok();
    }
    let found = written(folder.path(), "small.json");
    assert_eq!(found["capabilities"]["linux"]["shared_memory"], 64 << 20);
    let compared = diff(folder.path(), "large.json", "small.json");
    assert_eq!(codes(&compared)[..2], ["small-shared-memory", "shared-memory"], "{compared}");
}

#[test]
fn a_kernel_that_lists_no_avx_is_recorded_and_stands_first() {
    if !may_mount() || !has_avx() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), "all.json", &["true"]).ok();
    let cpuinfo = without_avx(folder.path());
    let lines = "mount --bind \"$0\" /proc/cpuinfo";
    Run::of(&mut mounted(lines, &cpuinfo, &recording(folder.path(), "masked.json"))).ok();
    let found = written(folder.path(), "masked.json");
    let flags = found["capabilities"]["linux"]["cpu_flags"].as_array().unwrap();
    assert!(!flags.is_empty() && !flags.iter().any(|flag| flag.as_str().unwrap().starts_with("avx")));
    // The processor itself still has it, and the record does not hide that.
    let usable = found["capabilities"]["linux"]["cpu_usable"].as_array().unwrap();
    assert!(usable.iter().any(|name| name == "avx2"), "{usable:?}");
    let compared = diff(folder.path(), "all.json", "masked.json");
    assert_eq!(codes(&compared)[0], "vector-instructions", "{compared}");
    assert!(compared["differences"][0]["a"].as_str().unwrap().contains("avx2"));
    assert_eq!(compared["differences"][0]["b"], serde_json::Value::Null);
}

#[test]
fn all_three_at_once_are_the_first_three() {
    if !may_mount() || !has_avx() {
        return;
    }
    let Some(group) = HalfGroup::new(50_000) else { return };
    let folder = tempfile::tempdir().unwrap();
    Run::of(&mut mounted(LARGE, folder.path(), &recording(folder.path(), "free.json"))).ok();
    let cpuinfo = without_avx(folder.path());
    let lines = format!("{SMALL} && mount --bind \"$0\" /proc/cpuinfo");
    let command = mounted(&lines, &cpuinfo, &recording(folder.path(), "denied.json"));
    Run::of(&mut group.holds(&command)).ok();
    let compared = diff(folder.path(), "free.json", "denied.json");
    assert_eq!(
        codes(&compared)[..3],
        ["cpu-limit", "vector-instructions", "small-shared-memory"],
        "{compared}"
    );
    let human = Run::of(capgate(folder.path()).args(["record", "diff", "free.json", "denied.json"])).ok();
    let first = human.out.lines().find(|line| line.contains("cpu-limit")).unwrap();
    assert!(first.contains("no limit") && first.contains("0.5"), "{}", human.out);
}

#[test]
fn the_library_that_the_loader_picked_is_recorded_behind_the_mask_that_made_it_pick() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let cc = |words: &[&str]| {
        let made = Command::new("cc").current_dir(path).args(words).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let help = Command::new("/lib64/ld-linux-x86-64.so.2").arg("--help").output();
    let searched = |output: &std::process::Output| {
        String::from_utf8_lossy(&output.stdout).contains("x86-64-v3 (supported, searched)")
    };
    if !help.is_ok_and(|output| searched(&output)) {
        println!("left out: libraries for newer processors: this machine's loader looks for none");
        return;
    }
    fs::create_dir_all(path.join("lib/glibc-hwcaps/x86-64-v3")).unwrap();
    fs::write(path.join("slow.c"), "int speed(void) { return 1; }\n").unwrap();
    fs::write(path.join("main.c"), "int speed(void);\nint main(void) { return speed() != 1; }\n").unwrap();
    for to in ["lib/libspeed.so", "lib/glibc-hwcaps/x86-64-v3/libspeed.so"] {
        cc(&["-shared", "-fPIC", "-Wl,-soname,libspeed.so", "-o", to, "slow.c"]);
    }
    cc(&["-o", "program", "main.c", "-Llib", "-lspeed"]);
    for (name, tunables) in [("fast.json", ""), ("slow.json", "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable")] {
        let mut command = capgate(path);
        command.env("LD_LIBRARY_PATH", path.join("lib")).env("GLIBC_TUNABLES", tunables);
        Run::of(command.args(["record", "--out", name, "--", "./program"])).ok();
    }
    let picked = |name: &str| {
        let found = written(path, name);
        let libraries = found["capabilities"]["libraries"].as_array().unwrap().clone();
        let speed = libraries.iter().find(|library| library["name"] == "libspeed.so").unwrap();
        assert_eq!(speed["loaded"], "start");
        speed["path"].as_str().unwrap().contains("glibc-hwcaps")
    };
    assert!(picked("fast.json") && !picked("slow.json"));
    let compared = diff(path, "fast.json", "slow.json");
    let codes = codes(&compared);
    assert_eq!(codes[0], "masked-instructions", "{compared}");
    assert_eq!(compared["differences"][0]["b"], "avx2");
    assert!(codes.contains(&"library"), "{compared}");
}

#[test]
fn sixteen_times_slower_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let fast = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/llama-bench/small-10x.json");
    let fast = fs::read_to_string(fast).unwrap();
    let mut rows: serde_json::Value = serde_json::from_str(&fast).unwrap();
    for row in rows.as_array_mut().unwrap() {
        for list in ["samples_ns", "samples_ts"] {
            for sample in row[list].as_array_mut().unwrap() {
                let slower = sample.as_f64().unwrap() * if list == "samples_ns" { 16.0 } else { 1.0 / 16.0 };
                *sample = if list == "samples_ns" { (slower as u64).into() } else { slower.into() };
            }
        }
    }
    fs::write(path.join("fast.raw"), fast).unwrap();
    fs::write(path.join("slow.raw"), serde_json::to_string(&rows).unwrap()).unwrap();
    fs::write(path.join("model.gguf"), "GGUF").unwrap();
    let bench = |name: &str, raw: &str| {
        let mut command = capgate(path);
        // The samples come from a file: what is shown here is the comparison, not a measurement.
        let line = format!("cp {raw} bench.json");
        command.args(["record", "--samples", "bench.json", "--out", name, "--"]);
        command.args(["sh", "-c", "$BENCH", "bench", "-m", "model.gguf"]).env("BENCH", line);
        command
    };
    Run::of(&mut bench("fast.json", "fast.raw")).ok();
    let Some(group) = HalfGroup::new(6_250) else { return };
    Run::of(&mut group.holds(&bench("slow.json", "slow.raw"))).ok();
    let compared = diff(path, "fast.json", "slow.json");
    let outcome = &compared["outcomes"][0];
    let times = outcome["times_slower"].as_f64().unwrap();
    assert!((times - 16.0).abs() < 0.01, "{outcome}");
    assert_eq!(codes(&compared)[0], "cpu-limit", "{compared}");
    assert_eq!(compared["differences"][0]["b"], "0.0625");
    // Same machine, same model: neither is named.
    for code in ["chip", "model", "program", "argument", "machine-id"] {
        assert!(!codes(&compared).contains(&code), "{compared}");
    }
}
