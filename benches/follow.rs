//! What it costs to follow a registry, beside the same jobs with python-tuf in the same run: publishing one profile,
//! fetching it into a copy, verifying everything. Prints one table; docs/benchmarks.md says where the jobs differ.
//!
//! `CAPGATE_BENCH_RECORDS` is the size of the large registry (default 1,000,000); the small one has 1,000 records.
#![allow(missing_docs, clippy::panic, reason = "a benchmark stops when something is wrong")]

mod support;
#[path = "tuf/mod.rs"]
mod tuf;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use capgate::world::folder::Folder;
use capgate_registry::publish::{self, LIFE, Terms};
use capgate_registry::reader::{Anchor, Seen};
use capgate_registry::store::{Store, StoreMut};
use capgate_registry::sync::sync;
use capgate_registry::verify::verify;
use serde::{Deserialize, Serialize};
use support::counting::Counting;
use support::{Built, Plain};

const SMALL: u64 = 1_000;

/// How often each job runs in a registry of that size.
#[derive(Clone, Copy)]
struct Size {
    count: u64,
    publications: u64,
    /// The first of the publications, after which the copies follow.
    syncs: usize,
}

impl Size {
    /// Where each publication writes a snapshot of more than a gigabyte, ten show as much as a hundred.
    fn of(count: u64) -> Self {
        let (publications, syncs) = if count > 100_000 { (10, 5) } else { (100, 100) };
        Self { count, publications, syncs }
    }
}

/// Publications of one profile each, and how they reached a copy. Times are seconds.
#[derive(Default, Deserialize)]
struct Followed {
    publish: Vec<f64>,
    sync: Vec<f64>,
    /// The same into a copy that does not wait for the disk; python-tuf never does.
    #[serde(default)]
    unsynced: Vec<f64>,
    bytes: Vec<u64>,
    files: Vec<u64>,
}

/// A verification of everything.
#[derive(Serialize, Deserialize)]
struct Verified {
    count: u64,
    seconds: f64,
    /// Of the files that were verified.
    bytes: u64,
    /// MiB.
    memory: u64,
}

/// One job of one side.
struct Side {
    followed: Followed,
    verified: Verified,
}

