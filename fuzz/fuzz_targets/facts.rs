//! A facts file with a real registry behind it: only the combination that was published is ever granted.
#![no_main]

#[path = "../../registry/tests/support/mod.rs"]
mod support;

use std::cell::OnceCell;

use capgate_policy::decide::{Input, decide};
use capgate_policy::facts::{Source, parse_facts_file};
use capgate_policy::host::HostState;
use capgate_registry::profile::Profile;
use capgate_registry::reader::Reader;
use libfuzzer_sys::fuzz_target;
use support::{World, profile};

thread_local! {
    static READER: OnceCell<(Reader, Profile)> = const { OnceCell::new() };
}

fn published() -> (Reader, Profile) {
    let world = World::new();
    let toml = profile("profile-1", 1);
    world.publish(&[world.sign(&toml)]).unwrap();
    (world.open().unwrap(), Profile::parse(toml.as_bytes()).unwrap())
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(facts) = parse_facts_file(bytes) else { return };
    READER.with(|cell| {
        let (reader, profile) = cell.get_or_init(published);
        let decision = decide(&Input {
            switched_off: false,
            registry: Ok(reader),
            site: Ok(None),
            facts: &facts,
            host: &HostState::Missing,
            now: "2026-12-01T01:00:00Z".parse().unwrap(),
            seen: None,
        });
        let Some(values) = decision.values() else { return };
        assert_eq!(values, profile.overrides[0].values);
        assert_eq!(facts.host_chip.known(), Some(&profile.host.chip));
        assert_eq!(facts.guest_os_build.known(), Some(&profile.guest.os.build));
        assert_eq!(facts.program.sha256.known(), profile.workload.sha256.as_ref());
        let Source::File { host_os_build } = &facts.source else { panic!("a file is no machine") };
        assert_eq!(host_os_build.known(), Some(&profile.host.os.build));
    });
});
