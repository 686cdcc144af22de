//! `bench.json`, the file of `--machine` and llama-bench's words: what is read is written as it was.
#![no_main]

use capgate_registry::evidence::bench::arguments;
use capgate_registry::evidence::bench::machine::Machine;
use capgate_registry::evidence::bench::state::{State, machine_text};
use capgate_registry::evidence::manifest::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(machine) = Machine::parse(bytes) {
        // What nobody could see in a name is written as a space.
        if let Ok(again) = Machine::parse(machine_text(&machine).as_bytes()) {
            assert_eq!(machine_text(&again), machine_text(&machine));
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if let Ok(line) = arguments::prepare(&words) {
            // What was prepared needs no more.
            assert_eq!(arguments::prepare(&line.words).map(|again| again.words).ok(), Some(line.words));
        }
    }
    let Ok(state) = State::parse(bytes) else { return };
    let again = State::parse(state.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!(again.to_json().unwrap(), state.to_json().unwrap());
    if let Ok(manifest) = state.manifest(&[]) {
        if let Ok(read) = Manifest::parse(manifest.to_toml().as_bytes()) {
            assert_eq!(read.to_toml(), manifest.to_toml());
        }
    }
});
