//! What the injected library costs at the start of a process: rounds in which the same program starts without it,
//! refused and granted, one after the other, so that a busy machine slows all of them.
//!
//! The program is `tests/metal/ask.c` on the stand-ins of the tests; nothing here ran on macOS.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]
#![allow(dead_code, reason = "it uses a part of what the tests share")]
#![allow(clippy::cast_precision_loss, reason = "microseconds are far below 2^52")]

#[path = "../tests/shim/built.rs"]
mod built;
#[path = "../tests/shim/guest.rs"]
mod guest;
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use capgate_registry::note::{self, Kind, Origin};
use guest::{CDHASH, Guest, Plan};

const ROUNDS: usize = 400;

fn main() {
    let library = build();
    // SAFETY: nothing else runs yet.
    #[allow(unsafe_code, reason = "a benchmark of one thread")]
    unsafe {
        std::env::set_var("CAPGATE_SHIM_LIBRARY", &library);
    }
    println!("library: {} bytes", stripped(&library));
    let granted = Plan::default().make();
    let refused = Plan::default().standin("cdhash", format!("{}2\n", &CDHASH[..39])).make();
    compare(&granted, &refused);
    cold();
}

/// The library as it is shipped, but for Linux.
fn build() -> std::path::PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let line = ["build", "--quiet", "--profile", "shim", "--package", "capgate-shim", "--target-dir"];
    let status = Command::new(env!("CARGO")).args(line).arg(target).status().unwrap();
    assert!(status.success());
    target.join("shim/libcapgate.so")
}

fn stripped(library: &Path) -> u64 {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stripped.so");
    assert!(Command::new("strip").arg("-o").arg(&copy).arg(library).status().unwrap().success());
    copy.metadata().unwrap().len()
}

fn compare(granted: &Guest, refused: &Guest) {
    let program = &built::built().ask;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let commands =
            [refused.command_with(program, ""), refused.command(program), granted.command(program)];
        for (mut command, times) in commands.into_iter().zip(&mut times) {
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let begun = Instant::now();
            assert!(command.status().unwrap().success());
            times.push(begun.elapsed().as_micros() as f64);
        }
    }
    let [alone, stock, grant] = times;
    println!("process without the library: {:.0} µs", median(&alone));
    for (name, times) in [("refused (no-profile)", &stock), ("granted, Metal's stand-in loaded", &grant)] {
        let ratios: Vec<f64> = times.iter().zip(&alone).map(|(with, without)| with / without).collect();
        let more: Vec<f64> = times.iter().zip(&alone).map(|(with, without)| with - without).collect();
        println!(
            "process {name}: {:.0} µs, paired difference {:.0} µs, paired ratio {:.2}",
            median(times),
            median(&more),
            median(&ratios)
        );
    }
    for (name, guest) in [("refused", refused), ("granted", granted)] {
        println!("constructor up to its log line, {name}: {:.0} µs", median(&micros(guest)));
    }
}

fn micros(guest: &Guest) -> Vec<f64> {
    guest
        .lines()
        .iter()
        .filter(|line| line["stage"] == "start")
        .map(|line| line["micros"].as_u64().unwrap() as f64)
        .collect()
}

/// A registry of 1,000,000 records whose files are not in memory.
fn cold() {
    let data = std::env::var_os("CAPGATE_BENCH_DATA")
        .map_or_else(|| "target/bench-data".into(), std::path::PathBuf::from);
    if !data.join("1000000/done").exists() {
        println!("cold: left out, `cargo bench --bench lookup` builds the registry of 1,000,000 records");
        return;
    }
    let built = support::registry(1_000_000);
    let plan = Plan { statement: None, ..Plan::default() };
    let guest = plan.make();
    fs::remove_dir_all(guest.state("registry")).unwrap();
    let copied =
        Command::new("cp").arg("-rl").arg(&built.store.0).arg(guest.state("registry")).status().unwrap();
    assert!(copied.success());
    guest.put("root.note", &format!("sha256:{}\n", built.pin));
    let text = note::compose(Kind::Host, &Origin::parse("registry.test/bench").unwrap(), &guest::statement())
        .unwrap();
    fs::write(guest.state("host.note"), note::sign(&text, &[&plan.host]).unwrap()).unwrap();
    let run = |cool: bool| {
        drop(fs::remove_file(guest.log()));
        for _ in 0..if cool { 40 } else { 200 } {
            if cool {
                forget(&guest.state("registry"));
            }
            let ran = guest.finish(&mut guest.command(&built::built().ask));
            assert!(ran.err.contains("Stock: no-profile"), "{}", ran.err);
        }
        median(&micros(&guest))
    };
    println!("1,000,000 records, warm: {:.0} µs", run(false));
    println!("1,000,000 records, files out of memory: {:.0} µs", run(true));
}

/// Takes every file below a folder out of the page cache.
fn forget(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            forget(&path);
        } else {
            let file = fs::File::open(&path).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
