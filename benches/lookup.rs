//! Lookups in registries of 1,000 and 1,000,000 records, and what they are made of.
#![allow(missing_docs, clippy::panic, reason = "a benchmark stops when something is wrong")]

mod support;

use std::hint::black_box;

use capgate_registry::combination::Key;
use capgate_registry::note::{self, Kind, Note};
use capgate_registry::profile::Profile;
use capgate_registry::reader::Reader;
use capgate_registry::record::Lookup;
use capgate_registry::snapshot::RawRecord;
use criterion::{Criterion, criterion_group, criterion_main};

fn lookups(c: &mut Criterion) {
    for count in [1_000, 1_000_000] {
        let built = support::registry(count);
        let reader = Reader::open(&built.store, &built.anchor()).unwrap_or_else(|e| panic!("{e}"));
        // Every 997th key: far apart, and all of them warm after the first round.
        let keys: Vec<_> = (0..1_000).map(|n| support::key_of(n * 997 % count)).collect();
        let mut next = keys.iter().cycle();
        c.bench_function(&format!("search and proof, {count} records"), |b| {
            b.iter(|| black_box(reader.snapshot().find(next.next().unwrap_or_else(|| panic!()))).is_ok());
        });
        c.bench_function(&format!("lookup, signatures apart, {count} records"), |b| {
            b.iter(|| {
                black_box(without_signatures(&reader, next.next().unwrap_or_else(|| panic!()))).is_some()
            });
        });
        c.bench_function(&format!("whole lookup with one signature, {count} records"), |b| {
            b.iter(|| black_box(reader.lookup(next.next().unwrap_or_else(|| panic!()))).is_ok());
        });
        c.bench_function(&format!("opening, {count} records"), |b| {
            b.iter(|| black_box(Reader::open(&built.store, &built.anchor())).is_ok());
        });
    }
}

/// All that a lookup does but to verify the publisher's signature: search, proof, note, profile, key.
fn without_signatures(reader: &Reader, key: &Key) -> Option<Profile> {
    let record = reader.snapshot().find(key).ok()??;
    let raw = RawRecord::decode(&record)?;
    let note = Note::parse(&raw.profiles.first()?.note).ok()?;
    let body = note::body(note.text(), Kind::Profile, reader.chain().origin()).ok()?;
    let profile = Profile::parse(body.as_bytes()).ok()?;
    profile.keys().contains(key).then_some(profile)
}

fn parts(c: &mut Criterion) {
    let built = support::registry(1_000);
    let reader = Reader::open(&built.store, &built.anchor()).unwrap_or_else(|e| panic!("{e}"));
    let record = reader.snapshot().record(0).unwrap_or_else(|e| panic!("{e}"));
    let raw = RawRecord::decode(&record).unwrap_or_else(|| panic!());
    let bytes = raw.profiles.into_iter().next().unwrap_or_else(|| panic!()).note;
    let note = Note::parse(&bytes).unwrap_or_else(|e| panic!("{e}"));
    let keys = &reader.chain().current().publisher.keys;
    c.bench_function("note: parse", |b| b.iter(|| black_box(Note::parse(&bytes)).is_ok()));
    c.bench_function("note: verify one signature", |b| b.iter(|| black_box(note.verify(keys, 1)).is_ok()));
    let small = support::profile(1);
    let real = include_str!("../profiles.d/m1-ultra-25g76-25f84-llama-bench-b10167.toml");
    for (name, toml) in [("one piece of evidence", small.as_str()), ("two pieces of evidence", real)] {
        c.bench_function(&format!("profile: parse, {name}, {} bytes", toml.len()), |b| {
            b.iter(|| black_box(Profile::parse(toml.as_bytes())).is_ok());
        });
    }
}

criterion_group!(benches, lookups, parts);
criterion_main!(benches);