fn main() {
    let mut args = std::env::args().skip_while(|arg| arg != "--verify").skip(1);
    if let (Some(folder), Some(pin)) = (args.next(), args.next()) {
        return verify_here(Path::new(&folder), &pin);
    }
    let large = std::env::var("CAPGATE_BENCH_RECORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let sizes = if large == SMALL { vec![SMALL] } else { vec![SMALL, large] };
    let sizes = sizes.into_iter().map(Size::of);
    let python = tuf::python();
    let mut rows = Vec::new();
    for size in sizes {
        eprintln!("{} records: capgate", size.count);
        let ours = capgate(size);
        eprintln!("{} records: python-tuf", size.count);
        let theirs = tuf::run(&python, size);
        rows.extend(compare(size, &ours, &theirs));
    }
    println!("| job | records | capgate | python-tuf | capgate / python-tuf |\n|---|---|---|---|---|");
    rows.iter().for_each(|row| println!("{row}"));
}

fn capgate(size: Size) -> Side {
    let built = support::registry(size.count);
    let work = support::data().join("follow");
    let [source, copy, unsynced] =
        ["source", "copy", "unsynced"].map(|name| linked(&built.store.0, &work.join(name)));
    let verified = verify_apart(&source, &built.pin.to_string());
    assert_eq!(verified.count, size.count, "every record is verified");
    let copies = (Folder::new(copy), Plain(unsynced));
    let followed = follow(&built, &Folder::new(source), &copies, size);
    drop(fs::remove_dir_all(&work));
    Side { followed, verified }
}

/// A copy of a registry out of hard links: a folder replaces whole files and changes none.
fn linked(from: &Path, to: &Path) -> PathBuf {
    drop(fs::remove_dir_all(to));
    fs::create_dir_all(to).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
    let status = Command::new("cp").arg("-al").arg(from.join(".")).arg(to).status();
    assert!(status.is_ok_and(|status| status.success()), "{} could not be linked", from.display());
    // The mark of the finished build is no part of a registry.
    fs::remove_file(to.join("done")).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
    to.to_owned()
}

/// Publishes one profile at a time, with every sync to the disk, and brings the copies up to each.
fn follow(built: &Built, source: &Folder, (copy, unsynced): &(Folder, Plain), size: Size) -> Followed {
    let keys = [support::registry_key()];
    let mut followed = Followed::default();
    let mut anchor = built.anchor();
    for n in size.count..size.count + size.publications {
        let note = support::signed(n);
        let terms =
            Terms { keys: &keys, now: anchor.now, life: LIFE, renew: false, threads: support::threads() };
        let begun = Instant::now();
        let done = publish::publish(source, &built.pin, &[note], &terms, &mut |_| {});
        followed.publish.push(begun.elapsed().as_secs_f64());
        assert_eq!(done.unwrap_or_else(|e| panic!("{e}")).appended.len(), 1);
        if followed.sync.len() == size.syncs {
            continue;
        }
        let counting = Counting::new(source);
        followed.unsynced.push(fetch(&counting, unsynced, &anchor, n).0);
        followed.bytes.push(counting.bytes());
        followed.files.push(counting.files() as u64);
        let (seconds, seen) = fetch(source, copy, &anchor, n);
        followed.sync.push(seconds);
        anchor.seen = seen;
    }
    followed
}

/// Brings a copy up to entry `n`; returns how long it took, and what was seen.
fn fetch(source: &dyn Store, copy: &dyn StoreMut, anchor: &Anchor, n: u64) -> (f64, Seen) {
    let begun = Instant::now();
    let synced = sync(source, copy, anchor, support::threads(), &mut |_, _| {});
    let seconds = begun.elapsed().as_secs_f64();
    let synced = synced.unwrap_or_else(|e| panic!("{e}"));
    assert!(synced.fetched == 1 && !synced.repaired && synced.latest.log_size == n + 1, "one more entry");
    (seconds, synced.seen)
}

/// Verifies in a process of its own, whose memory is nobody else's.
fn verify_apart(folder: &Path, pin: &str) -> Verified {
    let this = std::env::current_exe().unwrap_or_else(|e| panic!("{e}"));
    let mut command = Command::new(this);
    said(command.arg("--verify").arg(folder).arg(pin))
}

fn verify_here(folder: &Path, pin: &str) {
    let pin = pin.parse().unwrap_or_else(|e| panic!("{pin}: {e}"));
    let begun = Instant::now();
    let folder = Folder::new(folder);
    let report = verify(&folder, &pin, support::start(), &mut |_| {});
    let seconds = begun.elapsed().as_secs_f64();
    assert!(report.faults.is_empty(), "{:?}", report.faults.first());
    let memory = support::peak_memory_mib();
    let files = folder.list().unwrap_or_else(|e| panic!("{e}"));
    let bytes = files.iter().map(|file| file.size).sum();
    let verified = Verified { count: report.records, seconds, bytes, memory };
    println!("{}", serde_json::to_string(&verified).unwrap_or_else(|e| panic!("{e}")));
}

/// What a program says as JSON; its errors go to the terminal.
fn said<T: serde::de::DeserializeOwned>(command: &mut Command) -> T {
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?} ended with {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn compare(size: Size, ours: &Side, theirs: &Side) -> Vec<String> {
    let row = |job: &str, value: &dyn Fn(&Side) -> f64, show: &dyn Fn(f64) -> String| {
        let (ours, theirs) = (value(ours), value(theirs));
        let records = grouped(size.count);
        format!("| {job} | {records} | {} | {} | {:.2} |", show(ours), show(theirs), ours / theirs)
    };
    let median_of = |values: &[u64]| median(&values.iter().map(|&value| value as f64).collect::<Vec<_>>());
    let unsynced = |side: &Side| {
        let Followed { sync, unsynced, .. } = &side.followed;
        median(if unsynced.is_empty() { sync } else { unsynced })
    };
    let all = format!("all {} publications: time", size.publications);
    vec![
        row("sync of 1 new profile: time", &|side| median(&side.followed.sync), &time),
        row("the same, not waiting for the disk: time", &unsynced, &time),
        row("sync of 1 new profile: bytes fetched", &|side| median_of(&side.followed.bytes), &whole),
        row("sync of 1 new profile: files fetched", &|side| median_of(&side.followed.files), &whole),
        row("verify all: time", &|side| side.verified.seconds, &time),
        row("verify all: bytes of the files", &|side| side.verified.bytes as f64, &whole),
        row("verify all: peak memory", &|side| side.verified.memory as f64, &|mib| format!("{mib:.0} MiB")),
        row("publish 1 profile: time", &|side| median(&side.followed.publish), &time),
        row(&all, &|side| side.followed.publish.iter().sum(), &time),
    ]
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

fn whole(value: f64) -> String {
    grouped(value as u64)
}

/// A number with a comma before every third digit from the end.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
