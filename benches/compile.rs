//! Compiling a log into its snapshot: time and memory, one size a process (`CAPGATE_BENCH_RECORDS`, default 1,000,000).
#![allow(missing_docs, clippy::panic, reason = "a benchmark stops when something is wrong")]

mod support;

use std::time::Instant;

use capgate_registry::publish::{LIFE, Terms, publish};

fn main() {
    let count = std::env::var("CAPGATE_BENCH_RECORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let built = support::registry(count);
    if std::env::args().any(|arg| arg == "--build-only") {
        return;
    }
    let keys = [support::registry_key()];
    let terms =
        Terms { keys: &keys, now: support::start(), life: LIFE, renew: true, threads: support::threads() };
    let started = Instant::now();
    let mut first_record = None;
    let done = publish(&built.store, &built.pin, &[], &terms, &mut |_| {
        first_record.get_or_insert_with(|| started.elapsed());
    });
    let total = started.elapsed();
    let records = done.unwrap_or_else(|e| panic!("{e}")).latest.size;
    let reading = first_record.unwrap_or_default();
    println!(
        "{records} records: {total:.1?} in all ({reading:.1?} reading the log, {:.1?} writing), peak memory {} MiB",
        total - reading,
        support::peak_memory_mib()
    );
}
