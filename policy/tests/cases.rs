//! One file per row of the decision table, and per fact that can be missing or malformed.
//!
//! Each file in `cases/` changes something in a world where everything is right (`support/`) and says what must come
//! out. Facts, site policies and profiles are given as text, as they are read in earnest.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use capgate_policy::decide::{LoadedImage, Seen};
use capgate_policy::facts::{Fact, Facts, Sha256Trust, Source, guest_model, parse_facts_file};
use capgate_policy::host::{HostState, HostStatement};
use capgate_policy::reason::Reason;
use capgate_policy::site::{SiteDoubt, SitePolicy};
use capgate_registry::combination::Chip;
use capgate_registry::keys::SigningKey;
use capgate_registry::profile::Profile;
use capgate_registry::record::{Doubt, Published};
use capgate_registry::witness::WitnessKey;
use serde::Deserialize;
use support::{PROFILE, World, published, revocation, time};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What it shows.
    why: String,
    expect: Expect,
    #[serde(default)]
    switched_off: bool,
    /// The code of a doubt about the registry as a whole.
    registry_doubt: Option<String>,
    /// The same, met by the lookup.
    lookup_doubt: Option<String>,
    now: Option<String>,
    seen_version: Option<u64>,
    seen_time: Option<String>,
    /// A site policy, or `unreadable`, or `malformed`.
    site: Option<String>,
    /// What the system gave; `-` means nothing.
    #[serde(default)]
    facts: BTreeMap<String, String>,
    /// A facts file in place of this machine.
    facts_file: Option<String>,
    /// `missing`, `unreadable`, `malformed`, `wrong-signer`, or what to change in the statement: from, to.
    host: Option<Host>,
    /// What stands under both keys; without any, the tested profile.
    profile: Option<Vec<Stands>>,
    log: Option<String>,
    #[serde(default)]
    device: Device,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// A reason's code; a grant has none.
    reason: Option<String>,
    values: Option<(u64, u64)>,
    /// Warnings that must be among those of the grant.
    #[serde(default)]
    warnings: Vec<String>,
    correctness: Option<String>,
    rule: Option<String>,
    withheld: Option<(u64, u64)>,
    /// Words that the detail must hold.
    detail: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Host {
    State(String),
    Change(Vec<(String, String)>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stands {
    /// What to change in the text of the tested profile: from, to.
    #[serde(default)]
    change: Vec<(String, String)>,
    signers: Option<Vec<String>>,
    #[serde(default)]
    revoked: bool,
    /// Stands under one key only: `sha256` or `cdhash`.
    only: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Device {
    apple_family: Option<u64>,
    max_threadgroup_memory: Option<u64>,
    images: Option<Vec<(String, String)>>,
}

fn change(text: &str, changes: &[(String, String)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "nothing to change: {from}");
        text.replace(from, to)
    })
}

fn doubt(code: &str) -> Doubt {
    let text = String::from("as the case says");
    let all = [
        Doubt::Missing(text.clone()),
        Doubt::Unreadable(text.clone()),
        Doubt::Malformed(text.clone()),
        Doubt::Unsigned(text.clone()),
        Doubt::WrongKey(text.clone()),
        Doubt::WrongOrigin(text.clone()),
        Doubt::Expired(text.clone()),
        Doubt::Rollback(text.clone()),
        Doubt::Corrupt(text.clone()),
        Doubt::Unwitnessed(text.clone()),
        Doubt::ClockBehind(text),
    ];
    all.into_iter().find(|doubt| doubt.code() == code).expect("a doubt's code")
}

impl Case {
    fn world(&self) -> World {
        let mut world = World::tested();
        world.switched_off = self.switched_off;
        world.registry_doubt = self.registry_doubt.as_deref().map(doubt);
        self.set_dates(&mut world);
        self.set_site(&mut world);
        self.set_facts(&mut world.facts);
        if let Some(host) = &self.host {
            world.host = host_state(host, &world.host);
        }
        if let Some(stands) = &self.profile {
            set_profiles(stands, &mut world);
        }
        for shelf in &mut world.registry.shelves {
            shelf.doubt = self.lookup_doubt.as_deref().map(doubt);
        }
        world.log = self.log.clone().map_or(Ok(()), Err);
        self.set_device(&mut world);
        world
    }

    fn set_dates(&self, world: &mut World) {
        if let Some(now) = &self.now {
            world.now = time(now);
        }
        let seen = world.seen.unwrap();
        world.seen = Some(Seen {
            version: self.seen_version.unwrap_or(seen.version),
            time: self.seen_time.as_deref().map_or(seen.time, time),
        });
    }

    fn set_site(&self, world: &mut World) {
        match self.site.as_deref() {
            None => {}
            Some("unreadable") => world.site_doubt = Some(SiteDoubt::Unreadable("denied".into())),
            Some("malformed") => world.site_doubt = Some(SiteDoubt::Malformed("line 3".into())),
            Some(text) => {
                let key = SigningKey::from_seed("witness.test", [21; 32]).unwrap();
                let witness = WitnessKey::new(key.verifier().clone()).to_string();
                let text = text.replace("WITNESS", &witness);
                world.site = Some(SitePolicy::parse(text.as_bytes()).unwrap());
            }
        }
    }

    fn set_facts(&self, facts: &mut Facts) {
        if let Some(file) = &self.facts_file {
            *facts = parse_facts_file(file.as_bytes()).unwrap();
        }
        for (name, text) in &self.facts {
            let text = Some(text.as_str()).filter(|&text| text != "-");
            match (name.as_str(), &mut facts.source) {
                ("brand", _) => facts.host_chip = Fact::read(text, Chip::from_guest),
                ("os_build", _) => facts.guest_os_build = Fact::read(text, str::parse),
                ("sha256", _) => facts.program.sha256 = Fact::read(text, str::parse),
                ("cdhash", _) => facts.program.cdhash = Fact::read(text, str::parse),
                ("sha256_trust", _) => facts.program.sha256_trust = Sha256Trust::Unproven,
                ("virtual", Source::Machine { virtual_machine, .. }) => {
                    *virtual_machine = Fact::read(text, |text| match text {
                        "1" => Ok(true),
                        "0" => Ok(false),
                        other => Err(format!("`{other}` is neither 0 nor 1")),
                    });
                }
                ("model", Source::Machine { guest_model: model, .. }) => *model = guest_model(text),
                ("mac", Source::Machine { mac_addresses, .. }) => {
                    *mac_addresses = Fact::read(text, |text| text.parse().map(|mac| vec![mac]));
                }
                (other, _) => panic!("no such fact: {other}"),
            }
        }
    }

    fn set_device(&self, world: &mut World) {
        let answers = &mut world.device.answers;
        answers.apple_family = self.device.apple_family.or(answers.apple_family);
        answers.max_threadgroup_memory =
            self.device.max_threadgroup_memory.unwrap_or(answers.max_threadgroup_memory);
        if let Some(images) = &self.device.images {
            let loaded = |(name, sha256): &(String, String)| LoadedImage {
                name: name.clone(),
                sha256: sha256.parse().ok(),
                cdhash: None,
            };
            world.device.images = images.iter().map(loaded).collect();
        }
    }
}

fn host_state(host: &Host, sound: &HostState) -> HostState {
    let HostState::Signed(statement) = sound else { panic!("the sound world has a statement") };
    match host {
        Host::State(state) => match state.as_str() {
            "missing" => HostState::Missing,
            "unreadable" => HostState::Unreadable("denied".into()),
            "malformed" => HostState::Malformed("line 1".into()),
            "wrong-signer" => HostState::WrongSigner("signed by none".into()),
            other => panic!("no such state: {other}"),
        },
        Host::Change(changes) => {
            let text = change(&statement.to_toml(), changes);
            HostState::Signed(HostStatement::parse(text.as_bytes()).unwrap())
        }
    }
}

fn set_profiles(stands: &[Stands], world: &mut World) {
    for shelf in &mut world.registry.shelves {
        shelf.published.clear();
    }
    for (index, one) in stands.iter().enumerate() {
        let profile = Profile::parse(change(PROFILE, &one.change).as_bytes()).unwrap();
        let mut entry = Published { index: index as u64, ..published(profile) };
        entry.signers = one.signers.clone().unwrap_or(entry.signers);
        entry.revoked = one.revoked.then(|| revocation(&entry.profile));
        for (shelf, name) in world.registry.shelves.iter_mut().zip(["sha256", "cdhash"]) {
            if one.only.as_deref().is_none_or(|only| only == name) {
                shelf.published.push(entry.clone());
            }
        }
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn read(file: &Path) -> Case {
    let text = std::fs::read_to_string(file).unwrap();
    toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

#[test]
fn every_case_comes_out_as_its_file_says() {
    for file in files() {
        let case = read(&file);
        let decision = case.world().run();
        let json = serde_json::to_value(&decision).unwrap();
        let context = format!("{}: {}\n{json:#}", file.display(), case.why);
        let expect = &case.expect;
        assert_eq!(decision.reason().map(Reason::code), expect.reason.as_deref(), "{context}");
        let values = decision.values().map(|v| (v.apple_family_max, v.max_threadgroup_memory));
        assert_eq!(values, expect.values, "{context}");
        assert_eq!(values.is_some(), json["outcome"] == "grant", "{context}");
        assert_eq!(json["apple_family_max"].as_u64(), values.map(|v| v.0), "{context}");
        assert_eq!(json["max_threadgroup_memory"].as_u64(), values.map(|v| v.1), "{context}");
        for warning in &expect.warnings {
            assert!(json["warnings"].as_array().unwrap().contains(&warning.as_str().into()), "{context}");
        }
        for (key, wanted) in [("correctness", &expect.correctness), ("rule", &expect.rule)] {
            assert!(wanted.is_none() || json[key].as_str() == wanted.as_deref(), "{context}");
        }
        if let Some((family, memory)) = expect.withheld {
            assert_eq!(json["withheld"]["apple_family_max"], family, "{context}");
            assert_eq!(json["withheld"]["max_threadgroup_memory"], memory, "{context}");
        }
        if let Some(words) = &expect.detail {
            assert!(json["detail"].as_str().unwrap().contains(words.as_str()), "{context}");
        }
    }
}

/// All but the one that belongs to whoever starts a program.
#[test]
fn every_reason_has_a_case() {
    let covered: BTreeSet<Option<String>> = files().iter().map(|file| read(file).expect.reason).collect();
    let missing: Vec<_> = Reason::ALL
        .iter()
        .filter(|r| **r != Reason::NotInserted && !covered.contains(&Some(r.code().to_owned())))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(covered.contains(&None), "no case grants");
}

/// Scripts read these keys; both outcomes have all of them.
#[test]
fn both_outcomes_have_the_same_json_keys() {
    let grant = serde_json::to_value(World::tested().run()).unwrap();
    let stock = World { switched_off: true, ..World::tested() };
    let stock = serde_json::to_value(stock.run()).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&grant), keys(&stock));
    for key in ["outcome", "reason", "apple_family_max", "max_threadgroup_memory", "profile"] {
        assert!(grant.get(key).is_some(), "{key}");
    }
    assert_eq!(grant["profile"], "m1-ultra-25g76-25f84-llama-bench-b10167");
    assert!(grant["reason"].is_null() && stock["apple_family_max"].is_null());
}
